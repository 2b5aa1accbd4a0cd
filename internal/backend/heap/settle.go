package heap

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
)

// A snapshot of a store with a tier settles first: what had changed at the
// barrier is loaded into the tier, which then is the state as of the barrier,
// and from there on a snapshot of the tier stands for it. Meanwhile nothing
// else may be written to the tier, and one snapshot settles after the other.

// settling is what the stage and the encoder of a snapshot share. The stage
// makes it; what is written before done is closed may be read after.
type settling struct {
	done chan struct{}
	prev *settling
	// settled is the newest snapshot that the tier had in it before, as far as
	// the stage knew, and afterwards all in all.
	settled uint32
	// skipped says that nothing was done: what comes before still counts.
	skipped bool

	// begun, err and snap belong to the encoder.
	begun bool
	err   error
	// snap, or files, are the state from then on.
	snap  TierSnapshot
	files TierFiles
}

// isOver tells whether it has ended one way or the other.
func (s *settling) isOver() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// isSettling tells whether a snapshot up to s has not settled yet. s may be nil.
func (s *settling) isSettling() bool {
	for ; s != nil; s = s.prev {
		if !s.isOver() {
			return true
		}
		if !s.skipped {
			return false
		}
	}
	return false
}

// wait waits until no snapshot up to s is settling, and returns the newest that
// has settled, nil if none has.
func (s *settling) wait() *settling {
	for ; s != nil; s = s.prev {
		<-s.done
		if !s.skipped {
			return s
		}
	}
	return nil
}

// skip ends it with nothing done.
func (s *settling) skip() {
	s.skipped = true
	close(s.done)
}

// startSettling returns what a new snapshot needs to settle; nil if it need
// not, as its tables hold all there is.
func (c *core) startSettling() *settling {
	b := &c.below
	partial := b.settles && !c.increment.on
	for i := range b.groups {
		partial = partial || b.groups[i].partial
	}
	if !partial {
		return nil
	}
	c.leaveMemory()
	b.written = true
	if last := b.last; last != nil && last.isOver() && !last.skipped {
		last.prev = nil // nobody looks beyond it any more
	}
	b.last = &settling{done: make(chan struct{}), prev: b.last, settled: b.settled}
	return b.last
}

// awaitSettled waits until changed entries may be evicted again.
func (c *core) awaitSettled() {
	c.below.last.wait()
	c.reclaim()
}

// noteSettled is told, on the stage's goroutine, that a snapshot has settled.
func (c *core) noteSettled(f *Frozen) {
	c.below.settled = max(c.below.settled, f.settling.settled)
}

// hasSettled tells whether the tables are not read any more.
func (f *Frozen) hasSettled() bool {
	s := f.settling
	return s != nil && s.isOver() && !s.skipped
}

// Settle prepares a snapshot whose state reaches beyond memory, so that its
// encoding does not hold up the stage. EncodeGroup does it if it was not
// done. For other snapshots it does nothing. files says that StoreNative follows,
// and not EncodeGroup, if HasFiles.
func (f *Frozen) Settle(files bool) error {
	s := f.settling
	switch {
	case s == nil:
		return nil
	case s.begun:
		return s.err
	}
	s.begun, s.err = true, errUnsettled
	defer close(s.done) // also if a codec panics: the stage may be waiting
	if p := s.prev.wait(); p != nil {
		s.settled = max(s.settled, p.settled)
	}
	if s.err = f.settle(files); s.err == nil {
		s.settled = f.seq
	}
	return s.err
}

var errUnsettled = errors.New("the state of the snapshot was not written")

// settle loads what the tier does not have into it.
func (f *Frozen) settle(files bool) error {
	c := f.core
	changes, err := c.below.tier.Load()
	if err != nil {
		return c.tierError(err)
	}
	if f.scratch == nil {
		f.scratch = c.borrow()
	}
	for i := range f.captures {
		if err := f.settleGroup(i, changes); err != nil {
			changes.Abort()
			return err
		}
	}
	if err := changes.Commit(); err != nil {
		return c.tierError(err)
	}
	if files && f.HasFiles() {
		f.settling.files, err = c.below.tier.Files()
	} else {
		f.settling.snap, err = c.below.tier.Snapshot()
	}
	if err != nil {
		return c.tierError(err)
	}
	return nil
}

func (f *Frozen) settleGroup(i int, changes Changes) (err error) {
	p := &f.captures[i]
	if p.array == nil {
		return nil
	}
	f.collect(p, f.settling.settled)
	f.order(p)
	c, s := f.core, f.scratch
	for at := 0; at < len(s.entries); at += int(c.size / 8) {
		if at%(warmed*int(c.size/8)) == 0 {
			f.warm(c.touched, at)
		}
		e := unsafe.Pointer(&s.entries[at])
		s.data = c.appendName(s.data[:0], i+c.groups.First, e, f.view)
		if *entry.Bits(e)&entry.Present == 0 {
			err = changes.Delete(s.data)
		} else {
			if s.value, err = c.appendRow(s.value[:0], e, f.view); err != nil {
				return fmt.Errorf("snapshot of operator %q, key group %d: %w", c.operator, i+c.groups.First, err)
			}
			err = changes.Put(s.data, s.value)
		}
		if err != nil {
			return c.tierError(err)
		}
	}
	return nil
}
