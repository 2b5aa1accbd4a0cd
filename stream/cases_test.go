package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
	"github.com/weirstream/weir/window"
)

// records makes records of the value "x" with the given event times.
func records(times ...int64) []jobtest.Item[string] {
	var items []jobtest.Item[string]
	for _, at := range times {
		items = append(items, jobtest.R("x", at))
	}
	return items
}

// fails runs a job that must fail and returns its error.
func fails(t *testing.T, build func(*stream.Job)) error {
	t.Helper()
	job := jobtest.Job(t, embedded.Options{Restart: checkpoint.None{}}, build)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := job.Run(ctx)
	if err == nil || ctx.Err() != nil {
		t.Fatalf("the job ended with %v, want its failure", err)
	}
	return err
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("the error lacks %q: %v", p, err)
		}
	}
}

// countWindows adds a count per window to a stream, printed as in counts.
func countWindows(s stream.Stream[string], id string, w window.Assigner, opts ...stream.Option) stream.Stream[string] {
	k := stream.KeyBy(s, func(string) string { return "k" })
	return stream.Aggregate(k, id, w, agg.Count[string](), func(_ string, w window.Span, n int64) string {
		return fmt.Sprintf("%d-%d=%d", w.Start, w.End, n)
	}, opts...)
}

func TestW01Offset(t *testing.T) {
	r, _ := counts(t, window.Tumbling(10*ms, window.Offset(3*ms)), nil, records(-1, -8, 2, 3)...)
	want(t, "results", r, "-17--7=1@-8", "-7-3=2@2", "3-13=1@12")
}

func TestW05FarFromAlignment(t *testing.T) {
	r, late := counts(t, window.Sliding(1600*ms, 800*ms), nil, records(1709315512577)...)
	want(t, "slide 800", r, "1709315511200-1709315512800=1@1709315512799", "1709315512000-1709315513600=1@1709315513599")
	want(t, "late", late)
	r, _ = counts(t, window.Sliding(1600*ms, 700*ms), nil, records(1709315512577)...)
	want(t, "slide 700", r, "1709315511400-1709315513000=1@1709315512999", "1709315512100-1709315513700=1@1709315513699")
}

func TestW05NearTheLimit(t *testing.T) {
	err := fails(t, func(j *stream.Job) {
		s := jobtest.Script(j, "in", records(math.MaxInt64-1)...)
		stream.To(countWindows(s, "count", window.Tumbling(10*ms)), "out", collect.New[string]())
	})
	wantError(t, err, `"count"`, "9223372036854775806")
}

func TestW15CountsOfRepeatedFirings(t *testing.T) {
	wm := jobtest.WM[string]
	r, late := counts(t, window.Tumbling(10*ms), []stream.Option{stream.AllowedLateness(5 * ms)},
		jobtest.R("a", 1), wm(9), jobtest.R("b", 3), jobtest.R("c", 4), wm(13), jobtest.R("d", 5), wm(14), jobtest.R("e", 6))
	want(t, "results", r, "0-10=1@9", "0-10=2@9", "0-10=3@9", "0-10=4@9")
	want(t, "late", late, "e")
}

// The first record of a window may come when its time has passed already.
func TestW15FirstRecordWithinLateness(t *testing.T) {
	for _, tc := range []struct {
		w    window.Assigner
		want []string
	}{
		{window.Tumbling(10 * ms), []string{"0-10=1@9", "0-10=2@9"}},
		{window.Tumbling(1 * ms), []string{"9-10=1@9", "9-10=2@9"}},
		{window.Sliding(2*ms, 1*ms), []string{"8-10=1@9", "8-10=2@9", "9-11=2@10"}},
	} {
		r, late := counts(t, tc.w, []stream.Option{stream.AllowedLateness(5 * ms)},
			jobtest.WM[string](9), jobtest.R("a", 9), jobtest.R("b", 9))
		want(t, tc.w.String(), r, tc.want...)
		want(t, "late", late)
	}
}

func TestW24FixedOffsetDays(t *testing.T) {
	at := time.Date(2026, 3, 9, 4, 30, 0, 0, time.UTC).UnixMilli()
	r, _ := counts(t, window.Tumbling(24*time.Hour, window.Offset(5*time.Hour)), nil, records(at)...)
	start := time.Date(2026, 3, 8, 5, 0, 0, 0, time.UTC).UnixMilli()
	end := time.Date(2026, 3, 9, 5, 0, 0, 0, time.UTC).UnixMilli()
	want(t, "a day of New York in winter", r, fmt.Sprintf("%d-%d=1@%d", start, end, end-1))
}

func TestW26OneEmissionWithBounds(t *testing.T) {
	gate, out := jobtest.NewGate(), collect.New[string]()
	job := start(t, func(j *stream.Job) {
		items := append(records(0, 600_000, 1_199_999), jobtest.WM[string](1_199_998), jobtest.Hold[string](gate), jobtest.WM[string](1_199_999))
		stream.To(countWindows(jobtest.Script(j, "in", items...), "count", window.Tumbling(20*time.Minute)), "out", out)
	})
	<-gate.Reached()
	want(t, "before the end", out.Values())
	gate.Open()
	job.end()
	want(t, "results", out.Values(), "0-1200000=3")
}

func TestW27NoTimestamp(t *testing.T) {
	out := collect.New[string]()
	err := fails(t, func(j *stream.Job) {
		s := stream.FromSlice(j, "in", []string{"x"})
		stream.To(countWindows(s, "count", window.Tumbling(10*ms)), "out", out)
	})
	wantError(t, err, `"count"`, "no timestamp", "watermark.Bounded")
	want(t, "results", out.Values())
}

func TestM01MonotonousWithDisorder(t *testing.T) {
	out, late := collect.New[string](), collect.New[string]()
	tag := stream.NewTag[string]("late")
	jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
		// A watermark after each record: the last of them is not beyond the one before.
		items := []jobtest.Item[string]{jobtest.R("a", 5), jobtest.WM[string](4), jobtest.R("b", 5), jobtest.WM[string](4),
			jobtest.R("c", 4), jobtest.WM[string](4), jobtest.R("d", 6), jobtest.WM[string](5)}
		r := countWindows(jobtest.Script(j, "in", items...), "count", window.Tumbling(5*ms), stream.LateTo(tag))
		stream.To(r, "out", out)
		stream.To(stream.SideOutput(r, tag), "late", late)
	})
	want(t, "results", out.Values(), "5-10=3")
	want(t, "late", late.Values(), "c")
}

// started is a job under way.
type started struct {
	t    *testing.T
	job  *embedded.Job
	done chan error
	stop context.CancelFunc
}

func start(t *testing.T, build func(*stream.Job)) *started {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	s := &started{t: t, job: jobtest.Job(t, embedded.Options{Restart: checkpoint.None{}}, build), done: make(chan error, 1), stop: cancel}
	go func() { s.done <- s.job.Run(ctx) }()
	return s
}

// end waits for the end of the input.
func (s *started) end() {
	s.t.Helper()
	defer s.stop()
	if err := <-s.done; err != nil {
		s.t.Fatal(err)
	}
}

// cancel ends the job where it is.
func (s *started) cancel() {
	s.t.Helper()
	s.stop()
	if err := <-s.done; !errors.Is(err, context.Canceled) {
		s.t.Fatal(err)
	}
}

func wait(t *testing.T, out *collect.Sink[string], n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := out.Wait(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// upTo25 are records at 1 to 25, each with the watermark of bound 0 behind it.
func upTo25() []jobtest.Item[string] {
	var items []jobtest.Item[string]
	for at := int64(1); at <= 25; at++ {
		items = append(items, jobtest.R("x", at), jobtest.WM[string](at-1))
	}
	return items
}

func TestM03SilentPartition(t *testing.T) {
	for _, parallelism := range []int{1, 2} {
		t.Run(fmt.Sprint(parallelism), func(t *testing.T) {
			more, end, out := jobtest.NewGate(), jobtest.NewGate(), collect.New[string]()
			job := start(t, func(j *stream.Job) {
				j.Parallelism(parallelism)
				p0 := append(upTo25(), jobtest.Hold[string](more), jobtest.WM[string](24), jobtest.Hold[string](end))
				p1 := []jobtest.Item[string]{jobtest.Hold[string](end)}
				s := jobtest.Splits(j, "in", 5*ms, p0, p1)
				stream.To(countWindows(s, "count", window.Tumbling(10*ms)), "out", out)
			})
			wait(t, out, 2)
			want(t, "while the other is idle", out.Values(), "0-10=9", "10-20=10")
			more.Open()
			end.Open()
			job.end()
			want(t, "at the end", out.Values(), "0-10=9", "10-20=10", "20-30=6")
		})
	}
}

// The silent split holds time: what it brings at last is not late.
func TestM03WithoutIdleness(t *testing.T) {
	second, first, out := jobtest.NewGate(), jobtest.NewGate(), collect.New[string]()
	job := start(t, func(j *stream.Job) {
		s := jobtest.Splits(j, "in", 0, append(upTo25(), jobtest.Hold[string](first)),
			[]jobtest.Item[string]{jobtest.Hold[string](second), jobtest.R("x", 3)})
		stream.To(countWindows(s, "count", window.Tumbling(10*ms)), "out", out)
	})
	<-first.Reached()
	want(t, "while the other is silent", out.Values())
	second.Open()
	first.Open()
	job.end()
	want(t, "at the end", out.Values(), "0-10=10", "10-20=10", "20-30=6")
}

// Input a has ended, b is idle: event time stays where b left it.
func TestM06FinishedAndIdle(t *testing.T) {
	resume, end, out, late := jobtest.NewGate(), jobtest.NewGate(), collect.New[string](), collect.New[string]()
	tag := stream.NewTag[string]("late")
	job := start(t, func(j *stream.Job) {
		a := jobtest.Script(j, "a", jobtest.R("a", 1))
		b := jobtest.Splits(j, "b", 5*ms, []jobtest.Item[string]{jobtest.WM[string](20), jobtest.Hold[string](resume),
			jobtest.R("b", 25), jobtest.WM[string](30), jobtest.Hold[string](end)})
		r := countWindows(stream.Union(a, b), "count", window.Tumbling(10*ms), stream.LateTo(tag))
		stream.To(r, "out", out)
		stream.To(stream.SideOutput(r, tag), "late", late)
	})
	wait(t, out, 1)
	want(t, "while b is idle", out.Values(), "0-10=1")
	resume.Open()
	wait(t, out, 2)
	want(t, "b goes on", out.Values(), "0-10=1", "20-30=1")
	end.Open()
	job.end()
	want(t, "late", late.Values())
	want(t, "at the end", out.Values(), "0-10=1", "20-30=1")
}

func TestM07IdleThenEnd(t *testing.T) {
	for name, inputs := range map[string]int{"one input": 1, "two inputs": 2} {
		t.Run(name, func(t *testing.T) {
			end, out, probed := jobtest.NewGate(), collect.New[string](), collect.New[string]()
			job := start(t, func(j *stream.Job) {
				var ins []stream.Stream[string]
				for i := range inputs {
					ins = append(ins, jobtest.Splits(j, fmt.Sprint("in", i), 5*ms,
						[]jobtest.Item[string]{jobtest.R("a", 1), jobtest.Hold[string](end)}))
				}
				// The probe's window fires once the others are idle.
				probe := jobtest.Script(j, "probe", jobtest.R("p", 1), jobtest.WM[string](9), jobtest.Hold[string](end))
				all := stream.Union(ins[0], append(ins[1:], probe)...)
				stream.To(countWindows(all, "probe-count", window.Tumbling(10*ms)), "probed", probed)
				r := countWindows(stream.Union(ins[0], ins[1:]...), "count", window.Tumbling(10*ms))
				timers := stream.Process(stream.KeyBy(stream.Union(ins[0], ins[1:]...), first), "timers", newAlarm(1000))
				stream.To(stream.Rebalance(r), "unchained", out)
				stream.To(timers, "chained", out)
			})
			wait(t, probed, 1)
			want(t, "while idle", out.Values())
			end.Open()
			job.end()
			got := out.Values()
			slices.Sort(got)
			want(t, "results", got, fmt.Sprintf("0-10=%d", inputs), "a@1000")
		})
	}
}

// Split 0 is read first and far ahead; nothing of split 1 is late.
func TestM10SecondSplitHoldsTime(t *testing.T) {
	var s0, s1 []jobtest.Item[string]
	first, second := jobtest.NewGate(), jobtest.NewGate()
	s1 = append(s1, jobtest.Hold[string](second))
	for i := range int64(11) {
		s0 = append(s0, jobtest.R("x", 100+i), jobtest.WM[string](99+i))
		s1 = append(s1, jobtest.R("x", 10+i), jobtest.WM[string](9+i))
	}
	s0 = append(s0, jobtest.Hold[string](first))
	out, late := collect.New[string](), collect.New[string]()
	tag := stream.NewTag[string]("late")
	job := start(t, func(j *stream.Job) {
		r := countWindows(jobtest.Splits(j, "in", 0, s0, s1), "count", window.Tumbling(10*ms), stream.LateTo(tag))
		stream.To(r, "out", out)
		stream.To(stream.SideOutput(r, tag), "late", late)
	})
	<-first.Reached()
	second.Open()
	first.Open()
	job.end()
	want(t, "results", out.Values(), "10-20=10", "20-30=1", "100-110=10", "110-120=1")
	want(t, "late", late.Values())
}

// regressing is a generator whose watermark is what the last record says.
type regressing struct{ last int64 }

func (g *regressing) OnBatch(_ []int, times []int64) (int, bool) { g.last = times[0]; return 1, true }
func (g *regressing) Current() int64                             { return g.last }

// watch emits each record with the watermark before it.
type watch struct{}

func newWatch(*state.Registry) watch { return watch{} }

func (watch) Process(c *stream.Ctx[stream.NoKey, string], v int) error {
	wm := "none"
	if w := c.Watermark(); w > math.MinInt64 {
		wm = fmt.Sprint(w)
	}
	c.Emit(fmt.Sprintf("%d after %s", v, wm))
	return nil
}

func TestM12GeneratorReturnsSmallerValue(t *testing.T) {
	out := collect.New[string]()
	jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
		wm := watermark.Custom(func() watermark.Generator[int] { return &regressing{last: math.MinInt64} }, func(v int) time.Time { return time.UnixMilli(int64(v)) })
		s := stream.FromSlice(j, "in", []int{10, 8, 12, 11, 13, 14}, wm)
		stream.To(stream.ProcessUnkeyed(s, "watch", newWatch), "out", out)
	})
	want(t, "records", out.Values(), "10 after none", "8 after 10", "12 after 10", "11 after 12", "13 after 12", "14 after 13")
}

func TestM14UnionWithItself(t *testing.T) {
	for _, parallelism := range []int{1, 3} {
		gate, out := jobtest.NewGate(), collect.New[string]()
		job := start(t, func(j *stream.Job) {
			j.Parallelism(parallelism)
			s := jobtest.Script(j, "in", jobtest.R("a", 1), jobtest.R("b", 2), jobtest.WM[string](9), jobtest.Hold[string](gate))
			stream.To(countWindows(stream.Union(s, s), "count", window.Tumbling(10*ms)), "out", out)
		})
		wait(t, out, 1)
		gate.Open()
		job.end()
		want(t, fmt.Sprint("parallelism ", parallelism), out.Values(), "0-10=4")
	}
}

func TestM15OneSourceEnded(t *testing.T) {
	out := collect.New[string]()
	job := start(t, func(j *stream.Job) {
		s1 := jobtest.Script(j, "s1", jobtest.R("a", 1))
		s2 := jobtest.Script(j, "s2", jobtest.R("b", 5), jobtest.WM[string](4), jobtest.R("c", 12), jobtest.WM[string](11),
			jobtest.Hold[string](jobtest.NewGate()))
		stream.To(countWindows(stream.Union(s1, s2), "count", window.Tumbling(10*ms)), "out", out)
	})
	wait(t, out, 1)
	want(t, "while s2 runs", out.Values(), "0-10=2")
	job.cancel()
}

func TestM17AbsurdTimestamp(t *testing.T) {
	const far = 9_000_000_000_000_000_000
	items := records(1, 2, 3, 4, 5)
	items = append(items, jobtest.WM[string](4), jobtest.R("far", far), jobtest.WM[string](far-1))
	items = append(items, records(6, 7, 8, 9)...)
	r, late := counts(t, window.Tumbling(10*ms), nil, items...)
	want(t, "results", r, "0-10=5@9", fmt.Sprintf("%d-%d=1@%d", int64(far), int64(far+10), int64(far+9)))
	if len(late) != 4 {
		t.Errorf("%d records late, want 4", len(late))
	}
}

func TestJ09SumOverflow(t *testing.T) {
	sum := func(j *stream.Job, vals ...int64) {
		s := stream.FromSlice(j, "in", vals, watermark.Monotonous(func(int64) time.Time { return time.UnixMilli(1) }))
		k := stream.KeyBy(s, func(int64) string { return "total" })
		r := stream.Aggregate(k, "sum", window.Tumbling(10*ms), agg.Sum(func(v int64) int64 { return v }), func(_ string, _ window.Span, n int64) string { return fmt.Sprint(n) })
		stream.To(r, "out", collect.New[string]())
	}
	err := fails(t, func(j *stream.Job) { sum(j, math.MaxInt64, 1) })
	wantError(t, err, `"sum"`, "total", "9223372036854775807", "overflow")

	out := collect.New[string]()
	jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
		s := stream.FromSlice(j, "in", []int32{math.MaxInt32, 1}, watermark.Monotonous(func(int32) time.Time { return time.UnixMilli(1) }))
		k := stream.KeyBy(s, func(int32) string { return "k" })
		r := stream.Aggregate(k, "sum", window.Tumbling(10*ms), agg.Sum(func(v int32) int32 { return v }), func(_ string, _ window.Span, n int64) string { return fmt.Sprint(n) })
		stream.To(r, "out", out)
	})
	want(t, "int32", out.Values(), "2147483648")
}

func TestJ10NothingNaNAndOne(t *testing.T) {
	type reading struct {
		at int64
		v  float64
	}
	run := func(vals ...reading) []agg.Both[float64, float64] {
		out := collect.New[agg.Both[float64, float64]]()
		jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
			s := stream.FromSlice(j, "in", vals, watermark.Monotonous(func(r reading) time.Time { return time.UnixMilli(r.at) }))
			k := stream.KeyBy(s, func(reading) string { return "k" })
			value := func(r reading) float64 { return r.v }
			stream.To(stream.Aggregate(k, "both", window.Tumbling(10*ms), agg.Pair(agg.Quantile(0.5, value), agg.Avg(value)),
				func(_ string, w window.Span, r agg.Both[float64, float64]) agg.Both[float64, float64] { return r }), "out", out)
		})
		return out.Values()
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 0.01*b }
	one := run(reading{1, 7})
	if len(one) != 1 || !near(one[0].First, 7) || one[0].Second != 7 {
		t.Errorf("a single 7: %+v", one)
	}
	nan := math.NaN()
	a, b := run(reading{1, 1}, reading{2, nan}, reading{3, 2}), run(reading{1, nan}, reading{2, 2}, reading{3, 1})
	if !slices.Equal(a, b) || len(a) != 1 || !a[0].FirstOK || a[0].Second != 1.5 || !near(a[0].First, 1) && !near(a[0].First, 2) && !near(a[0].First, 1.5) {
		t.Errorf("with NaN: %+v, and in another order %+v", a, b)
	}
	if none := run(reading{1, nan}); len(none) != 0 {
		t.Errorf("a window with nothing but NaN gave %+v", none)
	}
}
