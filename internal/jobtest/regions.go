package jobtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/ratelimit"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// regionFailures is how often a subtask fails, at most.
const regionFailures = 12

// RegionsFail runs jobs that read a source at parallelism 3 while checkpoints
// are taken. Their subtasks fail at random records, and start again alone. What
// state holds must be that of each wanted record once, and none may be missing
// in what is written.
func RegionsFail[S connector.Split, E any](t *testing.T, source func() connector.Source[string, S, E], want []string) {
	t.Helper()
	restarts := 0
	for seed := range uint64(5) {
		restarts += regionsFail(t, seed, source(), want)
	}
	if restarts == 0 {
		t.Error("no region failed")
	}
}

func regionsFail[S connector.Split, E any](t *testing.T, seed uint64, source connector.Source[string, S, E], want []string) int {
	t.Helper()
	out := collect.New[string]()
	w := &wrecker{rnd: rand.New(rand.NewPCG(seed, 0)), every: len(want) / 4}
	w.next()
	var failed error
	o := embedded.Options{
		Parallelism: 3, Restart: checkpoint.FixedDelay{Attempts: checkpoint.Unlimited, Delay: time.Millisecond},
		Checkpoint: checkpoint.Options{Interval: time.Millisecond, Dir: t.TempDir(), TolerableFailures: 1000},
		OnEvent: func(e embedded.Event) {
			switch e.Kind {
			case embedded.Failed:
				failed = e.Err
			case embedded.RegionFailed:
				t.Logf("seed %d: %v", seed, e.Err)
			}
		},
	}
	job := Job(t, o, func(j *stream.Job) {
		limited := ratelimit.Limit(source, ratelimit.PerCheckpoint(max(1, len(want)/30)))
		s := stream.From(j, "in", limited)
		stream.To(stream.TryMap(stream.ProcessUnkeyed(s, "account", newAccount), w.pass), "out", out)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := job.Run(ctx); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if failed != nil {
		t.Errorf("seed %d: all failed: %v", seed, failed)
	}
	total := 0
	written := slices.DeleteFunc(out.Values(), func(v string) bool {
		var n int
		_, err := fmt.Sscanf(v, totalPrefix+"%d", &n)
		total += n
		return err == nil
	})
	if total != len(want) {
		t.Errorf("seed %d: the subtasks have counted %d records, want %d", seed, total, len(want))
	}
	slices.Sort(written)
	if written = slices.Compact(written); !slices.Equal(written, slices.Sorted(slices.Values(want))) {
		t.Errorf("seed %d: written are %q, want %q", seed, written, want)
	}
	return job.Status().Restarts
}

// wrecker fails after a random number of records, again and again.
type wrecker struct {
	mu       sync.Mutex
	rnd      *rand.Rand
	every    int
	left     int
	failures int
}

func (w *wrecker) next() { w.left = 1 + w.rnd.IntN(w.every) }

func (w *wrecker) pass(v string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left--; w.left > 0 || w.failures == regionFailures || strings.HasPrefix(v, totalPrefix) {
		return v, nil
	}
	w.failures++
	w.next()
	return "", errors.New("broken at " + v)
}

const totalPrefix = "total "

// account counts in operator state what its subtask has processed, and emits that
// at the end.
type account struct{ seen state.OperatorList[int] }

func newAccount(r *state.Registry) *account { return &account{state.OperatorListIn[int](r, "seen")} }

func (f *account) Process(c *stream.Ctx[stream.NoKey, string], v string) error {
	n := 1
	for old := range f.seen.All() {
		n += old
	}
	f.seen.Update([]int{n})
	c.Emit(v)
	return nil
}

func (f *account) EndInput(c *stream.Ctx[stream.NoKey, string]) error {
	for n := range f.seen.All() {
		c.Emit(fmt.Sprint(totalPrefix, n))
	}
	return nil
}
