package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// hoarder keeps all it gets. If it is stubborn it recovers from any panic.
type hoarder struct {
	seen     state.Map[string, string]
	stubborn bool
}

func newHoarder(stubborn bool) func(*state.Registry) *hoarder {
	return func(r *state.Registry) *hoarder {
		return &hoarder{seen: state.MapIn[string, string](r, "seen"), stubborn: stubborn}
	}
}

func (h *hoarder) Process(c *stream.Ctx[string, string], v string) error {
	if h.stubborn {
		defer func() { _ = recover() }()
	}
	c.Emit(v)
	return h.seen.Put(v, strings.Repeat(v, 100))
}

// A job whose state outgrows the budget fails with an error that says so,
// after as many restarts as it has, even where a function swallows the panic.
func TestStateOutgrowsTheBudget(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		var items []jobtest.Item[string]
		for i := range 20_000 {
			items = append(items, jobtest.R(fmt.Sprintf("%06d", i), int64(i)))
		}
		failures := 0
		job := jobtest.Job(t, embedded.Options{
			HeapMemory: 4 << 20,
			Restart:    checkpoint.FixedDelay{Attempts: 2, Delay: time.Millisecond},
			Checkpoint: checkpoint.Options{Dir: "memory:", Interval: 5 * time.Millisecond},
			OnEvent: func(e embedded.Event) {
				if e.Kind == embedded.Failed {
					failures++
				}
			},
		}, func(j *stream.Job) {
			s := jobtest.Script(j, "in", items...)
			k := stream.KeyBy(s, func(v string) string { return v[4:] })
			stream.To(stream.Process(k, "hoard", newHoarder(stubborn)), "out", collect.New[string]())
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := job.Run(ctx)
		if !errors.Is(err, memory.ErrBudget) || strings.Contains(err.Error(), "goroutine") {
			t.Fatalf("stubborn %v: the job ended with %v, want ErrBudget without a stack", stubborn, err)
		}
		if want := `operator "hoard" state "seen" `; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "set state.backend.type to lsm") {
			t.Errorf("stubborn %v: %v\ndoes not tell of %s, and of lsm", stubborn, err, want)
		}
		if failures != 3 {
			t.Errorf("stubborn %v: %d attempts failed, want 3", stubborn, failures)
		}
	}
}
