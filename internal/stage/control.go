package stage

import (
	"math"
	"time"
)

// barrier takes the snapshot of the task: everything before the barrier goes
// out first, then the barrier, then the state is frozen.
func (t *Task) barrier(b *Barrier) error {
	begin := time.Now()
	for _, op := range t.Operators {
		if err := op.PrepareSnapshot(b); err != nil {
			return err
		}
		if err := op.Flush(); err != nil {
			return err
		}
	}
	for _, w := range t.Outputs {
		w.Control(Element{Kind: Mark, Barrier: b})
	}
	parts, err := t.freeze(b)
	if err != nil {
		return err
	}
	t.stopped = t.stopped || b.Stop
	t.unblock()
	took := time.Since(begin)
	t.Load.BarrierMax.Store(max(t.Load.BarrierMax.Load(), int64(took)))
	t.Host.Snapshot(t.ID, b, parts, took)
	return nil
}

// freeze takes the operators' parts. If one fails, or panics, all are given
// up: they hold state memory.
func (t *Task) freeze(b *Barrier) ([]Part, error) {
	parts := make([]Part, 0, len(t.Operators))
	complete := false
	defer func() {
		if !complete {
			releaseParts(parts)
		}
	}()
	for i, op := range t.Operators {
		p, err := op.Snapshot(b)
		p.Operator, p.Ended = t.Contexts[i].Operator, t.done || t.Contexts[i].Over()
		parts = append(parts, p)
		if err != nil {
			return nil, err
		}
	}
	complete = true
	return parts, nil
}

func releaseParts(parts []Part) {
	for _, p := range parts {
		if p.Keyed != nil {
			p.Keyed.Release()
		}
	}
}

func (t *Task) unblock() {
	t.aligning = 0
	for i := range t.blocked {
		t.blocked[i] = false
	}
}

// letters handles what the host posted. While the source holds a part of a
// batch back a barrier waits, and with it what was posted after it: a split
// assigned behind the barrier is in no part of the snapshot. The end of a drain
// waits for a watermark under way, too.
func (t *Task) letters() error {
	ls := append(t.putOff, t.mail.take()...)
	t.putOff = nil
	for i, l := range ls {
		if (l.trigger != nil || l.drain) && t.source.Pending() || l.drain && t.advancing {
			t.putOff = ls[i:]
			return nil
		}
		if err := t.letter(l); err != nil {
			return err
		}
	}
	return nil
}

func (t *Task) letter(l letter) error {
	switch {
	case l.trigger != nil:
		return t.barrier(l.trigger)
	case l.event != nil:
		return t.source.Event(*l.event)
	case l.drain:
		return t.drain()
	case l.aborted != 0:
		t.align.abort(l.aborted)
		if t.aligning == l.aborted {
			t.unblock()
		}
	}
	for _, op := range t.Operators {
		var err error
		switch {
		case l.complete != 0:
			err = op.CheckpointComplete(l.complete)
		case l.aborted != 0:
			err = op.CheckpointAborted(l.aborted)
		case l.committed != 0:
			err = op.Committed(l.committed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drain ends the input of a source as if it had none left.
func (t *Task) drain() error {
	if t.closing || t.stopped {
		return nil
	}
	t.closing = true
	return t.beginAdvance(math.MaxInt64)
}
