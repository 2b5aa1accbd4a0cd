package embedded

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// treadmill sets a timer for the present again and again.
type treadmill struct{ timers state.Timers }

func (m *treadmill) Process(ctx *stream.Ctx[int, int], _ int) error {
	return m.timers.Set(ctx.ProcessingTime())
}

func (m *treadmill) OnTimer(_ *stream.Ctx[int, int], at time.Time) error { return m.timers.Set(at) }

func stepped(t *testing.T, o SteppedOptions, build func(*stream.Job)) *Stepped {
	t.Helper()
	j := stream.NewJob("stepped")
	build(j)
	g, err := j.Build()
	if err != nil {
		t.Fatal(err)
	}
	o.Now = func() int64 { return 1000 }
	s, err := NewStepped(g, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// split is that of a slice of n records.
func split(t *testing.T, n int64) []byte {
	t.Helper()
	b, err := datagen.FromSlice([]int{}).SplitCodec().Append(nil, datagen.Split{To: n, Step: 1})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSteppedGivesUpOnATimerThatFiresForEver(t *testing.T) {
	s := stepped(t, SteppedOptions{Attempt: 1, Blobs: mem.New(), Rounds: 2}, func(j *stream.Job) {
		keyed := stream.KeyBy(stream.FromSlice(j, "source", []int{1}), func(v int) int { return v })
		out := stream.Process(keyed, "treadmill", func(r *state.Registry) *treadmill {
			return &treadmill{state.ProcessingTimers(r)}
		})
		stream.To(out, "sink", connector.Discard[int]())
	})
	s.Assign("source", 0, split(t, 1))
	err := s.Settle()
	for _, part := range []string{"does not come to rest: the bound of a step is 2 rounds", "102400 timers", `of operator "treadmill", key 1. One`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Settle returned %v; want %q", err, part)
		}
	}
}

// clumsy cannot be closed.
type clumsy struct{}

func (clumsy) Process(*stream.Ctx[int, int], int) error { return nil }
func (clumsy) Close() error                             { return errors.New("the lid is stuck") }

func TestSteppedReturnsErrorsOfClose(t *testing.T) {
	j := stream.NewJob("stepped")
	keyed := stream.KeyBy(stream.FromSlice(j, "source", []int{1}), func(v int) int { return v })
	stream.To(stream.Process(keyed, "clumsy", func(*state.Registry) clumsy { return clumsy{} }), "sink", connector.Discard[int]())
	g, err := j.Build()
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStepped(g, SteppedOptions{Parallelism: 2, Attempt: 1, Blobs: mem.New(), Now: func() int64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Close()
	for _, part := range []string{`operator "clumsy", subtask 0: the lid is stuck`, `operator "clumsy", subtask 1: the lid is stuck`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Close returned %v; want %q", err, part)
		}
	}
}

// sums keeps the sum of the values of a key.
type sums struct{ sum state.Value[int] }

func (s *sums) Process(ctx *stream.Ctx[int, int], v int) error {
	n, err := s.sum.Get()
	if err != nil {
		return err
	}
	ctx.Emit(n + v)
	return s.sum.Set(n + v)
}

func TestSteppedTakesAndRestoresSnapshots(t *testing.T) {
	// More records of one than a queue of a running job takes.
	const fan = 80_000
	out := collect.New[int]()
	build := func(slice []int) func(*stream.Job) {
		return func(j *stream.Job) {
			many := stream.FlatMap(stream.FromSlice(j, "source", slice), func(v int, emit func(int)) {
				for range fan {
					emit(v)
				}
			})
			keyed := stream.KeyBy(many, func(int) int { return 7 })
			stream.To(stream.Process(keyed, "sums", func(r *state.Registry) *sums {
				return &sums{state.ValueIn[int](r, "sum")}
			}), "sink", out)
		}
	}
	s := stepped(t, SteppedOptions{Attempt: 1, Blobs: mem.New()}, build([]int{1}))
	s.Assign("source", 0, split(t, 1))
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	stored, err := s.Snapshot(5)
	if err != nil {
		t.Fatal(err)
	}
	m, err := snapshot.Load(t.Context(), stored.Blobs, stored.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := snapshot.Verify(t.Context(), stored.Blobs, stored.Dir, m); err != nil {
		t.Error(err)
	}
	if m.ID != 5 || m.Completed != 1000 || len(m.Files) != 1 {
		t.Errorf("the metadata is %+v", m)
	}

	// The source goes on behind the first record, the sum with what it was.
	s = stepped(t, SteppedOptions{Attempt: 2, Parallelism: 3, Blobs: mem.New(), From: stored}, build([]int{1, 2}))
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	got := out.Values()
	if len(got) != 2*fan || got[fan-1] != fan || got[2*fan-1] != 3*fan {
		t.Errorf("%d records, the last %d; want %d and %d", len(got), got[len(got)-1], 2*fan, 3*fan)
	}
}
