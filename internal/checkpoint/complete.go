package checkpoint

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
)

func fenced(err error) bool { return errors.Is(err, ErrFenced) }

// publishNext publishes the oldest snapshot that all tasks have acknowledged.
func (c *Core) publishNext() {
	if c.publishing != nil {
		return
	}
	i := slices.IndexFunc(c.pending, func(p *pending) bool { return len(p.waiting) == 0 })
	if i < 0 {
		return
	}
	p := c.pending[i]
	p.reusable = c.committed
	if p.kind != snapshot.Savepoint {
		p.deletes = c.deletable()
	}
	c.publishing = p
	c.do(Publish{p.id, p.deletes})
}

// deletable lists what goes when one more checkpoint is completed: what is
// beyond the number retained and has its commits resolved, and the orphans.
func (c *Core) deletable() []int64 {
	ids := slices.Clone(c.orphans)
	resolved := func(id int64) bool { return len(c.uncommitted) == 0 || id < c.uncommitted[0] }
	for i, excess := 0, len(c.completed)+1-c.opt.Retained; i < excess && resolved(c.completed[i]); i++ {
		ids = append(ids, c.completed[i])
	}
	slices.Sort(ids)
	return ids
}

func (c *Core) onPublished(e Published) {
	p := c.publishing
	if p == nil || p.id != e.ID {
		return
	}
	c.publishing = nil
	switch e.Outcome {
	case PublishedFenced:
		c.fail(e.Err)
	case PublishedFailed:
		if p.kind != snapshot.Savepoint {
			c.orphans = append(c.orphans, p.id)
			c.subsume(p.id) // they must not delete, or reuse, what it may hold
		}
		c.failed(p, e.Err, false)
	case PublishedTaken:
		c.again(p)
	default:
		c.published(p, e.Committables)
	}
}

// again takes the next id for a snapshot whose id is taken.
func (c *Core) again(p *pending) {
	tokens := p.tokens
	p.tokens = nil
	c.abort(p, errIDTaken, true)
	switch {
	case p.stop || p.kind == snapshot.Final:
		c.retryAt = c.now
	case c.cancel == notCanceled && c.stop == nil && c.draining == nil && len(c.down) == 0:
		c.send(&pending{kind: p.kind, native: p.native, path: p.path, tokens: tokens})
	default:
		c.reply(tokens, 0, errIDTaken)
	}
}

func (c *Core) published(p *pending, committables int) {
	c.remove(p)
	c.pauseUntil = c.now + c.opt.MinPause
	if !p.plainSavepoint() {
		c.subsume(p.id)
	}
	switch s := c.stop; {
	case s != nil && s.snapshot == p:
		s.phase = stopRecording
		c.do(Append{Kind: StoppingRecord, ID: p.id})
	case p.kind == snapshot.Savepoint:
		c.unmarked = append(c.unmarked, p)
		slices.SortFunc(c.unmarked, func(a, b *pending) int { return int(a.id - b.id) })
		if committables == 0 {
			p.marking = true
			c.do(Mark{p.id})
		}
	default:
		c.complete(p)
	}
}

// complete makes a published checkpoint count.
func (c *Core) complete(p *pending) {
	c.failures, c.latest = 0, p.id
	gone := func(id int64) bool { return slices.Contains(p.deletes, id) }
	c.completed = slices.DeleteFunc(c.completed, gone)
	c.orphans = slices.DeleteFunc(c.orphans, gone)
	if p.kind != snapshot.Savepoint {
		c.completed = append(c.completed, p.id)
	}
	c.uncommitted = append(c.uncommitted, p.id)
	c.do(NotifyComplete{p.id})
	if p.reusable > c.reusable {
		c.reusable = p.reusable
		c.do(NotifyCommitted{p.reusable})
	}
	c.do(Commit{p.id})
	if len(p.deletes) > 0 {
		c.do(Delete{p.deletes})
	}
	if !c.swept {
		c.swept = true
		c.do(Sweep{})
	}
	c.reply(p.tokens, p.id, nil)
}

// subsume gives up the checkpoints before id.
func (c *Core) subsume(id int64) {
	for _, p := range slices.Clone(c.pending) {
		if p.id < id && p.kind != snapshot.Savepoint {
			c.abort(p, errSubsumed, true)
		}
	}
}

func (c *Core) onCommitted(e CommittedUpTo) {
	c.committed = max(c.committed, e.ID)
	c.uncommitted = slices.DeleteFunc(c.uncommitted, func(id int64) bool { return id <= e.ID })
	for _, p := range c.unmarked {
		if p.id < c.committed && !p.marking {
			p.marking = true
			c.do(Mark{p.id})
		}
	}
	if s := c.stop; s != nil && s.phase == stopCommitting && c.committed >= s.snapshot.id {
		s.phase = stopMarking
		c.do(Mark{s.snapshot.id})
	}
}

func (c *Core) onMarked(e Marked) {
	if s := c.stop; s != nil && s.phase == stopMarking && s.snapshot.id == e.ID {
		if e.Err != nil {
			c.fail(e.Err)
			return
		}
		s.phase = stopRecorded
		c.do(Append{Kind: StoppedRecord, ID: e.ID, Outcome: s.outcome})
		return
	}
	for _, p := range c.unmarked {
		if p.id != e.ID {
			continue
		}
		var err error
		if e.Err != nil {
			err = &UncommittedError{ID: p.id, Path: p.path, Err: e.Err}
		}
		c.reply(p.tokens, p.id, err)
		c.unmarked = slices.DeleteFunc(c.unmarked, func(q *pending) bool { return q == p })
		return
	}
}

func (c *Core) onRecorded(e Recorded) {
	if c.cancel == cancelRecording {
		c.canceled(e.Err)
		return
	}
	s := c.stop
	switch {
	case s == nil:
	case e.Err != nil:
		c.fail(fmt.Errorf("%s record: %w", e.Kind, e.Err))
	case s.phase == stopRecording:
		s.phase = stopCommitting
		c.complete(s.snapshot)
	case s.phase == stopRecorded:
		c.reply(s.tokens, s.snapshot.id, nil)
		s.tokens = nil
		if s.outcome == Finished && c.opt.Retention == checkpoint.DeleteAtEnd {
			c.deleteAll()
		}
		c.finish(s.outcome)
	}
}
