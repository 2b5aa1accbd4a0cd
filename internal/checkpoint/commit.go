package checkpoint

import (
	"context"
	"fmt"
	"time"

	"github.com/weirstream/weir/internal/killpoint"
	"github.com/weirstream/weir/internal/stage"
)

const (
	// sweepPause lies between two sweeps of a running attempt.
	sweepPause = time.Minute
	// sweepTimeout bounds one: commits wait for it.
	sweepTimeout = 10 * time.Second
)

// sink is the committing side of one sink. One call of its committer is under
// way at a time; what completes meanwhile goes with the next.
type sink struct {
	committer stage.Committer
	worker    *worker
	busy      bool
	// done is the checkpoint up to which commits have returned.
	done int64
}

// commit commits, sink by sink and apart from everything else, what was
// pre-committed up to a completed checkpoint.
func (d *driver) commit(id int64) {
	for op, u := range d.pool.sinks {
		if d.sinks[op] == nil && len(u.list) > 0 {
			err := fmt.Errorf("sink %s has committables but no committer", op)
			d.post(func(d *driver) { d.step(CommitFailed{err}) })
			return
		}
	}
	d.wanted = id
	for op, s := range d.sinks {
		d.commitNext(op, s)
	}
	d.post((*driver).committed)
}

func (d *driver) commitNext(op string, s *sink) {
	if s.busy || s.done >= d.wanted {
		return
	}
	id, data := d.wanted, d.pool.send(op, d.wanted)
	if len(data) == 0 {
		s.done = id
		return
	}
	s.busy = true
	ctx := d.ctx
	s.worker.do(func() {
		killpoint.Reach("commit.begin")
		err := s.committer.Commit(ctx, data)
		killpoint.Reach("commit.end")
		d.post(func(d *driver) {
			if err != nil {
				d.step(CommitFailed{fmt.Errorf("commit sink %s up to checkpoint %d: %w", op, id, err)})
				return
			}
			s.busy, s.done = false, id
			d.pool.confirm(op)
			d.commitNext(op, s)
			d.committed()
		})
	})
}

// committed tells the core how far all sinks have come.
func (d *driver) committed() {
	upTo := d.wanted
	for _, s := range d.sinks {
		upTo = min(upTo, s.done)
	}
	if upTo > d.core.committed {
		d.step(CommittedUpTo{upTo})
	}
}

// sweepSinks has the sinks abort what earlier attempts opened after the start
// had looked: one that was paused goes on writing until it learns that it is
// fenced, and would hold up readers with what it leaves open.
func (d *driver) sweepSinks() {
	if time.Since(d.swept) < sweepPause {
		return
	}
	d.swept = time.Now()
	parent := d.ctx
	for op, s := range d.sinks {
		s.worker.do(func() {
			ctx, cancel := context.WithTimeout(parent, sweepTimeout)
			defer cancel()
			err := s.committer.Sweep(ctx, func() error { return d.cfg.Attempt.StillNewest(ctx) })
			if err != nil && parent.Err() == nil {
				d.cfg.Logger.Warn("looking for what earlier attempts left open; the next look follows", "sink", op, "error", err)
			}
		})
	}
}
