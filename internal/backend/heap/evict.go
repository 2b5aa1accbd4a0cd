package heap

import (
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
)

// Evictions follow a clock. A hand goes round the table of a group; an entry
// that was in no batch since the hand last passed its page goes. The hand
// leaves its trace with the page, for a snapshot may be reading the entry.

const (
	// evictTogether is how many entries at least leave a table at a time, if
	// it has as many times evictShare.
	evictTogether = 64
	evictShare    = 8
	// arenaReserve is the part of a full arena that is kept free, as a divisor.
	arenaReserve = 16
)

// makeRoom sees to it that n more entries fit into the table of a group. It
// moves entries.
func (c *core) makeRoom(g int, n uint32) {
	t := &c.tables[g]
	if t.used+n <= t.limit {
		return
	}
	want := t.used + n - t.limit
	if c.below.groups[g].vacant >= max(want, t.used/evictShare) {
		c.dropVacant(g)
		if t.used+n <= t.limit {
			return
		}
	}
	grown := c.bytesOf(c.grownTo(t, n))
	if c.below.share.Fits(grown - c.bytesOf(t.positions())) {
		c.grow(g, n)
		return
	}
	c.leaveMemory()
	if t.array != nil {
		c.evict(g, max(want, min(evictTogether, t.used/evictShare)))
	}
	if t.used+n > t.limit {
		c.grow(g, n) // the batch itself is what is too large
	}
}

// dropVacant writes the deletions that a group's table waits for.
func (c *core) dropVacant(g int) {
	if c.below.last.isSettling() {
		return
	}
	t := &c.tables[g]
	c.below.groups[g].vacant = 0
	for pos := uint32(0); pos <= t.mask && t.used > 0; pos++ {
		p := c.at(t, pos)
		if m := c.markOf(p); *entry.Bits(p)&(entry.Used|entry.Present) == entry.Used && m.batch != c.below.batch {
			c.evictAt(g, pos)
			pos-- // another entry may have moved here
		}
	}
}

// evict takes up to n entries out of the table of a group, in the order of
// rows but for where the hand begins.
func (c *core) evict(g int, n uint32) {
	n -= c.turnHand(g, n, c.below.last.isSettling())
	if n > 0 && c.below.last.isSettling() {
		c.awaitSettled()
		c.turnHand(g, n, false)
	}
}

// turnHand moves the hand of a group until n entries are evicted, at most
// twice round: the second time everything but the batch goes. kept says that
// changed entries must stay.
func (c *core) turnHand(g int, n uint32, kept bool) (evicted uint32) {
	t, b := &c.tables[g], &c.below.groups[g]
	if t.array == nil {
		return 0
	}
	if pages := len(t.array.pages); len(b.visited) != pages {
		b.visited, b.hand = make([]uint32, pages), 0
	}
	for left := 2 * (t.mask + 1); left > 0 && evicted < n; left-- {
		pos := b.hand & t.mask
		p := c.at(t, pos)
		if m := c.markOf(p); *entry.Bits(p)&entry.Used != 0 && goes(m, b.visited[pos>>pageShift]) && !(kept && c.changed(m)) {
			c.evictAt(g, pos)
			evicted++
			continue // another entry may have moved here
		}
		b.hand = (pos + 1) & t.mask
		if b.hand&(pagePositions-1) == 0 {
			b.visited[pos>>pageShift] = c.below.batch
		}
	}
	return evicted
}

// goes tells whether an entry was in no batch since the hand passed.
func goes(m *mark, visited uint32) bool { return int32(m.batch-visited) < 0 }

// evictAt takes the entry at a position out, and writes it to the tier if it
// has changed.
func (c *core) evictAt(g int, pos uint32) {
	t := &c.tables[g]
	p := c.at(t, pos)
	c.preserveAt(g, t, pos)
	present := *entry.Bits(p) & entry.Present
	if m := c.markOf(p); c.changed(m) {
		c.failed(c.writeBack(g, p, m.seq&belowBit != 0))
	}
	if present != 0 {
		c.below.groups[g].partial, c.below.written = true, true
		c.detachTimers(g, p)
	}
	for _, f := range c.fields {
		if present&f.Bit != 0 {
			f.Clear(p, c.arena)
		}
	}
	c.remove(g, t, pos)
}

// writeBack adds the row of an entry, or its deletion, to the changes.
func (c *core) writeBack(g int, p unsafe.Pointer, deleted bool) (err error) {
	b := &c.below
	empty := *entry.Bits(p)&entry.Present == 0
	if empty && !deleted {
		return nil
	}
	if b.changes == nil {
		b.changes = b.tier.Change()
	}
	b.text = c.appendName(b.text[:0], g+c.groups.First, p, c.arena.View())
	if empty {
		return b.changes.Delete(b.text)
	}
	if b.row, err = c.appendRow(b.row[:0], p, c.arena.View()); err != nil {
		return err
	}
	return b.changes.Put(b.text, b.row)
}

// detachTimers lets the references of an entry that goes stand for its row.
func (c *core) detachTimers(g int, p unsafe.Pointer) {
	if !c.timed {
		return
	}
	for i := range c.domains {
		d := &c.domains[i]
		if d.field == nil || !d.field.Has(p) {
			continue
		}
		t := (*timers)(d.field.At(p))
		if *entry.Bits(p)&entry.Displaced != 0 {
			d.wheel.add(ref{t.ref, *entry.Hash(p), uint32(g)}) // rows are not displaced
		}
		t.indexed = 0 // the reference stays live
	}
}

// commitEvictions makes what was evicted visible in the tier.
func (c *core) commitEvictions() {
	b := &c.below
	if b.changes == nil {
		return
	}
	changes := b.changes
	b.changes = nil
	c.failed(changes.Commit())
}

// trim makes room in the arena if the store may not take more memory.
func (c *core) trim() {
	b := &c.below
	if extent := int64(c.arena.Extent()); extent != b.arena {
		b.share.Add(extent - b.arena)
		b.arena = extent
	}
	const chunk = 64 << 10
	reserve := c.arena.Extent() / arenaReserve
	if c.arena.Extent()-c.arena.Live() >= reserve || b.share.Fits(int64(max(chunk, reserve))) {
		return
	}
	c.leaveMemory()
	b.batch++ // the last batch is over
	for range 4 * len(c.tables) {
		g := b.turn
		b.turn = (b.turn + 1) % len(c.tables)
		if used := c.tables[g].used; used > 0 {
			c.evict(g, min(max(used/evictShare, 1), evictTogether))
		}
		if c.arena.Extent()-c.arena.Live() >= reserve {
			break
		}
	}
	c.commitEvictions()
}

// bytesOf is the memory of a table of positions.
func (c *core) bytesOf(positions uint32) int64 {
	return int64(positions)*int64(c.size) + 4*int64(max(positions>>pageShift, 1))
}
