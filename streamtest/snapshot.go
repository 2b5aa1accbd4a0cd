package streamtest

import "github.com/weirstream/weir/runner/embedded"

// Snapshot is a snapshot of a harness, in memory and in the format of
// checkpoints.
type Snapshot struct {
	stored embedded.StoredSnapshot
	// ended tells that the input had ended.
	ended bool
	clock clock
}

// Snapshot takes a snapshot, by a barrier that goes through all operators. The
// harness goes on; the snapshot stays as it is.
func (h *Harness[In, Out]) Snapshot() *Snapshot {
	h.core.t.Helper()
	h.core.running("Snapshot")
	h.core.snapshots++
	var stored *embedded.StoredSnapshot
	h.core.work(func() (err error) {
		stored, err = h.core.run.Snapshot(h.core.snapshots)
		return err
	})
	return &Snapshot{stored: *stored, ended: h.feed.ended, clock: h.core.clock}
}

// Restore ends the job as a failure would and starts it again from a snapshot:
// all functions are made anew, and everything they hold outside of state is
// gone. The parallelism may be another one. Event time begins anew, as in a job
// whose sources begin to read again; the wall clock goes on, and is not before
// that of the snapshot. What was emitted stays in the outputs. It returns h.
func (h *Harness[In, Out]) Restore(from *Snapshot, opts ...SharedOption) *Harness[In, Out] {
	h.core.t.Helper()
	h.core.idle("Restore")
	switch {
	case h.core.closed:
		h.core.t.Fatal("Restore after Close")
	case from == nil:
		h.core.t.Fatal("Restore from nil; take a Snapshot first")
	}
	for i, o := range opts {
		h.core.opts.apply(i, o)
	}
	if err := h.core.opts.err(); err != nil {
		h.core.t.Fatalf("Restore: %v", err)
	}
	h.core.stop()
	h.resume(from)
	if h.core.clock.time().Before(from.clock.time()) {
		h.core.clock = from.clock
	}
	h.core.start(from)
	return h
}

// Rescale takes a snapshot and restores it with another parallelism.
func (h *Harness[In, Out]) Rescale(parallelism int) *Harness[In, Out] {
	h.core.t.Helper()
	if parallelism < 1 {
		h.core.t.Fatalf("Rescale(%d): an operator has 1 subtask or more", parallelism)
	}
	return h.Restore(h.Snapshot(), Parallelism(parallelism))
}
