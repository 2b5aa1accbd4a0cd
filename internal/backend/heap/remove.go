package heap

import (
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
)

// Release ends the batch: no key is current any more, and entries without
// contents go. It also looks for expired state in a few positions. Release
// without a batch does nothing.
func (c *core) Release() {
	if len(c.pending) > 0 {
		c.reclaim()
	}
	if !c.open {
		return
	}
	c.open, c.cur.P = false, nil
	for _, p := range c.ptrs {
		if *entry.Bits(p)&entry.Present == 0 {
			c.empties = append(c.empties, c.placeOf(p))
		}
	}
	c.removeEmpties()
	if len(c.aging) > 0 {
		c.expire(c.perRecord * len(c.ptrs))
		if c.below.tier != nil {
			c.sweepBelow(len(c.ptrs))
		}
	}
	if c.timed {
		c.sift(siftPerRecord * len(c.ptrs))
	}
	if c.below.tier != nil {
		c.trim()
	}
	c.ptrs = c.ptrs[:0]
	c.tellUsage()
}

func (c *core) placeOf(p unsafe.Pointer) place {
	g := keygroup.Group(*entry.Hash(p), c.max) - c.groups.First
	return place{g, c.position(&c.tables[g], p)}
}

// removeEmpties removes the entries of empties that have no contents. A place may be
// listed twice, or hold another entry by now.
func (c *core) removeEmpties() {
	for len(c.empties) > 0 {
		last := len(c.empties) - 1
		e := c.empties[last]
		t := &c.tables[e.group]
		if p := c.at(t, e.pos); *entry.Bits(p)&(entry.Used|entry.Present) != entry.Used || c.below.tier != nil && c.waits(e.group, p) {
			c.empties = c.empties[:last]
			continue
		}
		c.remove(e.group, t, e.pos)
	}
}

// remove takes the entry at pos out and closes the gap: later entries of the
// run move up as far as their homes allow. Their order stays.
func (c *core) remove(group int, t *table, pos uint32) {
	hole := c.at(t, pos)
	if c.increment.on {
		c.noteRemoved(group, hole)
	}
	c.releaseKey(hole)
	if c.timed {
		c.forget(hole)
	}
	if *entry.Bits(hole)&entry.Displaced != 0 {
		t.displaced--
	}
	t.used--
	c.preserveAt(group, t, pos)
	for next := (pos + 1) & t.mask; ; next = (next + 1) & t.mask {
		p := c.at(t, next)
		bits := *entry.Bits(p)
		if bits&entry.Used == 0 {
			break
		}
		if (next-c.homeOf(t, p))&t.mask < (next-pos)&t.mask {
			continue
		}
		c.preserveAt(group, t, next)
		copyEntry(hole, p, c.size)
		if bits&entry.Present == 0 {
			c.empties = append(c.empties, place{group, pos})
		}
		hole, pos = p, next
	}
	*entry.Bits(hole) = 0
}

func (c *core) preserveAt(group int, t *table, pos uint32) {
	if c.newest != 0 {
		c.preserve(group, t.array, pos>>pageShift)
	}
}

// expire drops expired state in the next n positions of the tables in turn,
// in each of them once.
func (c *core) expire(n int) {
	var mask uint32
	for _, f := range c.aging {
		mask |= f.Bit
	}
	for turns := 0; n > 0 && turns <= len(c.tables); {
		t := &c.tables[c.sweep.group]
		if t.used == 0 || c.sweep.pos > t.mask {
			turns++
			c.sweep = place{(c.sweep.group + 1) % len(c.tables), 0}
			continue
		}
		to := min(uint64(c.sweep.pos)+uint64(n), uint64(t.mask)+1)
		n -= int(uint32(to) - c.sweep.pos)
		c.expireRun(t, uint32(to), mask)
	}
}

// expireRun sweeps the table from the sweep's position up to to.
func (c *core) expireRun(t *table, to, mask uint32) {
	g := c.sweep.group
	for pos := c.sweep.pos; pos < to; pos++ {
		p := c.at(t, pos)
		bits := *entry.Bits(p)
		if bits&mask == 0 || bits&entry.Used == 0 {
			continue
		}
		c.preserveAt(g, t, pos)
		for _, f := range c.aging {
			if bits&f.Bit != 0 {
				f.Expire(p, c.arena, c.cur.Now)
			}
		}
		if (c.below.tier != nil || c.increment.on) && *entry.Bits(p) != bits {
			c.noteChange(p)
		}
		if *entry.Bits(p)&entry.Present == 0 {
			c.empties = append(c.empties, place{g, pos})
			c.removeEmpties()
			pos-- // another entry may have moved here
		}
	}
	c.sweep.pos = to
}
