package stream_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// slow takes 5 ms for a record and tells how often its key was there.
type slow struct{ n state.Value[int] }

func newSlow(r *state.Registry) *slow {
	return &slow{state.ValueIn[int](r, "n", state.TTL(2*time.Second))}
}

func (s *slow) Process(ctx *stream.Ctx[int, string], _ int) error {
	time.Sleep(5 * time.Millisecond) //nolint:forbidigo // the virtual clock moves
	n, err := s.n.Get()
	if err != nil {
		return err
	}
	ctx.Emit(fmt.Sprintf("%d:%d", ctx.Key(), n+1))
	return s.n.Set(n + 1)
}

// A function may take so long that a batch outlasts the time to live: what
// was written a moment ago has not expired, what was written before has.
func TestTTLCountsFromTheWriteNotFromTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Keys 0 to 9 in turn, each again after 50 ms; key 10 at both ends of 5 s.
		records := []int{10}
		for i := range 1000 {
			records = append(records, i%10)
		}
		records = append(records, 10)
		out := collect.New[string]()
		jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
			s := stream.FromSlice(j, "in", records)
			stream.To(stream.Process(stream.KeyBy(s, func(v int) int { return v }), "slow", newSlow), "out", out)
		})
		got := map[string]int{}
		for _, v := range out.Values() {
			got[v]++
		}
		for k := range 10 {
			if got[fmt.Sprintf("%d:100", k)] != 1 {
				t.Errorf("key %d expired although it was written all the time", k)
			}
		}
		if got["10:1"] != 2 {
			t.Errorf("key 10 was written 5 s ago and did not expire: %v", got)
		}
	})
}
