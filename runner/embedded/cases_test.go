package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/internal/storage/storagetest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/window"
)

// countJob counts script per key and writes to out.
func countJob(out *collect.Sink[string], splits ...[]jobtest.Item[string]) func(*stream.Job) {
	return func(j *stream.Job) {
		s := jobtest.Splits(j, "in", 0, splits...)
		stream.To(stream.Process(stream.KeyBy(s, itself), "count", newCounter), "out", out)
	}
}

// counted are the outputs of countJob for n rounds over the keys.
func counted(from, to int, keys ...string) []string {
	var vals []string
	for n := from; n <= to; n++ {
		for _, k := range keys {
			vals = append(vals, fmt.Sprintf("%s=%d", k, n))
		}
	}
	return vals
}

func script(parts ...[]jobtest.Item[string]) []jobtest.Item[string] { return slices.Concat(parts...) }

func hold(g *jobtest.Gate) []jobtest.Item[string] {
	return []jobtest.Item[string]{jobtest.Hold[string](g)}
}

// A job suspended and started at other parallelisms keeps its counts by key.
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

// owner emits the key of each timer with the subtask that runs it, and a
// value that only its key has.
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

// deleter deletes its timer at the record "b-…".
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

// windowJob counts per key and window of 10 ms; late records go to late, and
// results to fired at once.
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

func TestC05CheckpointAfterASourceEnded(t *testing.T) {
	dir, gate := t.TempDir(), jobtest.NewGate()
	out, late := collect.NewExactlyOnce[string](), collect.NewExactlyOnce[string]()
	probe := collect.New[string]()
	var endless []jobtest.Item[string]
	endless = script([]jobtest.Item[string]{jobtest.R("b", 5), jobtest.WM[string](8), jobtest.Hold[string](gate)},
		[]jobtest.Item[string]{jobtest.R("b", 12), jobtest.WM[string](9)})
	build := func(j *stream.Job) {
		a := jobtest.Script(j, "a", jobtest.R("a", 1), jobtest.R("a", 2))
		b := jobtest.Script(j, "b", endless...)
		stream.To(a, "probe", probe)
		tag := stream.NewTag[string]("late")
		r := stream.Aggregate(stream.KeyBy(stream.Union(a, b), func(string) string { return "k" }), "windows", window.Tumbling(10*ms), agg.Count[string](),
			func(k string, w window.Span, n int64) string { return fmt.Sprintf("%s %d=%d", k, w.Start, n) }, stream.LateTo(tag))
		stream.To(r, "out", out)
		stream.To(stream.SideOutput(r, tag), "late", late)
	}
	r := launch(t, dir, embedded.Options{}, build)
	r.reach(gate)
	visible(t, probe, 2)
	r.checkpoint()
	r.checkpoint()
	r.kill()
	gate.Open()
	launch(t, dir, embedded.Options{}, build).end()
	want(t, "results", out.Values(), "k 0=3", "k 10=1")
	want(t, "late", late.Values())
	want(t, "what a emitted in both runs", probe.Values(), "a", "a")
}

func TestC07StopAndResume(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	all := numbered("v", 20)
	build := func(j *stream.Job) {
		s := jobtest.Script(j, "in", script(records(all[:12]...), hold(gate), records(all[12:]...))...)
		stream.To(s, "out", out)
	}
	r := launch(t, dir, embedded.Options{}, build)
	r.reach(gate)
	path, err := r.job.StopWithSavepoint(r.ctx, filepath.Join(dir, "savepoints"))
	if err != nil {
		t.Fatal(err)
	}
	r.end()
	want(t, "committed at the stop", out.Values(), all[:12]...)
	gate.Open()
	launch(t, dir, embedded.Options{RestorePath: path}, build).end()
	want(t, "committed in both runs", out.Values(), all...)
}

func TestC07CommitFailsAfterStop(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	sink := &failingCommits{Sink: out}
	all := numbered("v", 6)
	build := func(j *stream.Job) {
		s := jobtest.Script(j, "in", script(records(all[:4]...), hold(gate), records(all[4:]...))...)
		stream.To(s, "out", sink)
	}
	r := launch(t, dir, embedded.Options{Restart: checkpoint.FixedDelay{Attempts: 5, Delay: ms}}, build)
	r.reach(gate)
	sink.fail.Store(true)
	path, err := r.job.StopWithSavepoint(r.ctx, filepath.Join(dir, "savepoints"))
	wantError(t, err, "is complete, but its output is not known to be committed", "savepoint-test-1", "no commits today", "starting the job again commits it")
	wantError(t, r.result(), "is complete, but its output is not known to be committed")
	if slices.ContainsFunc(r.kinds(), func(k string) bool { return strings.HasPrefix(k, string(embedded.Restarting)) }) {
		t.Errorf("the job was restarted: %v", r.kinds())
	}
	_ = path
	sink.fail.Store(false)
	gate.Open()
	launch(t, dir, embedded.Options{}, build).end()
	want(t, "committed", out.Values(), all...)
}

func TestC07DeclinedSavepoint(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	all := numbered("v", 6)
	r := launch(t, dir, embedded.Options{Checkpoint: checkpoint.Options{TolerableFailures: checkpoint.Unlimited}},
		countJob(out, script(records(all[:4]...), hold(gate), records(all[4:]...))))
	r.reach(gate)
	// A file stands where the savepoint's directory is to be.
	blocked := filepath.Join(dir, "savepoints")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := r.job.TakeSavepoint(r.ctx, blocked)
	wantError(t, err, blocked)
	r.checkpoint()
	gate.Open()
	r.end()
	want(t, "committed", out.Values(), counted(1, 1, all...)...)
}

func TestC09SavepointBetweenCheckpoints(t *testing.T) {
	dir, out := t.TempDir(), collect.NewExactlyOnce[string]()
	all := numbered("v", 8)
	g3, g5 := jobtest.NewGate(), jobtest.NewGate()
	build := func(j *stream.Job) {
		s := jobtest.Script(j, "in", script(records(all[:3]...), hold(g3), records(all[3:5]...), hold(g5), records(all[5:]...))...)
		stream.To(failOnce(s, "v7"), "out", out)
	}
	r := launch(t, dir, embedded.Options{Restart: checkpoint.FixedDelay{Attempts: 1, Delay: ms}}, build)
	r.reach(g3)
	r.checkpoint()
	visible(t, out, 3)
	g3.Open()
	r.reach(g5)
	path, err := r.job.TakeSavepoint(r.ctx, filepath.Join(dir, "savepoints"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	g5.Open()
	r.wait(embedded.Failed)
	r.end()
	want(t, "committed", out.Values(), all...)
}

func TestC10OperatorRemoved(t *testing.T) {
	dir, gate := t.TempDir(), jobtest.NewGate()
	build := func(y bool) func(*stream.Job) {
		return func(j *stream.Job) {
			s := jobtest.Script(j, "in", script(records("a"), hold(gate))...)
			x := stream.Process(stream.KeyBy(s, itself), "operator-x", newCounter)
			if y {
				x = stream.Process(stream.KeyBy(x, itself), "operator-y", newCounter)
			}
			stream.To(x, "out", collect.New[string]())
		}
	}
	r := launch(t, dir, embedded.Options{}, build(true))
	r.reach(gate)
	id := r.checkpoint()
	path, err := r.job.TakeSavepoint(r.ctx, filepath.Join(dir, "savepoints"))
	if err != nil {
		t.Fatal(err)
	}
	r.suspend()
	restarts := checkpoint.FixedDelay{Attempts: 3, Delay: ms}
	for what, o := range map[string]embedded.Options{
		"by itself": {Restart: restarts}, "savepoint": {Restart: restarts, RestorePath: path},
		"checkpoint": {Restart: restarts, RestorePath: filepath.Join(dir, "test", fmt.Sprint("chk-", id))},
	} {
		t.Run(what, func(t *testing.T) {
			r := launch(t, dir, o, build(false))
			wantError(t, r.result(), "operator-y", "no longer has")
			if s := r.job.Status(); s.Restarts != 0 {
				t.Errorf("%d restarts for what no restart mends", s.Restarts)
			}
		})
	}
	gate.Open()
	launch(t, dir, embedded.Options{}, build(true)).end()
}

func TestC14RestoredSnapshotIsNotDeleted(t *testing.T) {
	base := t.TempDir()
	out := collect.New[string]()
	gates := []*jobtest.Gate{jobtest.NewGate(), jobtest.NewGate()}
	build := countJob(out, script(records("a"), hold(gates[0]), records("a"), hold(gates[1])))
	first := filepath.Join(base, "first")
	r := launch(t, first, embedded.Options{}, build)
	r.reach(gates[0])
	retained := filepath.Join(first, "test", fmt.Sprint("chk-", r.checkpoint()))
	r.kill()
	gates[0].Open()
	second := filepath.Join(base, "second")
	r = launch(t, second, embedded.Options{RestorePath: retained, Checkpoint: checkpoint.Options{Retained: 1}}, build)
	r.reach(gates[1])
	var last int64
	for range 5 {
		last = r.checkpoint()
	}
	r.kill()
	kept, err := filepath.Glob(filepath.Join(second, "test", "chk-*", "_metadata"))
	if err != nil || len(kept) != 1 {
		t.Errorf("job 2 keeps %v, want one checkpoint", kept)
	}
	// R still restores.
	third := launch(t, filepath.Join(base, "third"), embedded.Options{RestorePath: retained}, build)
	third.reach(gates[1])
	visible(t, out, 3)
	third.kill()
	if err := os.RemoveAll(filepath.Join(first, "test")); err != nil {
		t.Fatal(err)
	}
	// Job 2's last checkpoint needs nothing of R.
	gates[1].Open()
	launch(t, filepath.Join(base, "fourth"), embedded.Options{RestorePath: filepath.Join(second, "test", fmt.Sprint("chk-", last))}, build).end()
	want(t, "counts", out.Values(), "a=1", "a=2", "a=2")
}

func TestC20CheckpointIDsGoOn(t *testing.T) {
	dir, gate := t.TempDir(), jobtest.NewGate()
	build := countJob(collect.NewExactlyOnce[string](), script(records("a"), hold(gate)))
	next := int64(1)
	check := func(id int64) {
		t.Helper()
		if id != next {
			t.Errorf("checkpoint %d, want %d", id, next)
		}
		next = id + 1
	}
	r := launch(t, dir, embedded.Options{}, build)
	r.reach(gate)
	for range 7 {
		check(r.checkpoint())
	}
	path, err := r.job.TakeSavepoint(r.ctx, filepath.Join(dir, "savepoints"))
	if err != nil {
		t.Fatal(err)
	}
	next++ // the savepoint has an id of its own
	last := r.checkpoint()
	if last < next {
		t.Errorf("checkpoint %d after a savepoint, want at least %d", last, next)
	}
	next = last + 1
	r.kill()
	for _, o := range []embedded.Options{{}, {}, {RestorePath: path, Rewind: true}} {
		before, _ := filepath.Glob(filepath.Join(dir, "test", "chk-*"))
		r = launch(t, dir, o, build)
		r.wait(embedded.Started)
		id := r.checkpoint()
		if id < next || slices.Contains(before, filepath.Join(dir, "test", fmt.Sprint("chk-", id))) {
			t.Errorf("checkpoint %d, want a new one from %d on", id, next)
		}
		next = id + 1
		r.kill()
	}
}

func TestC21CheckpointsWithoutInput(t *testing.T) {
	silent, gate, out := jobtest.NewGate(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	build := func(j *stream.Job) {
		a := jobtest.Script(j, "silent", jobtest.Hold[string](silent), jobtest.R("late riser", 1))
		b := jobtest.Script(j, "busy", script(records("b"), hold(gate))...)
		stream.To(stream.Process(stream.KeyBy(stream.Union(a, b), itself), "count", newCounter), "out", out)
	}
	dir := t.TempDir()
	r := launch(t, dir, embedded.Options{Parallelism: 2, Checkpoint: checkpoint.Options{Interval: ms}}, build)
	for range 20 {
		r.wait(embedded.CheckpointCompleted)
	}
	visible(t, out, 1)
	r.kill()
	silent.Open()
	gate.Open()
	launch(t, dir, embedded.Options{}, build).end()
	want(t, "records", out.Values(), "b=1", "late riser=1")
}

func TestC21TriggerBeforeTheJobRuns(t *testing.T) {
	job := jobtest.Job(t, embedded.Options{Checkpoint: checkpoint.Options{Dir: checkpoint.Memory, Interval: never}},
		countJob(collect.New[string](), records("a")))
	if _, err := job.TakeCheckpoint(t.Context()); err == nil {
		t.Error("a checkpoint of a job that was not started")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("not today"))
	if err := job.Run(ctx); err == nil || err.Error() != "not today" {
		t.Errorf("a job cancelled before it began ended with %v", err)
	}
}

// F01: a failure at any record, before and after checkpoints; splits neither
// come twice nor get lost.
func TestF01SplitsAfterAFailure(t *testing.T) {
	var splits [][]jobtest.Item[string]
	var all []string
	for _, f := range []string{"a", "b", "c", "d"} {
		lines := numbered(f, 10)
		splits, all = append(splits, records(lines...)), append(all, lines...)
	}
	for _, at := range all {
		for _, interval := range []time.Duration{never, ms} {
			out := collect.NewExactlyOnce[string]()
			r := launch(t, t.TempDir(), embedded.Options{
				Parallelism: 2, Restart: checkpoint.FixedDelay{Attempts: 1, Delay: ms}, Checkpoint: checkpoint.Options{Interval: interval},
			}, func(j *stream.Job) {
				stream.To(failOnce(jobtest.Splits(j, "in", 0, splits...), at), "out", out)
			})
			r.end()
			if r.job.Status().Restarts != 1 {
				t.Errorf("failing at %s: %d restarts, want 1", at, r.job.Status().Restarts)
			}
			want(t, "failing at "+at, out.Values(), all...)
		}
	}
}

// The ledger keeps where the snapshot of -s lies, wherever the job is started
// next.
func TestRelativeRestorePath(t *testing.T) {
	for _, prefix := range []string{"", "file://"} {
		base, gate, out := t.TempDir(), jobtest.NewGate(), collect.New[string]()
		build := countJob(out, script(records("a"), hold(gate), records("a")))
		r := launch(t, filepath.Join(base, "one"), embedded.Options{}, build)
		r.reach(gate)
		path := filepath.Join("one", "test", fmt.Sprint("chk-", r.checkpoint()))
		r.kill()
		if prefix == "" {
			t.Chdir(base)
		} else {
			path = filepath.Join(base, path)
		}
		r = launch(t, filepath.Join(base, "two"), embedded.Options{RestorePath: prefix + path}, build)
		r.wait(embedded.Started)
		r.kill()
		t.Chdir("/")
		gate.Open()
		launch(t, filepath.Join(base, "two"), embedded.Options{}, build).end()
		want(t, "counts", out.Values(), "a=1", "a=2")
	}
}

// M10 after a restore: the split that is behind holds time from the start.
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

// A job that has finished is not failed by an answer that got lost.
func TestFinishedDespiteALostAnswer(t *testing.T) {
	for n := range 8 {
		disk, out := storagetest.NewFaulty(mem.New()), collect.NewExactlyOnce[string]()
		disk.Script(storagetest.Fault{Op: storagetest.PutIfAbsent, Skip: n, Err: errors.New("reset by peer"), After: true})
		r := launch(t, checkpoint.Memory, embedded.Options{Storage: disk, Restart: checkpoint.FixedDelay{Attempts: 3, Delay: ms}}, countJob(out, records("a", "a")))
		if err := r.result(); err != nil {
			t.Errorf("answer %d lost: %v", n, err)
		}
		if s := r.job.Status().State; s != "finished" {
			t.Errorf("answer %d lost: the job is %s", n, s)
		}
		want(t, fmt.Sprint("answer lost: ", n), out.Values(), "a=1", "a=2")
	}
}
