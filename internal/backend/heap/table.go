package heap

import (
	"sync/atomic"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
)

const (
	// pageShift gives the positions of a page, the unit of copy on write.
	pageShift     = 6
	pagePositions = 1 << pageShift
	// maxProbe is how many positions from its home a key may lie.
	maxProbe = 128
	// firstBytes bounds the size of a new table.
	firstBytes = 2 << 10
	// minPositions keeps a table of large entries useful.
	minPositions = 8
)

// table is the current array of a key group, with what a probe needs in place.
type table struct {
	base unsafe.Pointer
	// shift takes a hash, widened to 64 bits, to its home.
	shift uint8
	// mask is the number of positions less one.
	mask uint32
	// used counts the occupied positions, displaced those among them that lie
	// at a secondary home. limit is when the table grows.
	used, displaced, limit uint32
	array                  *array
}

// array is the memory of a table at one size. It outlives the table's use of
// it while snapshots read it.
type array struct {
	base unsafe.Pointer
	mask uint32
	mem  []byte
	// pages holds a word per page: snapshot number << 1 | lock bit. The contents
	// have been preserved for all snapshots up to that number.
	pages []atomic.Uint32
	// refs counts the table and the pending snapshots that use the array. It
	// belongs to the stage.
	refs int
}

// emptyTable is the table of a group without keys: one free position, which
// is never written, and a limit that makes the first insertion grow it.
func (c *core) emptyTable() table {
	return table{base: unsafe.Pointer(unsafe.SliceData(c.nowhere)), shift: 32}
}

func (t *table) home(hash uint32) uint32 { return uint32(uint64(hash) >> (t.shift & 63)) }

func (c *core) at(t *table, pos uint32) unsafe.Pointer {
	return unsafe.Add(t.base, uintptr(pos)*c.size)
}

// position is the inverse of at.
func (c *core) position(t *table, p unsafe.Pointer) uint32 {
	return uint32((uintptr(p) - uintptr(t.base)) / c.size)
}

func (c *core) newArray(positions uint32) *array {
	pages := int(max(positions>>pageShift, 1))
	entries := int(positions) * int(c.size)
	mem, err := c.pool.Alloc(entries + 4*pages)
	if err != nil {
		c.exhausted()
		mem, err = c.pool.Alloc(entries + 4*pages)
	}
	if err != nil {
		panic(err)
	}
	c.usage.arrays += int64(len(mem))
	base := unsafe.Pointer(unsafe.SliceData(mem))
	return &array{
		base:  base,
		mask:  positions - 1,
		mem:   mem,
		pages: unsafe.Slice((*atomic.Uint32)(unsafe.Add(base, entries)), pages),
		refs:  1,
	}
}

// drop ends one use of an array.
func (c *core) drop(a *array) {
	if a.refs--; a.refs == 0 {
		c.usage.arrays -= int64(len(a.mem))
		c.pool.Free(a.mem)
		a.mem, a.base, a.pages = nil, nil, nil
	}
}

// firstPositions is the size of a new table.
func firstPositions(size uintptr) uint32 {
	n := uint32(minPositions)
	for uintptr(2*n)*size <= firstBytes {
		n *= 2
	}
	return n
}

// positions is the size of the table, 0 before its first key.
func (t *table) positions() uint32 {
	if t.array == nil {
		return 0
	}
	return t.mask + 1
}

// grownTo is the size that grow gives a table.
func (c *core) grownTo(t *table, n uint32) uint32 {
	positions := max(2*t.positions(), c.first)
	for limit(positions) < t.used+n {
		positions *= 2
	}
	return positions
}

// grow doubles a table, or gives it its first array, until n more keys fit.
func (c *core) grow(group int, n uint32) {
	t := &c.tables[group]
	old := *t
	*t = c.newTable(c.grownTo(t, n))
	if c.below.tier != nil {
		c.below.share.Add(c.bytesOf(t.positions()) - c.bytesOf(old.positions()))
	}
	if old.array == nil {
		return
	}
	for pos := range old.mask + 1 {
		if p := c.at(&old, pos); *entry.Bits(p)&entry.Used != 0 {
			c.transfer(t, p)
		}
	}
	c.drop(old.array)
}

func (c *core) newTable(positions uint32) table {
	a := c.newArray(positions)
	shift := uint8(32)
	for n := positions; n > 1; n /= 2 {
		shift--
	}
	if c.increment.on {
		for i := range a.pages {
			a.pages[i].Store(c.newest << 1)
		}
	}
	return table{base: a.base, shift: shift, mask: a.mask, limit: limit(positions), array: a}
}

// limit is the number of keys up to which a table is not grown: a load of 0.7.
func limit(positions uint32) uint32 { return uint32(uint64(positions) * 7 / 10) }

// transfer copies an entry into a table that has room for it.
func (c *core) transfer(t *table, from unsafe.Pointer) {
	bits := *entry.Bits(from)
	p, displaced := c.vacancy(t, *entry.Hash(from), func() uint32 { return c.secondary(from) })
	copyEntry(p, from, c.size)
	t.used++
	*entry.Bits(p) = bits&^entry.Displaced | displaced
	if displaced != 0 {
		t.displaced++
	}
	if bits&entry.Displaced != displaced && c.timed {
		c.reindex(p)
	}
}

// vacancy finds the free position for a new key: near its home, else near the
// secondary home. The second result is entry.Displaced in the latter case.
func (c *core) vacancy(t *table, hash uint32, secondary func() uint32) (unsafe.Pointer, uint32) {
	if p := c.free(t, t.home(hash), maxProbe); p != nil {
		return p, 0
	}
	return c.free(t, t.home(secondary()), t.mask+1), entry.Displaced
}

// free returns the first free position of n from pos on, or nil.
func (c *core) free(t *table, pos, n uint32) unsafe.Pointer {
	for range min(n, t.mask+1) {
		p := c.at(t, pos)
		if *entry.Bits(p)&entry.Used == 0 {
			return p
		}
		pos = (pos + 1) & t.mask
	}
	return nil
}

// homeOf returns where the probing for the entry begins.
func (c *core) homeOf(t *table, p unsafe.Pointer) uint32 {
	if *entry.Bits(p)&entry.Displaced != 0 {
		return t.home(c.secondary(p))
	}
	return t.home(*entry.Hash(p))
}

// copyEntry copies size bytes, a multiple of 8.
func copyEntry(to, from unsafe.Pointer, size uintptr) {
	copy(unsafe.Slice((*byte)(to), size), unsafe.Slice((*byte)(from), size))
}
