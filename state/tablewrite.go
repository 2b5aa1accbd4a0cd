package state

import (
	"math/bits"
	"unsafe"

	"github.com/weirstream/weir/internal/memory"
)

// own makes the i-th entry, e, writable and returns it.
func (t *table) own(s *slot, a *memory.Arena, i int, e unsafe.Pointer) unsafe.Pointer {
	if s.paged() {
		return t.ownPage(s, a, i, e)
	}
	if a.Writable(s.entries) {
		return e
	}
	t.resize(s, a, t.room(s, a))
	return t.entry(base(s, a), i)
}

func (t *table) ownAt(s *slot, a *memory.Arena, i int) { t.own(s, a, i, t.at(s, a, i)) }

// room is how many entries the block, or the pages, take.
func (t *table) room(s *slot, a *memory.Arena) int {
	if s.paged() {
		return int(*pageCount(base(s, a))) << t.pageShift
	}
	return (a.Cap(s.entries) - small) / int(t.stride)
}

// resize moves the entries to a block for n of them.
func (t *table) resize(s *slot, a *memory.Arena, n int) {
	size := small + n*int(t.stride)
	h := a.Alloc(size)
	if s.count > 0 {
		used := small + int(s.count)*int(t.stride)
		copy(a.Bytes(h, used), a.Bytes(s.entries, used))
	}
	if s.entries != 0 {
		a.Free(s.entries)
	}
	s.entries = h
}

// insert appends an entry for a key that has none and returns it; its value
// slot is empty and its time undefined.
func (t *table) insert(s *slot, a *memory.Arena, k key) unsafe.Pointer {
	i := int(s.count)
	t.grow(s, a)
	if s.index != 0 {
		indexOf(s, a).insert(i, k.hash)
	} else {
		*(*byte)(unsafe.Add(base(s, a), i)) = byte(k.hash >> 56)
	}
	s.count++
	for _, w := range t.walks {
		if w.s == s {
			w.inserted(i)
		}
	}
	e := t.at(s, a, i)
	switch at := unsafe.Add(e, t.key); {
	case t.word:
		*(*uint64)(at) = k.word
	case t.keyBytes > 0:
		copy(unsafe.Slice((*byte)(at), t.keyBytes), k.bytes)
	default:
		textAt(at).init(a, k.bytes, len(k.bytes))
	}
	// The arena may have moved on for the key; the block has not.
	return e
}

// grow makes room for one more entry, in the block and in the index.
func (t *table) grow(s *slot, a *memory.Arena) {
	n := int(s.count)
	switch {
	case s.entries == 0:
		t.resize(s, a, 4)
	case n < t.room(s, a):
	case n >= small && 2*n*int(t.stride) > mostBlock:
		if !s.paged() {
			t.toPages(s, a)
		}
		if n == t.room(s, a) {
			t.addPage(s, a)
		}
	default:
		t.resize(s, a, 2*n)
	}
	if n < small {
		return
	}
	if s.index == 0 || 2*(n+1) > len(indexOf(s, a).cells) {
		t.reindex(s, a, 4*n)
	}
}

// reindex makes a new index of at least the given number of cells.
func (t *table) reindex(s *slot, a *memory.Arena, cells int) {
	if s.index != 0 {
		a.Free(s.index)
	}
	s.index = a.Alloc(4 << bits.Len(uint(cells-1)))
	x, b := indexOf(s, a), base(s, a)
	clear(x.cells)
	for i := range int(s.count) {
		x.insert(i, t.keyOf(t.in(s, b, a, i), a).hash)
	}
}

// remove removes the i-th entry; the last takes its place.
func (t *table) remove(s *slot, a *memory.Arena, i int) {
	t.ownAt(s, a, i)
	t.ownAt(s, a, int(s.count)-1) // another will be put there
	if s.index != 0 {
		hashAt := func(i int) uint64 { return t.keyOf(t.at(s, a, i), a).hash }
		x := indexOf(s, a)
		x.remove(x.cellOf(i, hashAt(i)), hashAt)
	}
	if t.release != nil {
		t.release(t.at(s, a, i), a)
	}
	s.count--
	for _, w := range t.walks {
		if w.s == s {
			w.removed(i, int(s.count))
		}
	}
	t.move(s, a, int(s.count), i)
	t.shrink(s, a)
}

// move moves the entry at from to the hole at to.
func (t *table) move(s *slot, a *memory.Arena, from, to int) {
	if from == to {
		return
	}
	b := base(s, a)
	src, dst := t.in(s, b, a, from), t.in(s, b, a, to)
	if s.index != 0 {
		hash := t.keyOf(src, a).hash
		x := indexOf(s, a)
		x.set(x.cellOf(from, hash), to, hash)
	} else {
		*(*byte)(unsafe.Add(b, to)) = *(*byte)(unsafe.Add(b, from))
	}
	copy(unsafe.Slice((*byte)(dst), t.stride), unsafe.Slice((*byte)(src), t.stride))
}

// shrink gives memory back when most of it is unused.
func (t *table) shrink(s *slot, a *memory.Arena) {
	n := int(s.count)
	if s.paged() {
		t.dropPages(s, a)
		return
	}
	if n < small || 8*n > t.room(s, a) {
		return
	}
	t.resize(s, a, 2*n)
	t.reindex(s, a, 4*n)
}

// drop gives back all that a map owns.
func (t *table) drop(s *slot, a *memory.Arena) {
	if t.release != nil && s.count > 0 {
		b := base(s, a)
		for i := range int(s.count) {
			t.release(t.in(s, b, a, i), a)
		}
	}
	switch {
	case s.paged():
		t.freePages(s, a)
	case s.entries != 0:
		a.Free(s.entries)
	}
	if s.index != 0 {
		a.Free(s.index)
	}
	*s = slot{}
}
