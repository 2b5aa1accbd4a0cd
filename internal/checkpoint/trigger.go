package checkpoint

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

// trigger sends the barriers that are due.
func (c *Core) trigger() {
	switch {
	case !c.started || c.cancel != notCanceled || len(c.down) > 0:
		return
	case c.stop != nil:
		c.triggerStop()
		return
	case c.draining != nil:
		return
	}
	if c.followUpWanted() && c.now >= c.retryAt {
		c.send(&pending{kind: snapshot.Checkpoint})
	}
	if len(c.queue) > 0 && c.slotFree() {
		c.send(&pending{kind: snapshot.Checkpoint, tokens: c.queue})
		c.queue = nil
	}
	if at, ok := c.periodicAt(); ok && c.now >= at {
		c.send(&pending{kind: snapshot.Checkpoint})
		c.due = c.now + c.opt.Interval
	}
}

// send triggers p under the next id.
func (c *Core) send(p *pending) {
	p.id, p.triggered = c.next, c.now
	c.next++
	p.waiting = map[stage.TaskID]bool{}
	for t := range c.tasks {
		p.waiting[t] = true
	}
	c.pending = append(c.pending, p)
	c.do(Trigger{Path: p.path, Barrier: &stage.Barrier{
		ID: p.id, Kind: p.kind, Native: p.native, Stop: p.stop, AtLeastOnce: c.opt.AtLeastOnce, Triggered: c.now,
	}})
}

// slotFree reports whether another checkpoint may be under way.
func (c *Core) slotFree() bool {
	n := 0
	for _, p := range c.pending {
		if p.kind != snapshot.Savepoint {
			n++
		}
	}
	return n < c.opt.MaxConcurrent
}

// periodicAt is when the next periodic checkpoint goes out, if nothing but
// time stands in its way.
func (c *Core) periodicAt() (at int64, ok bool) {
	if c.opt.Interval == 0 || !c.slotFree() || len(c.uncommitted) >= maxUncommitted {
		return 0, false
	}
	return max(c.due, c.pauseUntil), true
}

// followUpWanted reports whether a savepoint awaits a later checkpoint, which
// commits what it holds, and none is under way.
func (c *Core) followUpWanted() bool {
	var newest int64
	for _, p := range c.unmarked {
		if !p.marking {
			newest = p.id
		}
	}
	return newest > 0 && !slices.ContainsFunc(c.uncommitted, func(id int64) bool { return id > newest }) &&
		!slices.ContainsFunc(c.pending, func(p *pending) bool { return p.id > newest && p.kind != snapshot.Savepoint })
}

// expire fails the snapshots whose time is up.
func (c *Core) expire() {
	for _, p := range slices.Clone(c.pending) {
		if len(p.waiting) > 0 && c.now >= p.triggered+c.opt.Timeout && !c.ended {
			c.failed(p, fmt.Errorf("%w after %d ms: no acknowledgement from %s", ErrTimeout, c.now-p.triggered, c.missing(p)), true)
		}
	}
}

func (c *Core) missing(p *pending) string {
	var names []string
	for t := range p.waiting {
		names = append(names, taskName(t))
	}
	slices.Sort(names)
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	}
	return fmt.Sprint(names)
}

// failed ends a snapshot that did not come to be, and the job if that is one
// too many. Files are discarded unless _metadata may stand.
func (c *Core) failed(p *pending, reason error, discard bool) {
	c.abort(p, reason, discard)
	if p.plainSavepoint() || c.cancel != notCanceled {
		return
	}
	c.failures++
	c.retryAt = c.now + retryPause
	if tolerable := c.opt.TolerableFailures; p.stop && p.kind == snapshot.Savepoint || tolerable >= 0 && c.failures > tolerable {
		c.fail(fmt.Errorf("%s %d failed: %w (failures in a row: %d, tolerated: %d; execution.checkpointing.tolerable-failed-checkpoints raises that)", p.kind, p.id, reason, c.failures, tolerable))
	}
}

// abort takes a pending snapshot away.
func (c *Core) abort(p *pending, reason error, discard bool) {
	c.remove(p)
	if discard {
		c.do(Discard{p.id})
	}
	c.do(NotifyAborted{p.id, reason})
	c.reply(p.tokens, 0, fmt.Errorf("%s %d: %w", p.kind, p.id, reason))
	if s := c.stop; s != nil && s.snapshot == p {
		s.snapshot, s.phase = nil, stopWanted
	}
}

// setTimer asks for the next moment at which time alone changes something.
func (c *Core) setTimer() {
	var at int64
	earliest := func(t int64) {
		if at == 0 || t < at {
			at = t
		}
	}
	for _, p := range c.pending {
		if len(p.waiting) > 0 {
			earliest(p.triggered + c.opt.Timeout)
		}
	}
	if c.started && c.cancel == notCanceled && len(c.down) == 0 {
		if s := c.stop; s != nil {
			if s.phase == stopWanted {
				earliest(c.retryAt)
			}
		} else if c.draining == nil {
			if t, ok := c.periodicAt(); ok {
				earliest(t)
			}
			if c.followUpWanted() {
				earliest(c.retryAt)
			}
		}
	}
	if at != c.timer {
		c.timer = at
		c.do(SetTimer{at})
	}
}
