package embedded_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/window"
)

func TestO05KeyedStateFollowsItsKeys(t *testing.T) {
	for _, tc := range []struct{ from, to int }{{2, 3}, {3, 2}, {2, 128}} {
		t.Run(fmt.Sprintf("%d to %d", tc.from, tc.to), func(t *testing.T) {
			dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
			keys := numbered("k", 50)
			build := countJob(out, script(records(keys...), records(keys...), records(keys...), hold(gate), records(keys...)))
			o := embedded.Options{Parallelism: tc.from, MaxParallelism: 128}
			r := launch(t, dir, o, build)
			r.reach(gate)
			r.suspend()
			want(t, "before", out.Values(), counted(1, 3, keys...)...)
			gate.Open()
			o.Parallelism = tc.to
			launch(t, dir, o, build).end()
			want(t, "after", out.Values(), counted(1, 4, keys...)...)
		})
	}
}

type owner struct {
	name    state.Value[string]
	timers  state.Timers
	subtask int
}

func newOwner(r *state.Registry) *owner {
	return &owner{name: state.ValueIn[string](r, "name"), timers: state.EventTimers(r)}
}

func (f *owner) Open(r *stream.Runtime) error { f.subtask = r.Subtask(); return nil }

func (f *owner) Process(c *stream.Ctx[string, string], v string) error {
	if v == "tick" {
		return nil
	}
	if err := f.name.Set("name of " + v); err != nil {
		return err
	}
	return f.timers.Set(time.UnixMilli(1000))
}

func (f *owner) OnTimer(c *stream.Ctx[string, string], at time.Time) error {
	name, err := f.name.Get()
	if err != nil {
		return err
	}
	c.Emit(fmt.Sprintf("%s@%d", name, at.UnixMilli()))
	return nil
}

func TestT10TimersAfterRescaling(t *testing.T) {
	dir, out := t.TempDir(), collect.NewExactlyOnce[string]()
	keys := numbered("k", 100)
	gates := []*jobtest.Gate{jobtest.NewGate(), jobtest.NewGate(), jobtest.NewGate()}
	build := func(j *stream.Job) {
		s := jobtest.Splits(j, "in", 0, script(records(keys...), hold(gates[0]), hold(gates[1]), hold(gates[2]),
			[]jobtest.Item[string]{jobtest.WM[string](1000)}))
		stream.To(stream.Process(stream.KeyBy(s, itself), "owner", newOwner), "out", out)
	}
	for i, parallelism := range []int{1, 3} {
		r := launch(t, dir, embedded.Options{Parallelism: parallelism}, build)
		r.reach(gates[i])
		r.suspend()
		want(t, "timers before their time", out.Values())
		gates[i].Open()
	}
	gates[2].Open()
	launch(t, dir, embedded.Options{Parallelism: 2}, build).end()
	var names []string
	for _, k := range keys {
		names = append(names, fmt.Sprintf("name of %s@1000", k))
	}
	want(t, "timers", out.Values(), names...)
}

func TestT05MaximumTimerIsRestored(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	build := func(j *stream.Job) {
		s := jobtest.Script(j, "in", script(records("a"), []jobtest.Item[string]{jobtest.WM[string](9_000_000_000_000_000_000)}, hold(gate))...)
		stream.To(stream.Process(stream.KeyBy(s, itself), "last", func(r *state.Registry) *lastTimer {
			return &lastTimer{state.EventTimers(r)}
		}), "out", out)
	}
	r := launch(t, dir, embedded.Options{}, build)
	r.reach(gate)
	r.suspend()
	want(t, "before the end", out.Values())
	gate.Open()
	launch(t, dir, embedded.Options{}, build).end()
	want(t, "at the end", out.Values(), "a@9223372036854775807")
}

type lastTimer struct{ timers state.Timers }

func (f *lastTimer) Process(c *stream.Ctx[string, string], _ string) error {
	return f.timers.Set(time.UnixMilli(1<<63 - 1))
}

func (f *lastTimer) OnTimer(c *stream.Ctx[string, string], at time.Time) error {
	c.Emit(fmt.Sprintf("%s@%d", c.Key(), at.UnixMilli()))
	return nil
}

type deleter struct{ timers state.Timers }

func (f *deleter) Process(c *stream.Ctx[string, string], v string) error {
	if strings.HasSuffix(v, "-") {
		return f.timers.Delete(time.UnixMilli(100))
	}
	return f.timers.Set(time.UnixMilli(100))
}

func (f *deleter) OnTimer(c *stream.Ctx[string, string], _ time.Time) error {
	c.Emit(c.Key())
	return nil
}

func TestT06DeletedTimersStayDeleted(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	build := func(j *stream.Job) {
		s := jobtest.Script(j, "in", script(records("a", "b", "a-"), hold(gate), []jobtest.Item[string]{jobtest.WM[string](100)})...)
		stream.To(stream.Process(stream.KeyBy(s, first), "timers", func(r *state.Registry) *deleter {
			return &deleter{state.EventTimers(r)}
		}), "out", out)
	}
	r := launch(t, dir, embedded.Options{}, build)
	r.reach(gate)
	r.suspend()
	gate.Open()
	launch(t, dir, embedded.Options{Parallelism: 2}, build).end()
	want(t, "calls", out.Values(), "b")
}

func windowJob(out, late, fired *collect.Sink[string], splits ...[]jobtest.Item[string]) func(*stream.Job) {
	return func(j *stream.Job) {
		tag := stream.NewTag[string]("late")
		s := jobtest.Splits(j, "in", 0, splits...)
		r := stream.Aggregate(stream.KeyBy(s, first), "windows", window.Tumbling(10*ms), agg.Count[string](),
			func(k string, w window.Span, n int64) string { return fmt.Sprintf("%s %d=%d", k, w.Start, n) },
			stream.LateTo(tag))
		stream.To(r, "out", out)
		stream.To(r, "fired", fired)
		stream.To(stream.SideOutput(r, tag), "late", late)
	}
}

func TestC22LateBeforeAndAfterTheRestore(t *testing.T) {
	for _, parallelism := range []int{1, 2} {
		for _, restore := range []bool{false, true} {
			t.Run(fmt.Sprintf("parallelism %d, restore %v", parallelism, restore), func(t *testing.T) {
				dir, gate := t.TempDir(), jobtest.NewGate()
				out, late, fired := collect.NewExactlyOnce[string](), collect.NewExactlyOnce[string](), collect.New[string]()
				build := windowJob(out, late, fired, script(
					[]jobtest.Item[string]{jobtest.R("a", 1), jobtest.WM[string](9)}, hold(gate),
					[]jobtest.Item[string]{jobtest.R("b", 3), jobtest.R("a", 3), jobtest.WM[string](20)}))
				o := embedded.Options{Parallelism: parallelism}
				r := launch(t, dir, o, build)
				r.reach(gate)
				visible(t, fired, 1)
				if restore {
					r.suspend()
					want(t, "before the restore", out.Values(), "a 0=1")
					gate.Open()
					r = launch(t, dir, o, build)
				}
				gate.Open()
				r.end()
				want(t, "results", out.Values(), "a 0=1")
				want(t, "late", late.Values(), "a", "b")
			})
		}
	}
}

func TestS07CheckpointsLeaveWindowsAlone(t *testing.T) {
	for _, restored := range []bool{false, true} {
		for _, checkpoints := range []int{0, 1, 10} {
			t.Run(fmt.Sprintf("%d checkpoints, restored %v", checkpoints, restored), func(t *testing.T) {
				if restored && checkpoints == 0 {
					t.Skip("nothing to restore")
				}
				dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
				build := func(j *stream.Job) {
					s := jobtest.Script(j, "in", script(
						[]jobtest.Item[string]{jobtest.R("7 a", 500), jobtest.R("7 b", 500)}, hold(gate),
						[]jobtest.Item[string]{jobtest.WM[string](999)})...)
					k := stream.KeyBy(s, first)
					name := func(v string) string { return v[2:] }
					r := stream.Aggregate(k, "distinct", window.Tumbling(time.Second), agg.Pair(agg.Distinct(name), agg.Count[string]()),
						func(k string, _ window.Span, n agg.Both[int64, int64]) string {
							return fmt.Sprintf("%s: %d distinct of %d", k, n.First, n.Second)
						})
					stream.To(r, "out", out)
				}
				r := launch(t, dir, embedded.Options{}, build)
				r.reach(gate)
				for range checkpoints {
					r.checkpoint()
				}
				if restored {
					r.kill()
					r = launch(t, dir, embedded.Options{}, build)
				}
				gate.Open()
				r.end()
				want(t, "results", out.Values(), "7: 2 distinct of 2")
			})
		}
	}
}

func TestS09NaNAndSignedZeroKeys(t *testing.T) {
	for _, from := range []int{1, 4} {
		for _, to := range []int{1, 4} {
			t.Run(fmt.Sprintf("%d to %d", from, to), func(t *testing.T) {
				dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
				build := func(j *stream.Job) {
					s := jobtest.Splits(j, "in", 0, script(records("NaN1", "+0"), hold(gate), records("NaN2", "-0", "NaN1")))
					k := stream.KeyBy(s, floatKey)
					stream.To(stream.Process(k, "count", newFloatCounter), "out", out)
				}
				r := launch(t, dir, embedded.Options{Parallelism: from}, build)
				r.reach(gate)
				r.suspend()
				gate.Open()
				launch(t, dir, embedded.Options{Parallelism: to}, build).end()
				want(t, "counts", out.Values(), "NaN=1", "NaN=2", "NaN=3", "0=1", "0=2")
			})
		}
	}
}

func TestO08SplitsHaveOneOwner(t *testing.T) {
	for _, tc := range []struct{ from, to int }{{1, 2}, {2, 1}, {2, 3}} {
		t.Run(fmt.Sprintf("%d to %d", tc.from, tc.to), func(t *testing.T) {
			dir, out := t.TempDir(), collect.NewExactlyOnce[string]()
			a, b := numbered("a", 10), numbered("b", 10)
			g, h := jobtest.NewGate(), jobtest.NewGate()
			build := func(j *stream.Job) {
				s := jobtest.Splits(j, "in", 0, script(records(a[:4]...), hold(g), records(a[4:]...)), script(records(b[:4]...), hold(h), records(b[4:]...)))
				stream.To(s, "out", out)
			}
			r := launch(t, dir, embedded.Options{Parallelism: tc.from}, build)
			r.reach(g, h)
			r.checkpoint()
			r.kill()
			g.Open()
			h.Open()
			launch(t, dir, embedded.Options{Parallelism: tc.to}, build).end()
			want(t, "records", out.Values(), append(a, b...)...)
		})
	}
}

func TestO11FewKeysManySubtasks(t *testing.T) {
	var items []jobtest.Item[string]
	keys := numbered("k", 8)
	for range 20 {
		items = append(items, records(keys...)...)
	}
	for _, parallelism := range []int{1, 8} {
		gate, out := jobtest.NewGate(), collect.NewExactlyOnce[string]()
		r := launch(t, t.TempDir(), embedded.Options{Parallelism: parallelism}, countJob(out, script(items, hold(gate))))
		r.reach(gate)
		r.checkpoint()
		visible(t, out, 160)
		gate.Open()
		r.end()
		want(t, fmt.Sprint("parallelism ", parallelism), out.Values(), counted(1, 20, keys...)...)
	}
}

func TestM10SecondSplitHoldsTimeAfterARestore(t *testing.T) {
	dir, ahead, behind, end := t.TempDir(), jobtest.NewGate(), jobtest.NewGate(), jobtest.NewGate()
	var s0, s1 []jobtest.Item[string]
	for i := range int64(11) {
		s0 = append(s0, jobtest.R("x", 100+i), jobtest.WM[string](99+i))
		s1 = append(s1, jobtest.R("x", 10+i), jobtest.WM[string](9+i))
	}
	out, late, fired := collect.NewExactlyOnce[string](), collect.NewExactlyOnce[string](), collect.New[string]()
	build := windowJob(out, late, fired, script(s0[:4], hold(ahead), s0[4:], hold(end)), script(hold(behind), s1))
	r := launch(t, dir, embedded.Options{}, build)
	r.reach(ahead, behind)
	r.suspend()
	ahead.Open()
	r = launch(t, dir, embedded.Options{}, build)
	r.reach(end) // split 0 is at its end, split 1 has brought nothing
	behind.Open()
	end.Open()
	r.end()
	want(t, "results", out.Values(), "x 10=10", "x 20=1", "x 100=10", "x 110=1")
	want(t, "late", late.Values())
}
