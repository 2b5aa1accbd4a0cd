package state

import (
	"math/bits"
	"unsafe"

	"github.com/weirstream/weir/internal/memory"
)

// own makes the entries writable.
func (t *table) own(s *slot, a *memory.Arena) {
	if !a.Writable(s.entries) {
		t.resize(s, a, t.room(s, a))
	}
}

// room is how many entries the block takes.
func (t *table) room(s *slot, a *memory.Arena) int {
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
	b := base(s, a)
	if s.index != 0 {
		indexOf(s, a).insert(i, k.hash)
	} else {
		*(*byte)(unsafe.Add(b, i)) = byte(k.hash >> 56)
	}
	s.count++
	e := t.entry(b, i)
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
	if s.entries == 0 {
		t.resize(s, a, 4)
	} else if n == t.room(s, a) {
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
		x.insert(i, t.keyOf(t.entry(b, i), a).hash)
	}
}

// remove removes the i-th entry; the last takes its place, unless iterations
// are under way: then each keeps what it has visited before its position.
func (t *table) remove(s *slot, a *memory.Arena, i int) {
	t.own(s, a)
	if s.index != 0 {
		hashAt := func(i int) uint64 { return t.keyOf(t.at(s, a, i), a).hash }
		x := indexOf(s, a)
		x.remove(x.cellOf(i, hashAt(i)), hashAt)
	}
	if t.release != nil {
		t.release(t.at(s, a, i), a)
	}
	for w := t.nextWalk(s, i); w >= 0; w = t.nextWalk(s, i) {
		t.walks[w]--
		t.move(s, a, t.walks[w], i)
		i = t.walks[w]
	}
	s.count--
	t.move(s, a, int(s.count), i)
	t.shrink(s, a)
}

// nextWalk returns the iteration least advanced of those that have visited i,
// -1 if there is none. One beyond the end is left over from another map.
func (t *table) nextWalk(s *slot, i int) int {
	found := -1
	for w, pos := range t.walks {
		if pos > i && pos <= int(s.count) && (found < 0 || pos < t.walks[found]) {
			found = w
		}
	}
	return found
}

// move moves the entry at from to the hole at to.
func (t *table) move(s *slot, a *memory.Arena, from, to int) {
	if from == to {
		return
	}
	b := base(s, a)
	src, dst := t.entry(b, from), t.entry(b, to)
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
			t.release(t.entry(b, i), a)
		}
	}
	if s.entries != 0 {
		a.Free(s.entries)
	}
	if s.index != 0 {
		a.Free(s.index)
	}
	*s = slot{}
}

// startWalk begins an iteration and returns its place in walks.
func (t *table) startWalk() int {
	for w, pos := range t.walks {
		if pos < 0 {
			t.walks[w] = 0
			return w
		}
	}
	t.walks = append(t.walks, 0)
	return len(t.walks) - 1
}

func (t *table) endWalk(w int) { t.walks[w] = -1 }
