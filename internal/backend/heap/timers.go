package heap

import (
	"fmt"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
)

// Timers lie in the entries; the wheel only says when to look. There is one
// reference per entry and domain that counts, at or before the entry's
// earliest timer, and the entry notes its time. When it comes due the entry
// is looked up: its timer fires, or a new reference is made for a timer that
// is later. So deleting a timer, or setting one later than the reference,
// does not touch the wheel. A reference whose time the entry does not note,
// because an earlier one was made or the entry went, counts no more and is
// dropped when it comes due, or before (see sieve).

// dueBatch is how many references are resolved together.
const dueBatch = 256

// domain is one time domain of a store's timers.
type domain struct {
	field *entry.Field
	wheel wheel
	// live is the number of entries that note a reference.
	live int
	// sealed tells that timers which are set are ignored.
	sealed bool
	// firing tells that the current entry's reference is settled after its
	// callback.
	firing bool
	// due are references taken from the wheel, from next on, and the entries
	// that may be theirs.
	due     []ref
	next    int
	entries []unsafe.Pointer
	// summoned tells of those whose rows were loaded.
	summoned []bool
}

func (d *domain) init(f *entry.Field, pool *memory.Pool) {
	d.field = f
	d.wheel.chunks.pool = pool
}

// registrar sets and deletes the timers of a store's current key. It panics if
// no key is current or the operator has no timers of the domain.
type registrar struct{ *core }

// Set implements entry.Timers.
func (c registrar) Set(at entry.Domain, millis int64) {
	d, p := c.timersOf(at)
	if d.sealed {
		return
	}
	t, bits := (*timers)(d.field.At(p)), entry.Bits(p)
	if *bits&d.field.Bit == 0 {
		*bits |= d.field.Bit
		t.init(millis)
	} else {
		t.add(millis, c.arena)
	}
	if !d.firing {
		c.index(d, p)
	}
}

// Delete implements entry.Timers.
func (c registrar) Delete(at entry.Domain, millis int64) {
	d, p := c.timersOf(at)
	if d.field.Has(p) && !(*timers)(d.field.At(p)).remove(millis, c.arena) {
		*entry.Bits(p) &^= d.field.Bit
	}
}

func (c *core) timersOf(at entry.Domain) (*domain, unsafe.Pointer) {
	d := &c.domains[at]
	if d.field == nil {
		panic(fmt.Errorf("operator %q has no timers of this time domain", c.operator))
	}
	if c.cur.P == nil {
		panic(fmt.Errorf("operator %q: a timer needs a current key", c.operator))
	}
	return d, c.cur.P
}

// index makes a reference for the entry's earliest timer unless there is one
// at or before it.
func (c *core) index(d *domain, p unsafe.Pointer) {
	t := (*timers)(d.field.At(p))
	if t.indexed != 0 && t.ref <= t.next {
		return
	}
	if t.indexed == 0 {
		d.live++
	}
	t.ref, t.indexed = t.next, 1
	d.wheel.add(c.refTo(t.ref, p))
}

func (c *core) refTo(at int64, p unsafe.Pointer) ref {
	h := *entry.Hash(p)
	r := ref{at, h, uint32(keygroup.Group(h, c.max) - c.groups.First)}
	if *entry.Bits(p)&entry.Displaced != 0 {
		r.hash, r.where = c.secondary(p), r.where|displacedRef
	}
	return r
}

// reindex renews the references of an entry that is looked up another way now.
func (c *core) reindex(p unsafe.Pointer) {
	for i := range c.domains {
		d := &c.domains[i]
		if d.field == nil {
			continue
		}
		if t := (*timers)(d.field.At(p)); t.indexed != 0 {
			d.wheel.add(c.refTo(t.ref, p))
		}
	}
}

// forget is told that an entry goes.
func (c *core) forget(p unsafe.Pointer) {
	for i := range c.domains {
		d := &c.domains[i]
		if d.field != nil && (*timers)(d.field.At(p)).indexed != 0 {
			d.live--
		}
	}
}

// AdvanceEventTime fires the event-time timers up to and including to, in
// order of time: fn is called with the time of each, its key being the
// current one. fn may set and delete timers of that key; those it sets up to to
// fire, too. At most max references are looked at per call, which bounds
// fired; more says that the call has to be repeated. An error of fn ends the
// call and is returned as it is.
func (c *core) AdvanceEventTime(to int64, max int, fn func(at int64) error) (fired int, more bool, err error) {
	return c.advance(&c.domains[entry.EventTime], to, max, fn)
}

// AdvanceProcessingTime is AdvanceEventTime for processing time.
func (c *core) AdvanceProcessingTime(now int64, max int, fn func(at int64) error) (fired int, more bool, err error) {
	return c.advance(&c.domains[entry.ProcessingTime], now, max, fn)
}

func (c *core) advance(d *domain, to int64, max int, fn func(at int64) error) (fired int, more bool, err error) {
	c.Release()
	if d.field == nil {
		return 0, false, nil
	}
	c.readTime()
	c.resolve(d)
	defer c.endAdvance()
	for range max {
		r, p, ok := c.nextDue(d, to)
		if !ok {
			return fired, false, nil
		}
		if p != nil && !d.noted(p, r.at) {
			p = c.seek(d, r) // another key of that hash may be meant
		}
		if p == nil {
			continue
		}
		hit, err := c.fire(d, p, r.at, fn)
		if hit {
			fired++
		}
		if err != nil {
			return fired, true, err
		}
	}
	return fired, c.isDue(d, to), nil
}

func (c *core) endAdvance() {
	c.cur.P = nil
	c.removeEmpties()
	if c.below.tier != nil {
		c.trim()
	}
}

// nextDue returns the earliest reference up to to and the entry that may be its.
func (c *core) nextDue(d *domain, to int64) (r ref, p unsafe.Pointer, ok bool) {
	if d.next == len(d.due) {
		d.due = resize(d.due, dueBatch)
		d.due = d.due[:d.wheel.take(to, d.due)]
		d.next = 0
		c.resolve(d)
	}
	late := d.wheel.overdue
	if len(late) > 0 && late[0].at <= to && (d.next == len(d.due) || late[0].at <= d.due[d.next].at) {
		r = d.wheel.popOverdue()
		return r, c.seek(d, r), true
	}
	if d.next == len(d.due) {
		return ref{}, nil, false
	}
	i := d.next
	r, p = d.due[i], d.entries[i]
	d.next++
	if p == nil && c.below.tier != nil && !d.summoned[i] {
		p = c.seek(d, r)
	}
	return r, p, true
}

func (c *core) isDue(d *domain, to int64) bool {
	if d.next < len(d.due) {
		return true
	}
	at, ok := d.wheel.earliest()
	return ok && at <= to
}

// resolve finds the entries of the references that are due, in loops like
// those of bind.
func (c *core) resolve(d *domain) {
	d.entries = resize(d.entries, len(d.due))
	for i := d.next; i < len(d.due); i++ {
		r := d.due[i]
		t := &c.tables[r.where&^displacedRef]
		d.entries[i] = c.at(t, c.start(r))
	}
	var sum uint64
	for _, p := range d.entries[d.next:] {
		sum += *(*uint64)(p) + *(*uint64)(unsafe.Add(p, d.field.Off))
	}
	c.sink = sum
	c.relocate(d)
	if c.below.tier != nil {
		c.summon(d)
	}
}

// relocate looks up the entries of the references that are due, which may have
// moved since.
func (c *core) relocate(d *domain) {
	for i := d.next; i < len(d.due); i++ {
		d.entries[i] = c.lookup(d, d.due[i], c.start(d.due[i]))
	}
}

// seek is lookup of a reference by itself, in the tier, too.
func (c *core) seek(d *domain, r ref) unsafe.Pointer {
	p := c.lookup(d, r, c.start(r))
	if p == nil && c.below.tier != nil {
		p = c.summonOne(d, r)
	}
	return p
}

// start is the position where the probing for a reference begins.
func (c *core) start(r ref) uint32 { return c.tables[r.where&^displacedRef].home(r.hash) }

// lookup returns an entry with the reference's hash that notes its time, or nil.
func (c *core) lookup(d *domain, r ref, pos uint32) unsafe.Pointer {
	t := &c.tables[r.where&^displacedRef]
	displaced := r.where&displacedRef != 0
	n := uint32(maxProbe)
	if displaced {
		n = t.mask + 1
	}
	for range n {
		p := c.at(t, pos)
		bits := *entry.Bits(p)
		if bits&entry.Used == 0 {
			return nil
		}
		if !displaced && *entry.Hash(p) == r.hash && bits&entry.Displaced == 0 && d.noted(p, r.at) {
			return p
		}
		if displaced && bits&entry.Displaced != 0 && d.noted(p, r.at) && c.secondary(p) == r.hash {
			return p
		}
		pos = (pos + 1) & t.mask
	}
	return nil
}

// noted reports whether the entry's reference is at the time.
func (d *domain) noted(p unsafe.Pointer, at int64) bool {
	t := (*timers)(d.field.At(p))
	return t.indexed != 0 && t.ref == at
}

// fire handles the entry whose reference is due: it fires the timer of that
// time, if it is still there, and makes the next reference.
func (c *core) fire(d *domain, p unsafe.Pointer, at int64, fn func(at int64) error) (hit bool, err error) {
	if c.below.tier != nil {
		c.pin(p)
	} else {
		c.own(p)
	}
	t := (*timers)(d.field.At(p))
	t.indexed = 0
	d.live--
	if !d.field.Has(p) {
		return false, nil
	}
	if hit = t.next == at; hit {
		if !t.pop(c.arena) {
			*entry.Bits(p) &^= d.field.Bit
		}
		c.cur.P, d.firing = p, true
		err = fn(at)
		d.firing = false
	}
	if d.field.Has(p) {
		c.index(d, p)
	} else if *entry.Bits(p)&entry.Present == 0 {
		c.empties = append(c.empties, c.placeOf(p))
	}
	return hit, err
}

// NextProcessingTimer returns the time of the earliest processing-time timer,
// or an earlier one; ok is false if there is none. Advancing to that time
// always makes progress.
func (c *core) NextProcessingTimer() (at int64, ok bool) {
	d := &c.domains[entry.ProcessingTime]
	at, ok = d.wheel.earliest()
	if d.next < len(d.due) && (!ok || d.due[d.next].at < at) {
		return d.due[d.next].at, true
	}
	return at, ok
}

// SealProcessingTimers ignores the processing-time timers that are set from now
// on, so that firing all there are comes to an end.
func (c *core) SealProcessingTimers() { c.domains[entry.ProcessingTime].sealed = true }

// DropProcessingTimers drops all processing-time timers, as at the end of the
// input, and returns their number. It ends the current batch.
func (c *core) DropProcessingTimers() int {
	c.Release()
	d := &c.domains[entry.ProcessingTime]
	if d.field == nil {
		return 0
	}
	if c.below.tier != nil {
		return c.dropAll(d)
	}
	dropped := 0
	for g := range c.tables {
		t := &c.tables[g]
		for pos := uint32(0); pos <= t.mask && t.used > 0; pos++ {
			p := c.at(t, pos)
			s := (*timers)(d.field.At(p))
			if *entry.Bits(p)&entry.Used == 0 || s.indexed == 0 {
				continue // without a timer ever, or since the last one fired
			}
			c.preserveAt(g, t, pos)
			if c.increment.on {
				c.increment.touched = c.seq
				c.noteChange(p)
			}
			s.indexed = 0
			if d.field.Has(p) {
				dropped += s.count()
				d.field.Clear(p, c.arena)
			}
			if *entry.Bits(p)&entry.Present == 0 {
				c.empties = append(c.empties, place{g, pos})
			}
		}
	}
	c.removeEmpties()
	d.wheel.clear()
	d.due, d.next, d.live = d.due[:0], 0, 0
	return dropped
}
