package window

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func windows(t *testing.T, a Assigner, ts int64) []Span {
	t.Helper()
	if a.Err() != nil {
		t.Fatal(a.Err())
	}
	return slices.Collect(a.Windows(ts))
}

func TestW01NegativeTimestamps(t *testing.T) {
	for _, c := range []struct {
		offset time.Duration
		ts     int64
		want   Span
	}{
		{0, -1, Span{-10, 0}}, {0, -10, Span{-10, 0}}, {0, -11, Span{-20, -10}},
		{0, 0, Span{0, 10}}, {0, 9, Span{0, 10}}, {0, 10, Span{10, 20}},
		{3 * ms, -1, Span{-7, 3}}, {3 * ms, -8, Span{-17, -7}}, {3 * ms, 2, Span{-7, 3}}, {3 * ms, 3, Span{3, 13}},
		{-3 * ms, -1, Span{-3, 7}}, {-3 * ms, 7, Span{7, 17}}, {-3 * ms, -4, Span{-13, -3}},
	} {
		if got := windows(t, Tumbling(10*ms, Offset(c.offset)), c.ts); !slices.Equal(got, []Span{c.want}) {
			t.Errorf("offset %v, %d: %v, want %v", c.offset, c.ts, got, c.want)
		}
	}
}

func TestK17NegativeKafkaTimestamp(t *testing.T) {
	got := windows(t, Tumbling(10*ms), -6795364578871)
	if want := (Span{-6795364578880, -6795364578870}); !slices.Equal(got, []Span{want}) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestW04GapsBetweenWindows(t *testing.T) {
	a := Sliding(3*ms, 5*ms)
	for ts, want := range map[int64][]Span{0: {{0, 3}}, 2: {{0, 3}}, 3: nil, 4: nil, 5: {{5, 8}}, -1: nil, -3: {{-5, -2}}} {
		if got := windows(t, a, ts); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", ts, got, want)
		}
		if s, ok := a.Slice(ts); ok != (want != nil) || ok && s != want[0] {
			t.Errorf("%d: slice %v, %v", ts, s, ok)
		}
		if a.Check(ts) != nil || want == nil && a.Late(ts, math.MaxInt64, 0) {
			t.Errorf("%d: in a gap is neither an error nor late", ts)
		}
	}
}

func TestW05FarFromAlignment(t *testing.T) {
	const ts = 1709315512577
	for slide, want := range map[time.Duration][]Span{
		800 * ms: {{1709315511200, 1709315512800}, {1709315512000, 1709315513600}},
		700 * ms: {{1709315511400, 1709315513000}, {1709315512100, 1709315513700}},
	} {
		if got := windows(t, Sliding(1600*ms, slide), ts); !slices.Equal(got, want) {
			t.Errorf("slide %v: %v, want %v", slide, got, want)
		}
	}
}

func TestW05LimitsAreErrors(t *testing.T) {
	a := Tumbling(10 * ms)
	for _, ts := range []int64{math.MaxInt64 - 1, math.MaxInt64, math.MinInt64 + 1} {
		if err := a.Check(ts); !errors.Is(err, ErrOutOfRange) {
			t.Errorf("%d: %v, want ErrOutOfRange", ts, err)
		}
		if s, ok := a.Slice(ts); ok {
			t.Errorf("%d: slice %v", ts, s)
		}
		if got := windows(t, a, ts); got != nil {
			t.Errorf("%d: windows %v", ts, got)
		}
	}
}

func TestW06EndIsExclusive(t *testing.T) {
	a := Tumbling(10 * ms)
	first, second := windows(t, a, 9)[0], windows(t, a, 10)[0]
	if first != (Span{0, 10}) || second != (Span{10, 20}) {
		t.Fatalf("%v, %v", first, second)
	}
	if first.MaxTimestamp() != 9 || second.MaxTimestamp() != 19 {
		t.Errorf("max timestamps %d, %d", first.MaxTimestamp(), second.MaxTimestamp())
	}
	if a.Late(9, 8, 0) || !a.Late(9, 9, 0) {
		t.Error("[0,10) is complete at watermark 9, not at 8")
	}
}

func TestW15LatenessEndsAtCleanup(t *testing.T) {
	a := Tumbling(10 * ms)
	if a.Late(1, 13, 5) || !a.Late(1, 14, 5) {
		t.Error("with lateness 5, [0,10) expires at watermark 14")
	}
	if got := (Span{0, 10}).Expiry(math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("expiry with endless lateness: %d", got)
	}
}

func TestW23HugeJump(t *testing.T) {
	a := Tumbling(time.Second)
	if end, ok := a.EndAfter(1600000000000, 1000); !ok || end != 1600000001000 {
		t.Errorf("%d, %v", end, ok)
	}
	s := Sliding(time.Hour, ms)
	if end, ok := s.EndAfter(0, 1_000_000); !ok || end != 1_000_001 {
		t.Errorf("%d, %v", end, ok)
	}
}

func TestW26Bounds(t *testing.T) {
	s := windows(t, Tumbling(20*time.Minute), 1199999)[0]
	if !s.StartTime().Equal(time.UnixMilli(0)) || !s.EndTime().Equal(time.UnixMilli(1200000)) || s.MaxTimestamp() != 1199999 {
		t.Errorf("%v", s)
	}
	if got := s.String(); got != "[1970-01-01T00:00:00Z,1970-01-01T00:20:00Z)" {
		t.Error(got)
	}
}

func TestW24FixedOffsetDays(t *testing.T) {
	at := func(s string) int64 {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v.UnixMilli()
	}
	got := windows(t, Tumbling(24*time.Hour, Offset(5*time.Hour)), at("2026-03-09T04:30:00Z"))
	if want := (Span{at("2026-03-08T05:00:00Z"), at("2026-03-09T05:00:00Z")}); !slices.Equal(got, []Span{want}) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestW27NoTimestamp(t *testing.T) {
	a := Tumbling(10 * ms)
	if err := a.Check(math.MinInt64); !errors.Is(err, ErrNoTimestamp) {
		t.Errorf("%v", err)
	}
	if _, ok := a.Slice(math.MinInt64); ok {
		t.Error("a window at the start of time")
	}
}

func TestInvalidArguments(t *testing.T) {
	for _, c := range []struct {
		a    Assigner
		part string
	}{
		{Tumbling(0), "window size 0s: it must be positive"},
		{Tumbling(-time.Second), "must be positive"},
		{Sliding(time.Second, 0), "window slide 0s"},
		{Tumbling(1500 * time.Microsecond), "window size 1.5ms: it must be a whole number"},
		{Sliding(time.Second, time.Microsecond), "window slide 1µs"},
		{Tumbling(time.Second, Offset(time.Second)), "window offset 1s: it must be shorter than the 1s"},
		{Sliding(time.Minute, time.Second, Offset(-time.Second)), "window offset -1s"},
		{Tumbling(time.Second, Offset(1)), "window offset 1ns"},
		{Assigner{}, "no window is given"},
	} {
		if err := c.a.Err(); err == nil || !strings.Contains(err.Error(), c.part) {
			t.Errorf("error %v, want one that contains %q", err, c.part)
		}
	}
	if err := Sliding(time.Minute, time.Hour, Offset(-59*time.Minute)).Err(); err != nil {
		t.Error(err)
	}
}

func TestString(t *testing.T) {
	for want, a := range map[string]Assigner{
		"tumbling(10s)":                    Tumbling(10 * time.Second),
		"sliding(1h0m0s,1m0s)":             Sliding(time.Hour, time.Minute),
		"tumbling(24h0m0s,offset=-8h0m0s)": Tumbling(24*time.Hour, Offset(-8*time.Hour)),
		"sliding(1.6s,700ms,offset=1ms)":   Sliding(1600*ms, 700*ms, Offset(ms)),
	} {
		if got := a.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// naive lists the windows of ts by trying all starts near it.
func naive(size, slide, offset, ts int64) []Span {
	var out []Span
	for s := ts - size + 1; s <= ts; s++ {
		if ((s-offset)%slide+slide)%slide == 0 {
			out = append(out, Span{s, s + size})
		}
	}
	return out
}

func TestAgainstNaive(t *testing.T) {
	for size := int64(1); size <= 12; size++ {
		for slide := int64(1); slide <= 14; slide++ {
			for offset := 1 - slide; offset < slide; offset++ {
				a := Sliding(time.Duration(size)*ms, time.Duration(slide)*ms, Offset(time.Duration(offset)*ms))
				for ts := int64(-30); ts <= 30; ts++ {
					compare(t, a, ts)
				}
			}
		}
	}
}

func compare(t *testing.T, a Assigner, ts int64) {
	t.Helper()
	want := naive(a.Size(), a.Slide(), a.Offset(), ts)
	if got := windows(t, a, ts); !slices.Equal(got, want) {
		t.Fatalf("%v, %d: %v, want %v", a, ts, got, want)
	}
	s, ok := a.Slice(ts)
	if ok != (len(want) > 0) {
		t.Fatalf("%v, %d: slice %v %v, windows %v", a, ts, s, ok, want)
	}
	if !ok {
		return
	}
	if !s.Contains(ts) {
		t.Fatalf("%v: slice %v does not contain %d", a, s, ts)
	}
	for _, edge := range []int64{s.Start, s.End - 1} {
		if other := naive(a.Size(), a.Slide(), a.Offset(), edge); !slices.Equal(other, want) {
			t.Fatalf("%v: slice %v of %d is covered by %v and %v", a, s, ts, other, want)
		}
	}
	for after := want[0].End - 2; after <= want[len(want)-1].End; after++ {
		i := slices.IndexFunc(want, func(w Span) bool { return w.End > after })
		end, ok := a.EndAfter(ts, after)
		if ok != (i >= 0) || ok && end != want[i].End {
			t.Fatalf("%v: end of %d after %d: %d %v, windows %v", a, ts, after, end, ok, want)
		}
	}
	count := map[int64]bool{}
	for at := want[0].Start; at < want[0].End; at++ {
		start, ok := a.SliceStart(at)
		if !ok || start < want[0].Start {
			t.Fatalf("%v: slice of %d begins at %d, before %v", a, at, start, want[0])
		}
		count[start] = true
	}
	if len(count) != a.MaxSlices() {
		t.Fatalf("%v: %d slices in a window, want %d", a, len(count), a.MaxSlices())
	}
}

func FuzzSlice(f *testing.F) {
	f.Add(int64(1600), int64(700), int64(0), int64(1709315512577))
	f.Add(int64(10), int64(10), int64(3), int64(math.MaxInt64-1))
	f.Add(int64(math.MaxInt64), int64(1), int64(0), int64(math.MinInt64))
	f.Add(int64(3e6), int64(3e6), int64(0), int64(1<<52-1))
	f.Add(int64(3e6), int64(3e6), int64(-2e6), int64(-1<<52+2))
	f.Fuzz(func(t *testing.T, size, slide, offset, ts int64) {
		a := Sliding(time.Duration(size), time.Duration(slide), Offset(time.Duration(offset)))
		if a.Err() != nil {
			return
		}
		s, ok := a.Slice(ts)
		if a.Check(ts) != nil && ok || ok && !s.Contains(ts) {
			t.Fatalf("%v, %d: slice %v %v, %v", a, ts, s, ok, a.Check(ts))
		}
		if into := (s.Start - a.Offset()) % a.Slide(); ok && into != 0 && into != a.cut && into+a.Slide() != a.cut {
			t.Fatalf("%v, %d: slice %v is not aligned", a, ts, s)
		}
		first, ok1 := a.FirstEnd(ts)
		last, ok2 := a.LastEnd(ts)
		if ok != ok1 || ok != ok2 {
			t.Fatalf("%v, %d: slice %v, ends %v %v", a, ts, ok, ok1, ok2)
		}
		if ok && (first > last || !a.Ending(first).Contains(ts) || !a.Ending(last).Contains(ts) ||
			s.Start < a.Ending(last).Start || s.End > first) {
			t.Fatalf("%v, %d: slice %v, ends %d and %d", a, ts, s, first, last)
		}
	})
}

func BenchmarkSlice(b *testing.B) {
	a := Sliding(time.Minute, time.Second)
	var sum int64
	for i := range b.N {
		s, _ := a.Slice(int64(i) * 7)
		sum += s.Start
	}
	_ = sum
}
