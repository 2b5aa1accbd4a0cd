package watermark

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

type click struct{ at int64 }

func (c click) EventTime() time.Time { return time.UnixMilli(c.at) }

const ms = time.Millisecond

// from stands for stream.From: it shows that T is inferred.
func from[T any](_ []T, wm ...Strategy[T]) Strategy[T] { return wm[0] }

func tracker(t *testing.T, s Strategy[click]) *Splits[click] {
	t.Helper()
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return NewSplits(s)
}

func clicks(times ...int64) []click {
	out := make([]click, len(times))
	for i, t := range times {
		out[i].at = t
	}
	return out
}

// feed shows records one by one and returns the watermark after each.
func feed(s *Splits[click], split string, times ...int64) []int64 {
	var out []int64
	for _, at := range times {
		s.OnBatch(split, clicks(at), []int64{at}, 0)
		s.Advance()
		out = append(out, s.Watermark())
	}
	return out
}

func TestInference(t *testing.T) {
	s := from([]click{}, Bounded(5*time.Second, click.EventTime))
	if got := s.Assign(click{7}, 1); got != 7 {
		t.Errorf("assigned %d", got)
	}
	s = from([]click{}, Monotonous(click.EventTime).Idle(time.Second).MaxAhead(time.Hour))
	if s.IdleTimeout() != 1000 || s.Err() != nil {
		t.Errorf("idle %d, %v", s.IdleTimeout(), s.Err())
	}
}

func TestAssign(t *testing.T) {
	byRecord := Monotonous(func(c click) time.Time {
		if c.at < 0 {
			return time.Time{}
		}
		return c.EventTime()
	})
	bySource := byRecord.WithTimestamps(func(c click, source int64) int64 { return source + c.at })
	for name, c := range map[string]struct {
		s    Strategy[click]
		want []int64
	}{
		"record": {byRecord, []int64{3, None}}, "source": {bySource, []int64{103, 199}}, "none": {Bounded[click](0, nil), []int64{100, 200}},
		"zero": {Strategy[click]{}, []int64{100, 200}},
	} {
		vals, times := clicks(3, -1), []int64{100, 200}
		one := []int64{c.s.Assign(vals[0], 100), c.s.Assign(vals[1], 200)}
		c.s.AssignAll(vals, times)
		if !slices.Equal(times, c.want) || !slices.Equal(one, c.want) {
			t.Errorf("%s: %v and %v, want %v", name, times, one, c.want)
		}
	}
}

func TestInvalidStrategies(t *testing.T) {
	for _, c := range []struct {
		s    Strategy[click]
		part string
	}{
		{Bounded(-1, click.EventTime), "out-of-orderness -1ns"},
		{Bounded(time.Microsecond, click.EventTime), "whole number of milliseconds"},
		{Monotonous(click.EventTime).Idle(0), "idle timeout 0s: it must be positive"},
		{Monotonous(click.EventTime).Idle(-ms).MaxAhead(ms), "idle timeout -1ms"},
		{Monotonous(click.EventTime).MaxAhead(-ms), "MaxAhead -1ms"},
		{Custom(nil, click.EventTime), "generator function is nil"},
	} {
		if err := c.s.Err(); err == nil || !strings.Contains(err.Error(), c.part) {
			t.Errorf("error %v, want one that contains %q", err, c.part)
		}
	}
}

func TestM01MonotonousWithDisorder(t *testing.T) {
	s := tracker(t, Monotonous(click.EventTime))
	if got := feed(s, "0", 5, 5, 4, 6); !slices.Equal(got, []int64{4, 4, 4, 5}) {
		t.Errorf("watermarks %v", got)
	}
	s.OnBatch("0", clicks(6), []int64{6}, 0)
	if s.Advance() != (Change{}) {
		t.Error("a repeated watermark is forwarded")
	}
}

func TestBoundedNearTheLimit(t *testing.T) {
	s := tracker(t, Bounded(10*ms, click.EventTime))
	got := feed(s, "0", math.MinInt64+10, math.MinInt64+11, 0)
	if !slices.Equal(got, []int64{None, None, -11}) {
		t.Errorf("watermarks %v", got)
	}
}

func TestM03SilentPartition(t *testing.T) {
	s := tracker(t, Monotonous(click.EventTime).Idle(time.Second))
	s.Add("P0")
	s.Add("P1")
	s.Tick(0, true)
	feed(s, "P0", 1, 10, 25)
	if s.Watermark() != None {
		t.Fatalf("watermark %d although P1 has never sent anything", s.Watermark())
	}
	s.Tick(999, true)
	if s.Advance(); s.Watermark() != None {
		t.Fatalf("watermark %d before the timeout", s.Watermark())
	}
	s.OnBatch("P0", clicks(25), []int64{25}, 0)
	s.Tick(1000, true)
	if c := s.Advance(); c != (Change{Advanced: true}) || s.Watermark() != 24 {
		t.Errorf("after the timeout: %+v, watermark %d", c, s.Watermark())
	}
}

func TestIdleClockStandsStill(t *testing.T) {
	s := tracker(t, Monotonous(click.EventTime).Idle(time.Second))
	s.Add("a")
	s.Add("b")
	s.Tick(0, true)
	s.Pause("b")
	s.Tick(900, true)
	s.Tick(10_000, false) // back-pressured
	if s.Advance(); s.combined.channels[1].state != active || s.combined.channels[2].state != active {
		t.Fatal("idle while back-pressured")
	}
	s.Tick(10_100, true)
	s.Advance()
	if s.combined.channels[1].state != idle || s.combined.channels[2].state != active {
		t.Fatal("a was free to emit for a second, b was paused")
	}
	s.Resume("b")
	s.Tick(11_100, true)
	if c := s.Advance(); c != (Change{Switched: true}) || !s.Idle() {
		t.Errorf("both idle: %+v", c)
	}
}

func TestIdleAndBack(t *testing.T) {
	s := tracker(t, Monotonous(click.EventTime).Idle(time.Second))
	feed(s, "a", 10)
	s.Tick(0, true)
	s.Tick(1000, true)
	if c := s.Advance(); c != (Change{Switched: true}) || !s.Idle() {
		t.Fatalf("silent: %+v", c)
	}
	step := s.OnBatch("a", clicks(20), []int64{20}, 0)
	if step != (Step{Taken: 1, Active: true, Forward: true}) {
		t.Errorf("first record: %+v", step)
	}
	if c := s.Advance(); c != (Change{Advanced: true}) || s.Watermark() != 19 || s.Idle() {
		t.Errorf("after it: %+v, %d", c, s.Watermark())
	}
}

func TestM07WithoutSplits(t *testing.T) {
	s := tracker(t, Monotonous(click.EventTime).Idle(time.Second))
	s.Tick(0, true)
	s.Tick(1000, true)
	if c := s.Advance(); c != (Change{Switched: true}) || !s.Idle() {
		t.Fatalf("a subtask without splits: %+v", c)
	}
	s.Add("a")
	if c := s.Advance(); c != (Change{Switched: true}) || s.Idle() {
		t.Errorf("a split was added: %+v", c)
	}
	feed(s, "a", 50)
	s.Release("a")
	if s.Advance(); s.Watermark() != 49 || s.Len() != 0 {
		t.Errorf("released: watermark %d", s.Watermark())
	}
}

func TestUnassignedSubtaskHoldsNoTime(t *testing.T) {
	s := tracker(t, Monotonous(click.EventTime))
	if c := s.Advance(); c != (Change{}) {
		t.Fatalf("a subtask that may be about to get a split: %+v", c)
	}
	s.Unassigned()
	if c := s.Advance(); c != (Change{Switched: true}) || !s.Idle() {
		t.Fatalf("a subtask without splits: %+v", c)
	}
	s.Add("a")
	if step := s.OnBatch("a", clicks(50), []int64{50}, 0); !step.Active {
		t.Error("the first record of its first split comes while it is idle")
	}
	s.Unassigned()
	if c := s.Advance(); s.Idle() || s.Watermark() != 49 {
		t.Errorf("a subtask with a split is told that there is none for it: %+v", c)
	}
}

func TestM09SplitComesBackBehind(t *testing.T) {
	s := tracker(t, Monotonous(click.EventTime).Idle(time.Second))
	s.Add("A")
	s.Add("B")
	s.Tick(0, true)
	s.Tick(500, true)
	feed(s, "A", 11)
	s.Tick(1000, true)
	if s.Advance(); s.Watermark() != 10 {
		t.Fatalf("B is idle: watermark %d", s.Watermark())
	}
	if got := feed(s, "B", 4); got[0] != 10 {
		t.Errorf("B at 3: watermark %d", got[0])
	}
	if got := feed(s, "A", 16); got[0] != 15 {
		t.Errorf("A at 15: watermark %d", got[0])
	}
	if got := feed(s, "B", 13, 17); !slices.Equal(got, []int64{15, 15}) {
		t.Errorf("B at 12, then 16: watermarks %v", got)
	}
	if got := feed(s, "A", 21); got[0] != 16 {
		t.Errorf("B counts again: watermark %d", got[0])
	}
}

func TestM10SplitRegisteredBeforeItsFirstRecord(t *testing.T) {
	s := tracker(t, Monotonous(click.EventTime))
	s.Add("0")
	s.Add("1")
	for at := int64(100); at <= 110; at++ {
		if got := feed(s, "0", at); got[0] != None {
			t.Fatalf("watermark %d from split 0 alone", got[0])
		}
	}
	if got := feed(s, "1", 10, 20); !slices.Equal(got, []int64{9, 19}) {
		t.Errorf("watermarks %v", got)
	}
	s.Release("1")
	if c := s.Advance(); c != (Change{Advanced: true}) || s.Watermark() != 109 {
		t.Errorf("split 1 is finished: %+v, watermark %d", c, s.Watermark())
	}
	s.Add("2")
	if got := feed(s, "0", 200); got[0] != 109 {
		t.Errorf("a split added later holds time: watermark %d", got[0])
	}
	if got := feed(s, "2", 150); got[0] != 149 {
		t.Errorf("watermark %d", got[0])
	}
}

// scripted yields given watermarks, one per record.
type scripted struct {
	script  []int64
	current int64
}

func (g *scripted) OnBatch([]click, []int64) (int, bool) {
	g.current, g.script = g.script[0], g.script[1:]
	return 1, true
}
func (g *scripted) Current() int64 { return g.current }

// counted counts how often generators are asked.
type counted struct {
	bounded[click]
	asked *int
}

func (c *counted) Current() int64 {
	*c.asked++
	return c.bounded.Current()
}

// Idle splits are left alone until records come: there may be thousands.
func TestIdleSplitsAreNotAsked(t *testing.T) {
	asked := 0
	s := tracker(t, Custom(func() Generator[click] { return &counted{bounded[click]{highest: None}, &asked} }, click.EventTime).Idle(time.Second))
	for _, id := range []string{"a", "b", "c"} {
		feed(s, id, 10)
	}
	at := int64(0)
	rounds := func(n int) int {
		asked = 0
		for range n {
			s.Tick(at, true)
			s.Advance()
			at += 500
		}
		return asked
	}
	rounds(5)
	if n := rounds(100); n != 0 || !s.Idle() {
		t.Fatalf("asked %d times, idle %t", n, s.Idle())
	}
	feed(s, "b", 50)
	if s.Idle() || s.Watermark() != 49 {
		t.Errorf("b is back: idle %t, watermark %d", s.Idle(), s.Watermark())
	}
	if n := rounds(2); n != 2 {
		t.Errorf("asked %d times for one split in two rounds", n)
	}
	feed(s, "a", 20) // behind
	if n := rounds(2); n != 3 || s.Watermark() != 49 {
		t.Errorf("asked %d times, want twice for a and once for b, which falls idle then; watermark %d", n, s.Watermark())
	}
	s.Release("b")
	s.Release("a")
	s.Release("c")
	if n := rounds(3); n != 0 || len(s.busy) != 0 {
		t.Errorf("asked %d times without splits, %d of which are busy", n, len(s.busy))
	}
}

func TestM12GeneratorReturnsSmallerValue(t *testing.T) {
	s := tracker(t, Custom(func() Generator[click] { return &scripted{script: []int64{10, 8, 12, 11, 13}} }, click.EventTime))
	var forwarded []int64
	for vals := clicks(1, 2, 3, 4, 5); len(vals) > 0; {
		step := s.OnBatch("0", vals, make([]int64, len(vals)), 0)
		if step.Taken != 1 || !step.Forward {
			t.Fatalf("%+v", step)
		}
		if s.Advance().Advanced {
			forwarded = append(forwarded, s.Watermark())
		}
		vals = vals[step.Taken:]
	}
	if !slices.Equal(forwarded, []int64{10, 12, 13}) {
		t.Errorf("forwarded %v", forwarded)
	}
}

func TestGeneratorCannotEndTime(t *testing.T) {
	s := tracker(t, Custom(func() Generator[click] { return &scripted{script: []int64{End}} }, click.EventTime))
	if got := feed(s, "0", 1); got[0] != End-1 {
		t.Errorf("watermark %d", got[0])
	}
}

func TestPunctuatedCutsTheBatch(t *testing.T) {
	mark := func(c click, at time.Time) (time.Time, bool) { return at, c.at%10 == 0 }
	s := tracker(t, Custom(Punctuated(mark), click.EventTime))
	vals := clicks(7, 10, 3, 20, 21)
	times := []int64{7, 10, 3, 20, 21}
	var taken []int
	for at := 0; at < len(vals); {
		step := s.OnBatch("0", vals[at:], times[at:], 0)
		at += step.Taken
		taken = append(taken, at)
		if s.Advance().Advanced != step.Forward {
			t.Errorf("at %d: Forward %v", at, step.Forward)
		}
		if want := map[int]int64{2: 10, 4: 20, 5: 20}[at]; s.Watermark() != want {
			t.Errorf("at %d: watermark %d, want %d", at, s.Watermark(), want)
		}
	}
	if !slices.Equal(taken, []int{2, 4, 5}) {
		t.Errorf("cut at %v", taken)
	}
}

func TestM17AbsurdTimestamp(t *testing.T) {
	const far = 9_000_000_000_000_000_000
	times := []int64{1, 5, far, 6, 9}
	s := tracker(t, Monotonous(click.EventTime))
	s.OnBatch("0", clicks(times...), times, 10)
	if s.Advance(); s.Watermark() != far-1 || s.Ahead() != 1 {
		t.Errorf("by default: watermark %d, ahead %d", s.Watermark(), s.Ahead())
	}
	s = tracker(t, Monotonous(click.EventTime).MaxAhead(time.Minute))
	step := s.OnBatch("0", clicks(times...), times, 10)
	if s.Advance(); s.Watermark() != 8 || s.Ahead() != 1 || step.Taken != 5 {
		t.Errorf("with MaxAhead: watermark %d, ahead %d, %+v", s.Watermark(), s.Ahead(), step)
	}
	s.OnBatch("0", clicks(60_011), []int64{60_011}, 10)
	if s.Advance(); s.Watermark() != 8 || s.Ahead() != 1 {
		t.Errorf("a minute and a millisecond ahead: watermark %d, ahead %d", s.Watermark(), s.Ahead())
	}
	s.OnBatch("0", clicks(60_010), []int64{60_010}, 10)
	if s.Advance(); s.Watermark() != 60_009 {
		t.Errorf("a minute ahead: watermark %d", s.Watermark())
	}
}

func TestK17NoTimestampMovesNothing(t *testing.T) {
	seen := 0
	count := func(c click, at time.Time) (time.Time, bool) { seen++; return at, true }
	for name, s := range map[string]Strategy[click]{
		"bounded": Monotonous[click](nil), "custom": Custom(Punctuated(count), nil),
	} {
		tr := tracker(t, s)
		step := tr.OnBatch("0", clicks(0, 0), []int64{None, None}, 0)
		if tr.Advance(); tr.Watermark() != None || step.Taken != 2 || step.Forward {
			t.Errorf("%s: watermark %d, %+v", name, tr.Watermark(), step)
		}
	}
	if seen != 0 {
		t.Errorf("the generator saw %d records without timestamp", seen)
	}
}

func TestOnBatchAllocatesNothing(t *testing.T) {
	s := tracker(t, Bounded(ms, click.EventTime))
	vals, times := make([]click, 256), make([]int64, 256)
	s.Add("other")
	n := testing.AllocsPerRun(100, func() {
		s.strategy.AssignAll(vals, times)
		s.OnBatch("0", vals, times, 0)
		s.Advance()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkBatch(b *testing.B) {
	s := NewSplits(Bounded(ms, click.EventTime))
	vals, times := make([]click, 1024), make([]int64, 1024)
	b.ReportAllocs()
	for b.Loop() {
		s.strategy.AssignAll(vals, times)
		s.OnBatch("0", vals, times, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1024, "ns/record")
}
