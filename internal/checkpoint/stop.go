package checkpoint

import (
	"slices"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
)

// stopping is a job on its way to its end: a last snapshot, the stopping
// record, its commits, the mark, the stopped record.
type stopping struct {
	kind snapshot.Kind
	// barrier makes the sources stop at it; at the end of input they have.
	barrier bool
	native  bool
	path    string
	outcome Outcome
	tokens  []int64
	phase   stopPhase
	// snapshot is the last one, nil in phase stopWanted.
	snapshot *pending
}

type stopPhase int

const (
	stopWanted stopPhase = iota
	stopPending
	stopRecording
	stopCommitting
	stopMarking
	stopRecorded
)

func (c *Core) beginStop(s *stopping) {
	c.stop = s
	c.retryAt = c.now
	c.reply(c.queue, 0, ErrStopping)
	c.queue = nil
}

// beginDrain ends the input. Until the last snapshot there is no other: what is
// emitted from here on must not count if the drain fails.
func (c *Core) beginDrain(s *stopping) {
	c.draining = s
	c.reply(c.queue, 0, ErrStopping)
	c.queue = nil
	c.do(Drain{})
}

func (c *Core) triggerStop() {
	s := c.stop
	if s.phase != stopWanted || c.now < c.retryAt {
		return
	}
	s.phase = stopPending
	s.snapshot = &pending{kind: s.kind, stop: s.barrier, native: s.native, path: s.path}
	c.send(s.snapshot)
}

type cancelPhase int

const (
	notCanceled cancelPhase = iota
	// cancelCommitting waits for a publication under way and for commits.
	cancelCommitting
	// cancelRecording waits for the record of the deletion.
	cancelRecording
)

// onCancel gives up what is not published. A job whose last snapshot stands
// is about to end anyway.
func (c *Core) onCancel() {
	if c.cancel != notCanceled || c.stop != nil && c.stop.phase >= stopRecording {
		return
	}
	if c.opt.Off {
		c.finish(Canceled)
		return
	}
	c.cancel = cancelCommitting
	for _, s := range []*stopping{c.stop, c.draining} {
		if s != nil {
			c.reply(s.tokens, 0, ErrCanceled)
		}
	}
	c.stop, c.draining = nil, nil
	c.reply(c.queue, 0, ErrCanceled)
	c.queue = nil
	c.replyHeld(ErrCanceled)
	for _, p := range slices.Clone(c.pending) {
		if p != c.publishing {
			c.abort(p, ErrCanceled, true)
		}
	}
}

// finishCancel ends the job once the commits of all that is completed have
// returned. If the checkpoints go with it the ledger says so first: the same
// command must not silently begin from nothing.
func (c *Core) finishCancel() {
	if c.cancel != cancelCommitting || c.publishing != nil || len(c.uncommitted) > 0 {
		return
	}
	if c.opt.Retention == checkpoint.RetainAlways || len(c.completed) == 0 {
		c.finish(Canceled)
		return
	}
	c.cancel = cancelRecording
	c.do(Append{Kind: StoppedRecord, ID: c.newestOwn(), Outcome: Canceled})
}

// newestOwn is the newest checkpoint that this attempt completed, 0 for none.
// A record that names it keeps what was published known when it is deleted.
func (c *Core) newestOwn() int64 {
	if newest := c.completed[len(c.completed)-1]; newest >= c.opt.NextID {
		return newest
	}
	return 0
}

func (c *Core) canceled(err error) {
	if err != nil {
		c.fail(err)
		return
	}
	c.deleteAll()
	c.finish(Canceled)
}

// deleteAll deletes the checkpoints of a job that has ended.
func (c *Core) deleteAll() {
	c.do(Delete{slices.Concat(c.completed, c.orphans)})
	c.do(Sweep{Own: true})
}
