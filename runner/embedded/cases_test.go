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
// owner emits the key of each timer with the subtask that runs it, and a
// value that only its key has.
// deleter deletes its timer at the record "b-…".
// windowJob counts per key and window of 10 ms; late records go to late, and
// results to fired at once.
func TestC05CheckpointAfterASourceEnded(t *testing.T) {
	dir, gate := t.TempDir(), jobtest.NewGate()
	out, late := collect.NewExactlyOnce[string](), collect.NewExactlyOnce[string]()
	probe := collect.New[string]()
	endless := script([]jobtest.Item[string]{jobtest.R("b", 5), jobtest.WM[string](8), jobtest.Hold[string](gate)},
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
	path, err := r.job.TakeLastSavepoint(r.ctx, filepath.Join(dir, "savepoints"))
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
	launch(t, t.TempDir(), embedded.Options{RestorePath: path, AllowNonRestoredState: true}, build(false)).end()
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

// With claim what -s named goes like a checkpoint of the job's own, also if the
// start that was told so died before its first one; nothing else goes with it.
func TestC14ClaimedSnapshotIsDeleted(t *testing.T) {
	base := t.TempDir()
	out := collect.New[string]()
	gates := []*jobtest.Gate{jobtest.NewGate(), jobtest.NewGate()}
	build := countJob(out, script(records("a"), hold(gates[0]), records("a"), hold(gates[1])))
	first := filepath.Join(base, "first")
	r := launch(t, first, embedded.Options{}, build)
	r.reach(gates[0])
	before := r.checkpoint()
	checkpointed := filepath.Join(first, "test", fmt.Sprint("chk-", r.checkpoint()))
	saved, err := r.job.Savepoint(t.Context(), filepath.Join(base, "savepoints"))
	if err != nil {
		t.Fatal(err)
	}
	r.kill()
	gates[0].Open()
	there := func(dir string) bool {
		_, err := os.Stat(dir)
		return err == nil
	}
	for i, path := range []string{checkpointed, saved} {
		second := filepath.Join(base, fmt.Sprint("second", i))
		o := embedded.Options{RestorePath: path, Claim: true, Checkpoint: checkpoint.Options{Retained: 2}}
		r = launch(t, second, o, build)
		r.wait(embedded.Started)
		r.kill()
		r = launch(t, second, embedded.Options{Checkpoint: o.Checkpoint}, build) // before the first checkpoint
		r.wait(embedded.Started)
		r.checkpoint()
		if !there(path) {
			t.Errorf("%s is gone while it is one of the two retained", path)
		}
		r.checkpoint()
		r.kill()
		if there(path) {
			t.Errorf("%s is still there", path)
		}
	}
	if !there(filepath.Join(first, "test", fmt.Sprint("chk-", before))) || !there(filepath.Join(first, "test", "ledger")) {
		t.Error("more than the claimed checkpoint is gone")
	}
	gates[1].Open()
	launch(t, filepath.Join(base, "second1"), embedded.Options{}, build).end()
	if values := out.Values(); values[0] != "a=1" || values[len(values)-1] != "a=2" {
		t.Errorf("counts %q", values)
	}
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
