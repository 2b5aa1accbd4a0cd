package connectortest

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/watermark"
)

// tracker makes a reader's watermarks as the engine does.
type tracker[T any] struct {
	time   func(T) int64
	splits *watermark.Splits[T]
	// begun is where the watermark stood when a split came: what it has below
	// was late before.
	begun map[string]int64
}

func newTracker[T any](at func(T) int64) *tracker[T] {
	strategy := watermark.Monotonous(func(v T) time.Time { return time.UnixMilli(at(v)) })
	return &tracker[T]{time: at, splits: watermark.NewSplits(strategy), begun: map[string]int64{}}
}

func (t *tracker[T]) added(ids []string) {
	if len(ids) == 0 {
		t.splits.Unassigned()
	}
	for _, id := range ids {
		t.splits.Add(id)
		t.begun[id] = t.splits.Watermark()
	}
}

// emitted checks that no record lies behind what the splits together have
// promised.
func (t *tracker[T]) emitted(split string, out *connector.Output[T]) error {
	times := make([]int64, len(out.Vals))
	for i, v := range out.Vals {
		times[i] = t.time(v)
		if promised := t.splits.Watermark(); times[i] <= promised && promised > t.begun[split] {
			return fmt.Errorf("a record of split %s has time %d, and the reader's watermark is at %d", split, times[i], promised)
		}
	}
	for vals := out.Vals; len(vals) > 0; {
		n := t.splits.OnBatch(split, vals, times, 0).Taken
		vals, times = vals[n:], times[n:]
	}
	t.splits.Advance()
	return nil
}

func (t *tracker[T]) finished(id string) {
	t.splits.Release(id)
	t.splits.Advance()
}

// testWatermark runs with batches of one, where splits get ahead of each other
// as they can, from the beginning and from the middle, when several splits are
// there at once.
func testWatermark[T any, S connector.Split, E any](t *testing.T, s SourceSuite[T, S, E]) {
	if s.Time == nil {
		t.Skip("the suite was given no Time")
	}
	first := s.start(t, 3, nil, 1)
	first.until(len(s.Want) / 2)
	before, snap := first.records, first.Snapshot(1)
	first.toEnd()
	first.wantAll(first.records, "from the beginning")
	first.close()

	second := s.start(t, 1, snap, 1)
	second.toEnd()
	second.wantAll(join(before, second.records), "from the middle")
	second.wantFinished()
	second.close()
}
