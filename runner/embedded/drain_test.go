package embedded_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/window"
)

// tumbling counts per key in windows of 10 ms.
func tumbling(out *collect.Sink[string], items []jobtest.Item[string]) func(*stream.Job) {
	return func(j *stream.Job) {
		s := jobtest.Script(j, "in", items...)
		r := stream.Aggregate(stream.KeyBy(s, itself), "windows", window.Tumbling(10*ms), agg.Count[string](),
			func(k string, w window.Span, n int64) string {
				return fmt.Sprintf("%s@%d=%d", k, w.Start, n)
			})
		stream.To(r, "out", out)
	}
}

// A drained job has fired its windows and published them, and has finished.
// Started from the savepoint all the same it reads on where it was.
func TestDrain(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	build := tumbling(out, script(
		[]jobtest.Item[string]{jobtest.R("a", 1), jobtest.R("a", 2), jobtest.R("a", 13)}, hold(gate),
		[]jobtest.Item[string]{jobtest.R("a", 14)}))
	r := launch(t, dir, embedded.Options{Parallelism: 2}, build)
	r.reach(gate)
	r.checkpoint()
	want(t, "before the drain", out.Values())
	path, err := r.job.DrainWithSavepoint(r.ctx, filepath.Join(dir, "saved"))
	if err != nil {
		t.Fatal(err)
	}
	r.end()
	if s := r.job.Status().State; s != "finished" {
		t.Errorf("the job is %s", s)
	}
	want(t, "once drained", out.Values(), "a@0=2", "a@10=1")
	if _, err := os.Stat(filepath.Join(path, "_committed")); err != nil {
		t.Error(err)
	}
	if err := launch(t, dir, embedded.Options{}, build).result(); !errors.Is(err, coord.ErrFinished) {
		t.Errorf("the same command: %v", err)
	}
	gate.Open()
	launch(t, dir, embedded.Options{RestorePath: path}, build).end()
	want(t, "of the rest", out.Values(), "a@0=2", "a@10=1", "a@10=1")
}

// A drain whose savepoint fails has not happened: the windows go on filling.
func TestDrainFails(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	build := tumbling(out, script(
		[]jobtest.Item[string]{jobtest.R("a", 1), jobtest.R("a", 2)}, hold(gate),
		[]jobtest.Item[string]{jobtest.R("a", 3)}))
	r := launch(t, dir, embedded.Options{Restart: checkpoint.FixedDelay{Attempts: 1, Delay: ms}}, build)
	r.reach(gate)
	r.checkpoint()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := r.job.DrainWithSavepoint(r.ctx, filepath.Join(file, "below"))
	wantError(t, err, "savepoint 2 failed", "not a directory")
	r.wait(embedded.Restarting)
	gate.Open()
	r.end()
	want(t, "output", out.Values(), "a@0=3")
}

// History tells of checkpoints and savepoints, those that failed too, and of
// the snapshot that the job began from.
func TestHistory(t *testing.T) {
	dir, gate, keys := t.TempDir(), jobtest.NewGate(), numbered("k", 5)
	build := countJob(collect.NewExactlyOnce[string](), script(records(keys...), hold(gate)))
	r := launch(t, dir, embedded.Options{Parallelism: 2}, build)
	r.reach(gate)
	r.checkpoint() // 1
	path, err := r.job.Savepoint(r.ctx, filepath.Join(dir, "saved"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = r.job.Savepoint(r.ctx, filepath.Join(file, "below"))
	wantError(t, err, "not a directory")
	h := r.job.History()
	if h.Completed != 2 || h.Failed != 1 || h.Restored != 0 || h.LastRestored != nil || len(h.Snapshots) != 3 {
		t.Fatalf("got %+v", h)
	}
	for i, w := range []embedded.SnapshotStatus{
		{ID: 3, State: embedded.SnapshotFailed, Savepoint: true, Path: filepath.Join(file, "below", "savepoint-test-3")},
		{ID: 2, State: embedded.SnapshotCompleted, Savepoint: true, Path: path},
		{ID: 1, State: embedded.SnapshotCompleted, Path: filepath.Join(dir, "test", "chk-1")},
	} {
		s := h.Snapshots[i]
		if s.ID != w.ID || s.State != w.State || s.Savepoint != w.Savepoint || s.Path != w.Path || s.Subtasks != 4 || s.Ended.Before(s.Triggered) {
			t.Errorf("snapshot %d: %+v", w.ID, s)
		}
		if done := w.State == embedded.SnapshotCompleted; done != (s.Failure == "") || done && (s.Acknowledged != 4 || s.Bytes == 0) {
			t.Errorf("snapshot %d: %+v", w.ID, s)
		}
	}
	r.kill()

	r = launch(t, dir, embedded.Options{RestorePath: path, Rewind: true}, build)
	r.wait(embedded.Started)
	h = r.job.History()
	if h.Restored != 1 || h.LastRestored == nil || h.LastRestored.Path != path || h.LastRestored.ID != 2 || !h.LastRestored.Savepoint || len(h.Snapshots) != 0 {
		t.Errorf("after the restore: %+v, %+v", h, h.LastRestored)
	}
	r.kill()
}
