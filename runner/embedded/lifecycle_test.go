package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// stalled is a storage whose n-th operation takes until act has been called,
// or its context ends.
type stalled struct {
	storage.Blobs
	at    int64
	calls atomic.Int64
	act   func()
	acted atomic.Bool
}

func (s *stalled) stall(ctx context.Context) error {
	if s.calls.Add(1) == s.at {
		s.acted.Store(true)
		s.act()
	}
	return ctx.Err()
}

func (s *stalled) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	return errors.Join(s.stall(ctx), s.Blobs.Put(ctx, name, write))
}

func (s *stalled) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if err := s.stall(ctx); err != nil {
		return err
	}
	return s.Blobs.PutIfAbsent(ctx, name, data)
}

func (s *stalled) Get(ctx context.Context, name string) ([]byte, error) {
	if err := s.stall(ctx); err != nil {
		return nil, err
	}
	return s.Blobs.Get(ctx, name)
}

func (s *stalled) GetRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	if err := s.stall(ctx); err != nil {
		return nil, err
	}
	return s.Blobs.GetRange(ctx, name, off, n)
}

func (s *stalled) List(ctx context.Context, prefix string, fn func(string, int64) error) error {
	if err := s.stall(ctx); err != nil {
		return err
	}
	return s.Blobs.List(ctx, prefix, fn)
}

func (s *stalled) Delete(ctx context.Context, name string) error {
	if err := s.stall(ctx); err != nil {
		return err
	}
	return s.Blobs.Delete(ctx, name)
}

// TestSuspendAndCancelInEveryPhase ends the job during each of its storage
// operations in turn, from the claim to the stopped record, and starts it
// again.
func TestSuspendAndCancelInEveryPhase(t *testing.T) {
	for _, suspend := range []bool{true, false} {
		for n := int64(1); endAt(t, n, suspend); n++ {
		}
	}
}

func endAt(t *testing.T, n int64, suspend bool) (acted bool) {
	when := fmt.Sprintf("operation %d, suspend %v", n, suspend)
	c, blobs := newCrashJob(2), mem.New()
	s := &stalled{Blobs: blobs, at: n}
	var job *embedded.Job
	err := c.startWith(t, s, steppedSink{c.out, unlimited()}, s.acted.Load, 2, func(j *embedded.Job, cancel context.CancelFunc) {
		job, s.act = j, cancel
		if suspend {
			s.act = j.Suspend
		}
	})
	state := job.Status().State
	switch {
	case err == nil && (state == "finished" || state == "suspended"):
		if state == "suspended" && !suspend {
			t.Errorf("%s: the job is %s", when, state)
		}
	case !suspend && errors.Is(err, context.Canceled) && state == "canceled":
	default:
		t.Errorf("%s: the job is %s with %v", when, state, err)
	}
	c.finish(t, blobs, 3, when)
	return s.acted.Load()
}

func TestSuspendBeforeRun(t *testing.T) {
	job := jobtest.Job(t, embedded.Options{}, func(j *stream.Job) {
		stream.To(stream.FromSlice(j, "in", []int{1}), "out", collect.New[int]())
	})
	job.Suspend()
	if err := job.Run(t.Context()); err != nil || job.Status().State != "suspended" {
		t.Errorf("the job is %s with %v", job.Status().State, err)
	}
}

func TestEndDuringTheRestartPause(t *testing.T) {
	for _, suspend := range []bool{true, false} {
		r := launch(t, t.TempDir(), embedded.Options{Restart: checkpoint.FixedDelay{Attempts: 3, Delay: time.Hour}}, func(j *stream.Job) {
			s := stream.TryMap(stream.FromSlice(j, "in", []string{"v"}), func(string) (string, error) { return "", errors.New("no") })
			stream.To(s, "out", collect.NewExactlyOnce[string]())
		})
		r.wait(embedded.Failed)
		if suspend {
			r.suspend()
			continue
		}
		r.kill()
	}
}

// A suspend that comes before the tasks run must not delete checkpoints, as a
// cancel may.
func TestSuspendWhileStartingKeepsCheckpoints(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	at := func(string) {}
	src := &shots{at: func(place string) { at(place) }, first: []int{1, 2}}
	o := embedded.Options{Checkpoint: checkpoint.Options{Retention: checkpoint.DeleteAtEnd}}
	build := func(j *stream.Job) {
		stream.To(stream.Union(stream.From[string](j, "shots", src), jobtest.Script(j, "in", script(records("a"), hold(gate))...)), "out", out)
	}
	r := launch(t, dir, o, build)
	r.reach(gate)
	r.suspend()
	var job atomic.Pointer[embedded.Job]
	at = func(place string) {
		if place == "NewEnumerator" {
			(*job.Load()).Suspend()
		}
	}
	second := jobtest.Job(t, embedded.Options{Checkpoint: checkpoint.Options{Dir: dir, Interval: never, Retention: checkpoint.DeleteAtEnd}}, build)
	job.Store(second)
	if err := second.Run(t.Context()); err != nil || second.Status().State != "suspended" {
		t.Fatalf("the job is %s with %v", second.Status().State, err)
	}
	at = func(string) {}
	src.last = true
	gate.Open()
	launch(t, dir, o, build).end()
	want(t, "results", out.Values(), "a", "v1", "v2")
}
