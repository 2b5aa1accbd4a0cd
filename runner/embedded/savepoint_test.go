package embedded_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
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
