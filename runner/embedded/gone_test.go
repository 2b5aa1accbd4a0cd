package embedded_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// TestRule03FinalSavepointIsGone: where the savepoint that a stop wrote
// elsewhere is gone nothing goes on from an older snapshot, whatever the sinks
// promise; --fresh takes the job on.
func TestRule03FinalSavepointIsGone(t *testing.T) {
	for _, delivery := range []connector.Delivery{connector.AtLeastOnce, connector.ExactlyOnce} {
		t.Run(fmt.Sprint(delivery), func(t *testing.T) {
			dir, savepoints, gate := t.TempDir(), t.TempDir(), jobtest.NewGate()
			out := collect.New[string]()
			if delivery == connector.ExactlyOnce {
				out = collect.NewExactlyOnce[string]()
			}
			build := func(j *stream.Job) {
				in := jobtest.Script(j, "in", script(records("a"), hold(gate), records("b"))...)
				stream.To(in, "out", out)
			}
			r := launch(t, dir, embedded.Options{}, build)
			r.reach(gate)
			r.checkpoint()
			path, err := r.job.StopWithSavepoint(r.ctx, savepoints)
			if err != nil {
				t.Fatal(err)
			}
			r.end()
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			gate.Open()
			err = launch(t, dir, embedded.Options{}, build).result()
			wantError(t, err, "the ledger names "+path, "it is gone", "put it back", "-s "+filepath.Join(dir, "test", "chk-1"), "--fresh")
			if !errors.Is(err, coord.ErrRefused) {
				t.Errorf("got %v, want a refusal", err)
			}
			want(t, "output", out.Values(), "a")
			launch(t, dir, embedded.Options{Fresh: true}, build).end()
			want(t, "output of a fresh start", out.Values(), "a", "a", "b")
		})
	}
}
