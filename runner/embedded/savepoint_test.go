package embedded_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// A savepoint taken into a relative directory and moved elsewhere starts the
// job in another checkpoint directory and at another parallelism.
func TestSavepointIsRelocatable(t *testing.T) {
	t.Chdir(t.TempDir())
	gate, keys := jobtest.NewGate(), numbered("k", 20)
	input := script(records(keys...), records(keys...), hold(gate), records(keys...))
	first, second := collect.NewExactlyOnce[string](), collect.NewExactlyOnce[string]()

	r := launch(t, t.TempDir(), embedded.Options{Parallelism: 2}, countJob(first, input))
	r.reach(gate)
	path, err := r.job.Savepoint(r.ctx, "saved")
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(path) {
		t.Errorf("the path %s is relative", path)
	}
	want(t, "published once the savepoint is reported", first.Values(), counted(1, 2, keys...)...)
	r.kill()

	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	gate.Open()
	o := embedded.Options{Parallelism: 3, RestorePath: "file://" + moved}
	launch(t, t.TempDir(), o, countJob(second, input)).end()
	want(t, "of the copy", second.Values(), counted(3, 3, keys...)...)
	if _, err := r.job.Checkpoint(t.Context()); !errors.Is(err, embedded.ErrNotRunning) {
		t.Errorf("a checkpoint of a job that has ended: %v", err)
	}
}

// A savepoint of either backend restores into the other one, at another
// parallelism.
func TestSavepointGoesIntoEitherBackend(t *testing.T) {
	gates, keys := []*jobtest.Gate{jobtest.NewGate(), jobtest.NewGate()}, numbered("k", 50)
	build := func(out *collect.Sink[string]) func(*stream.Job) {
		return countJob(out, script(records(keys...), hold(gates[0]), records(keys...), hold(gates[1]), records(keys...)))
	}
	heap, lsm := embedded.Options{StateBackend: embedded.Heap}, embedded.Options{StateBackend: embedded.LSM, LSMMemory: 1000, LSMDir: t.TempDir()}
	for what, order := range map[string][3]embedded.Options{"heap, lsm, heap": {heap, lsm, heap}, "lsm, heap, lsm": {lsm, heap, lsm}} {
		t.Run(what, func(t *testing.T) {
			path := ""
			for i, o := range order {
				gates = []*jobtest.Gate{jobtest.NewGate(), jobtest.NewGate()}
				for _, g := range gates[:min(i, 2)] {
					g.Open()
				}
				out := collect.NewExactlyOnce[string]()
				o.RestorePath, o.Parallelism = path, i+1
				r := launch(t, t.TempDir(), o, build(out))
				if i < 2 {
					r.reach(gates[i])
					var err error
					if path, err = r.job.StopWithSavepoint(r.ctx, t.TempDir()); err != nil {
						t.Fatal(err)
					}
				}
				r.end()
				want(t, what, out.Values(), counted(i+1, i+1, keys...)...)
			}
		})
	}
}
