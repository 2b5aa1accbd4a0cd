package streamtest

import (
	"math"

	"github.com/weirstream/weir/runner/embedded"
)

// Snapshot is a snapshot of a harness, in memory and in the format of
// checkpoints.
type Snapshot struct {
	stored embedded.StoredSnapshot
	// ended tells that the input had ended.
	ended bool
}

// Snapshot takes a snapshot, by a barrier that goes through all operators. The
// harness goes on; the snapshot stays as it is.
func (h *Harness[In, Out]) Snapshot() *Snapshot {
	h.core.t.Helper()
	h.core.running("Snapshot")
	h.core.snapshots++
	stored, err := h.core.run.Snapshot(h.core.snapshots)
	if err != nil {
		h.core.fail(err)
	}
	return &Snapshot{stored: *stored, ended: h.feed.ended}
}

// Restore ends the job as a failure would and starts it again from a snapshot:
// all functions are made anew, and everything they hold outside of state is
// gone. The parallelism may be another one. Event time begins anew, as in a job
// whose sources begin to read again; the wall clock goes on. What was emitted
// stays in the outputs. It returns h.
func (h *Harness[In, Out]) Restore(from *Snapshot, opts ...SharedOption) *Harness[In, Out] {
	h.core.t.Helper()
	switch {
	case h.core.closed:
		h.core.t.Fatal("Restore after Close")
	case from == nil:
		h.core.t.Fatal("Restore from nil; take a Snapshot first")
	}
	for _, o := range opts {
		o.forHarness(&h.core.opts)
	}
	h.core.stop()
	h.feed.wm, h.feed.ended = math.MinInt64, from.ended
	h.feed.records, h.feed.times = nil, nil
	h.core.start(from)
	return h
}

// Rescale takes a snapshot and restores it with another parallelism.
func (h *Harness[In, Out]) Rescale(parallelism int) *Harness[In, Out] {
	h.core.t.Helper()
	return h.Restore(h.Snapshot(), Parallelism(parallelism))
}
