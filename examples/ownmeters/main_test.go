package main

import (
	"github.com/weirstream/weir/internal/jobtest"
	"slices"
	"testing"

	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/streamtest"
)

// Each total is emitted once, by whichever subtask owns the meter then.
func TestTotalsSurviveCrashesAtAnyParallelism(t *testing.T) {
	o := options{readings: 400, meters: 7}
	streamtest.Survives(t, o.build, streamtest.AtRecord(90).Then(3), streamtest.AfterCheckpoint(2).Then(1), streamtest.AtRandom(11).Then(5))
}

func TestEachSubtaskKeepsItsOwnMeters(t *testing.T) {
	h := streamtest.New(t, func(in stream.Stream[reading]) stream.Stream[meter] {
		return stream.ProcessUnkeyed(stream.Broadcast(in), "totals", newTotals)
	}, streamtest.Parallelism(2))
	h.Push(reading{0, 1}, reading{1, 2}, reading{2, 3}, reading{1, 4})
	h.Expect(meter{0, 1}, meter{1, 2}, meter{2, 3}, meter{1, 6})
	for _, step := range []struct {
		parallelism int
		want        []meter
	}{
		{2, []meter{{0, 1}, {2, 3}, {1, 6}}},
		{2, []meter{{0, 1}, {2, 3}, {1, 6}}},
		{3, []meter{{0, 1}, {1, 6}, {2, 3}}},
		{1, []meter{{0, 1}, {1, 6}, {2, 3}}},
	} {
		h.Rescale(step.parallelism)
		h.Snapshot()
		if got := streamtest.UnionList[meter](h, "meters"); !slices.Equal(got, step.want) {
			t.Errorf("at %d the meters are %v, want %v", step.parallelism, got, step.want)
		}
	}
	h.Push(reading{2, 10})
	h.Expect(meter{2, 13})
}

func TestBatchGivesTheSame(t *testing.T) {
	o := options{readings: 12, meters: 4}
	jobtest.SameInBatch(t, o.build)
}
