package embedded_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/jobtest"
)

// A local disk that fails during a snapshot fails the attempt, however many
// failed checkpoints are tolerated: what should be there is nowhere for sure.
func TestALostLocalDiskFailsTheAttempt(t *testing.T) {
	o := lsm(t)
	o.Checkpoint.TolerableFailures = checkpoint.Unlimited
	gate := jobtest.NewGate()
	r := launch(t, t.TempDir(), o, countJob(collect.New[string](), script(records(numbered("k", 300)...), batchEnd, records(numbered("l", 300)...), hold(gate))))
	r.reach(gate)
	r.checkpoint() // all is open
	left, err := filepath.Glob(filepath.Join(o.LSMDir, "*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("local directories: %v, %v", left, err)
	}
	if err := os.RemoveAll(left[0]); err != nil {
		t.Fatal(err)
	}
	if id, err := r.job.TakeCheckpoint(r.ctx); err == nil {
		t.Errorf("checkpoint %d is complete without the disk", id)
	}
	gate.Open()
	if err := <-r.done; !errors.Is(err, heap.ErrTier) || !strings.Contains(err.Error(), left[0]) {
		t.Errorf("the job ended with %v", err)
	}
}
