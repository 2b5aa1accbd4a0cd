package embedded_test

import (
	"testing"
	"time"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/connector/ratelimit"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
)

func TestRecordsPerCheckpoint(t *testing.T) {
	dir, out := t.TempDir(), collect.New[int64]()
	build := func(j *stream.Job) {
		numbers := datagen.Source(-1, func(i int64) int64 { return i })
		stream.To(stream.From(j, "numbers", ratelimit.Limit(numbers, ratelimit.PerCheckpoint(11))), "out", out)
	}
	want := 0
	for range 2 { // a restart begins with an open gate
		r := launch(t, dir, embedded.Options{Parallelism: 2}, build)
		for range 3 {
			want += 11
			if err := out.Wait(r.ctx, want); err != nil {
				t.Fatalf("%d records, want %d: %v", out.Len(), want, err)
			}
			if n := out.Len(); n != want {
				t.Fatalf("%d records, want %d", n, want)
			}
			r.checkpoint()
		}
		want += 11 // after the last checkpoint, and again after the restart
		if err := out.Wait(r.ctx, want); err != nil {
			t.Fatal(err)
		}
		r.kill()
	}
	seen := map[int64]int{}
	for _, v := range out.Values() {
		seen[v]++
	}
	// Three checkpoints cover 18 even and 15 odd numbers.
	for i := range int64(36) {
		if covered := i%2 == 0 || i < 30; covered && seen[i] != 1 || seen[i] == 0 {
			t.Errorf("record %d came %d times", i, seen[i])
		}
	}
}

type stamped struct {
	Limited bool
	Millis  int64
}

func (s stamped) time() time.Time { return time.UnixMilli(s.Millis) }

// lateness emits, for each record of the limited source, whether it was late.
type lateness struct{}

func (lateness) Process(c *stream.Ctx[stream.NoKey, bool], v stamped) error {
	if v.Limited {
		c.Emit(v.Millis <= c.Watermark())
	}
	return nil
}

// A source that its limit holds back is not idle: event time waits for it, as
// long as it takes.
func TestLimitedSourceIsNotIdle(t *testing.T) {
	out := collect.New[bool]()
	r := launch(t, t.TempDir(), embedded.Options{Parallelism: 1, WatermarkInterval: time.Millisecond}, func(j *stream.Job) {
		strategy := watermark.Monotonous(stamped.time).Idle(time.Millisecond)
		limited := datagen.Source(-1, func(i int64) stamped { return stamped{true, i} })
		far := datagen.Source(-1, func(i int64) stamped { return stamped{false, 1_000_000 + i} }, datagen.Rate(1000))
		both := stream.Union(
			stream.From(j, "limited", ratelimit.Limit(limited, ratelimit.PerCheckpoint(1)), strategy),
			stream.From(j, "far", far, strategy))
		stream.To(stream.ProcessUnkeyed(both, "late", func(*state.Registry) lateness { return lateness{} }), "out", out)
	})
	for n := range 20 {
		if err := out.Wait(r.ctx, n+1); err != nil {
			t.Fatal(err)
		}
		r.checkpoint()
	}
	for i, late := range out.Values() {
		if late {
			t.Errorf("record %d of the limited source was late", i)
		}
	}
	r.kill()
}
