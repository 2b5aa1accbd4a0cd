package embedded_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// lean keeps a count per key; with more it has other states beside it.
type lean struct {
	count state.Value[int64]
	sum   state.Value[string]
	seen  state.OperatorList[string]
	wake  state.Timers
	more  bool
}

func newLean(more bool) func(*state.Registry) *lean {
	return func(r *state.Registry) *lean {
		f := &lean{more: more}
		if more {
			f.sum = state.ValueIn[string](r, "sum")
		}
		f.count = state.ValueIn[int64](r, "count")
		if more {
			f.seen, f.wake = state.OperatorListIn[string](r, "seen"), state.EventTimers(r)
		}
		return f
	}
}

func (f *lean) Process(ctx *stream.Ctx[string, string], v string) error {
	n, err := f.count.Get()
	if err == nil {
		err = f.count.Set(n + 1)
	}
	if err != nil {
		return err
	}
	ctx.Emit(fmt.Sprintf("%s=%d", v, n+1))
	if !f.more {
		return nil
	}
	f.seen.Add(v)
	f.wake.Set(time.UnixMilli(1000))
	return f.sum.Set(v)
}

func (f *lean) OnTimer(*stream.Ctx[string, string], time.Time) error { return nil }

// TestC10StateDropped: with leave the job starts from a snapshot with state that
// it has no place for, of an operator or beside other state of one, and keeps
// the rest; without it is refused and says what.
func TestC10StateDropped(t *testing.T) {
	dir, gate := t.TempDir(), jobtest.NewGate()
	keys := numbered("k", 30)
	build := func(more bool, out *collect.Sink[string]) func(*stream.Job) {
		return func(j *stream.Job) {
			s := jobtest.Script(j, "in", script(records(keys...), hold(gate), records(keys...))...)
			r := stream.Process(stream.KeyBy(s, itself), "lean", newLean(more))
			if more {
				r = stream.Process(stream.KeyBy(r, itself), "gone", newCounter)
			} else {
				r = stream.Map(r, func(v string) string { return v }, stream.ID("gone"))
			}
			stream.To(r, "out", out)
		}
	}
	r := launch(t, dir, embedded.Options{Parallelism: 2}, build(true, collect.New[string]()))
	r.reach(gate)
	id := r.checkpoint()
	path, err := r.job.Savepoint(r.ctx, filepath.Join(dir, "saved"))
	if err != nil {
		t.Fatal(err)
	}
	r.kill()
	gate.Open()

	for what, o := range map[string]embedded.Options{
		"savepoint":  {RestorePath: path},
		"checkpoint": {RestorePath: filepath.Join(dir, "test", fmt.Sprint("chk-", id))},
		"lsm":        {RestorePath: path, StateBackend: embedded.LSM, LSMMemory: 1000, LSMDir: t.TempDir()},
	} {
		t.Run(what, func(t *testing.T) {
			elsewhere, out := t.TempDir(), collect.New[string]()
			o.Parallelism = 3
			err := launch(t, elsewhere, o, build(false, out)).result()
			wantError(t, err, `state "n" of operator "gone" (process), which is a map now`, "--allow-non-restored-state")
			var log bytes.Buffer
			o.AllowNonRestoredState, o.Logger = true, slog.New(slog.NewTextHandler(&log, nil))
			r := launch(t, elsewhere, o, build(false, out))
			r.end()
			want(t, "output", out.Values(), counted(2, 2, keys...)...)
			said := strings.ReplaceAll(log.String(), `\"`, `"`)
			for _, lost := range []string{`state "sum" of operator "lean"`, `state "seen" of operator "lean"`, `state "event-timers" of operator "lean"`, `state "n" of operator "gone"`} {
				if !strings.Contains(said, lost) {
					t.Errorf("the log does not say that %s is dropped:\n%s", lost, said)
				}
			}
		})
	}
	// Operators whose states are gone say so themselves.
	err = launch(t, t.TempDir(), embedded.Options{RestorePath: path}, func(j *stream.Job) {
		s := jobtest.Script(j, "in", script(records(keys...))...)
		r := stream.Process(stream.KeyBy(s, itself), "lean", newLean(false))
		stream.To(stream.Process(stream.KeyBy(r, itself), "gone", newCounter), "out", collect.New[string]())
	}).result()
	wantError(t, err, `operator "lean"`, `state "sum"`, `state "seen"`, "no longer declared", "drop it with --allow-non-restored-state")
}

// Whoever names a snapshot of another job by mistake is told so.
func TestASnapshotOfAnotherJob(t *testing.T) {
	dir, gate := t.TempDir(), jobtest.NewGate()
	r := launch(t, dir, embedded.Options{}, countJob(collect.New[string](), script(records("a"), hold(gate))))
	r.reach(gate)
	id := r.checkpoint()
	r.kill()
	other := stream.NewJob("other")
	stream.To(jobtest.Script(other, "numbers", records("a")...), "out", collect.New[string]())
	g, err := other.Build()
	if err != nil {
		t.Fatal(err)
	}
	job, err := embedded.New(g, embedded.Options{RestorePath: filepath.Join(dir, snapshot.CheckpointDir("test", id)), Parallelism: 1, Restart: checkpoint.None{}})
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, job.Run(t.Context()), fmt.Sprintf("snapshot %d of another job, test, holds state of operator", id))
}

// A source that is something else now has lost its place in the input.
func TestSourceIsSomethingElse(t *testing.T) {
	dir, gate := t.TempDir(), jobtest.NewGate()
	build := func(source, other string) func(*stream.Job) {
		return func(j *stream.Job) {
			s := jobtest.Script(j, source, script(records("a"), hold(gate))...)
			stream.To(stream.Map(s, itself, stream.ID(other)), "out", collect.New[string]())
		}
	}
	r := launch(t, dir, embedded.Options{}, build("in", "other"))
	r.reach(gate)
	r.checkpoint()
	r.kill()
	gate.Open()
	wantError(t, launch(t, dir, embedded.Options{}, build("new", "in")).result(), `state of operator "in" (source), which the job no longer has`)
	launch(t, dir, embedded.Options{AllowNonRestoredState: true}, build("new", "in")).end()
}
