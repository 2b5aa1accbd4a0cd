package embedded_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/internal/storage/storagetest"
	"github.com/weirstream/weir/runner/embedded"
)

// TestChaos runs each shape through kills at random moments, restarts at
// random parallelism, failing records and failing storage, with checkpoints
// as fast as they come: what is committed is that of a straight run.
func TestChaos(t *testing.T) {
	for _, s := range shapes {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s, seed %d", s.name, seed), func(t *testing.T) {
				scripts := input(seed, s.ordered)
				straight := newWriter()
				launch(t, t.TempDir(), embedded.Options{}, s.job(straight, scripts, 0)).end()
				w := newWriter()
				s.chaos(t, w, scripts, rand.New(rand.NewPCG(seed, 11)))
				same(t, "after the chaos", w.output(), straight.output())
			})
		}
	}
}

var errFlaky = errors.New("the storage has a bad day")

func (s shape) chaos(t *testing.T, w *writer, scripts [][]jobtest.Item[string], random *rand.Rand) {
	t.Helper()
	disk := storagetest.NewFaulty(mem.New())
	scripts, gates := interrupted(scripts, 6)
	for i := range gates {
		build := s.job(w, scripts, random.Int64N(300))
		r := launch(t, checkpoint.Memory, embedded.Options{
			Parallelism: 1 + random.IntN(3), Storage: disk, BufferTimeout: ms,
			Restart: checkpoint.FixedDelay{Attempts: checkpoint.Unlimited, Delay: ms},
			Checkpoint: checkpoint.Options{
				Interval: ms, MaxConcurrent: 1 + random.IntN(3), Retained: 1 + random.IntN(2), TolerableFailures: random.IntN(3) - 1,
			},
		}, build)
		r.wait(embedded.Started)
		disk.Script(storagetest.Fault{Op: storagetest.Put, Skip: random.IntN(5), Times: random.IntN(3), Err: errFlaky, After: random.IntN(2) == 0},
			storagetest.Fault{Op: storagetest.PutIfAbsent, Skip: random.IntN(8), Err: errFlaky, After: random.IntN(2) == 0},
			storagetest.Fault{Op: storagetest.Delete, Skip: random.IntN(3), Err: errFlaky})
		for _, g := range gates[i] {
			g.Open()
		}
		r.completed(random.IntN(4))
		// A suspend may find the storage failing, which the next start makes
		// good; a job that is cancelled may fail at the same moment. The last
		// gates open, it may have come to its end, too.
		suspend := random.IntN(3) == 0
		if suspend {
			r.job.Suspend()
		} else {
			r.cancel()
		}
		var uncommitted *coord.UncommittedError
		if err := r.result(); err != nil && suspend && !errors.As(err, &uncommitted) {
			t.Fatalf("run %d: %v", i, err)
		}
		if r.job.Status().State == "finished" {
			return
		}
	}
	r := launch(t, checkpoint.Memory, embedded.Options{
		Parallelism: 2, Storage: disk, Restart: checkpoint.FixedDelay{Attempts: 20, Delay: ms},
		Checkpoint: checkpoint.Options{Interval: ms, TolerableFailures: checkpoint.Unlimited},
	}, s.job(w, scripts, 0))
	// The run before may have been cancelled at its very end.
	if err := r.result(); err != nil && !(errors.Is(err, coord.ErrFinished) && r.job.Status().Restarts == 0) {
		t.Fatal(err)
	}
}

// completed waits until n checkpoints were completed, or the job has ended.
func (r *run) completed(n int) {
	for seen := 0; seen < n; {
		r.mu.Lock()
		events, more := r.events, r.more
		r.mu.Unlock()
		for ; r.read < len(events); r.read++ {
			if events[r.read].Kind == embedded.CheckpointCompleted {
				seen++
			}
		}
		if seen >= n {
			return
		}
		select {
		case <-more:
		case err := <-r.done:
			r.done <- err
			return
		}
	}
}
