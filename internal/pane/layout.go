package pane

import (
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
)

// insert makes room for a slice at index i, in an entry that may lack the
// field, and returns it with its start set and its accumulator undefined.
func (s *Store[Acc]) insert(p unsafe.Pointer, a *memory.Arena, i int, start int64) unsafe.Pointer {
	h := s.headOf(p)
	if !s.field.Has(p) {
		*h = head{}
		*entry.Bits(p) |= s.field.Bit
	}
	base, n := s.slices(p, a)
	switch {
	case h.block == 0 && n == s.inline:
		base = s.move(h, a, base, n, max(4, 2*n))
	case h.block != 0 && n == s.room(h.block, a):
		base = s.move(h, a, base, n, n+n/2+1)
	case h.block != 0 && !a.Writable(h.block):
		base = s.move(h, a, base, n, s.room(h.block, a))
	}
	r := s.slice(base, i)
	copyBytes(unsafe.Add(r, s.size), r, uintptr(n-i)*s.size)
	h.count++
	*startOf(r) = start
	return r
}

// room is how many slices a block holds.
func (s *Store[Acc]) room(block memory.Handle, a *memory.Arena) int {
	return int(uintptr(a.Cap(block)) / s.size)
}

// move copies n slices from base to a new block with room for room of them.
func (s *Store[Acc]) move(h *head, a *memory.Arena, base unsafe.Pointer, n, room int) unsafe.Pointer {
	block := a.Alloc(int(uintptr(room) * s.size))
	to := unsafe.Pointer(unsafe.SliceData(a.Bytes(block, 1)))
	copyBytes(to, base, uintptr(n)*s.size)
	a.Free(h.block)
	h.block = block
	return to
}

// thawed replaces a block that a pending snapshot reads by a copy, and returns
// the copy of slice r.
func (s *Store[Acc]) thawed(h *head, a *memory.Arena, base, r unsafe.Pointer) unsafe.Pointer {
	off := uintptr(r) - uintptr(base)
	return unsafe.Add(s.move(h, a, base, int(h.count), s.room(h.block, a)), off)
}

// dropFirst removes the first k of the entry's slices; k is below their number
// and their bytes are released already.
func (s *Store[Acc]) dropFirst(p unsafe.Pointer, a *memory.Arena, k int) {
	h := s.headOf(p)
	base, n := s.slices(p, a)
	rest := s.slice(base, k)
	left := n - k
	switch old := h.block; {
	case old != 0 && left <= s.inline/2:
		copyBytes(unsafe.Add(unsafe.Pointer(h), headSize), rest, uintptr(left)*s.size)
		a.Free(old)
		h.block = 0
	case old != 0 && !a.Writable(old):
		s.move(h, a, rest, left, s.room(old, a))
	default:
		copyBytes(base, rest, uintptr(left)*s.size)
	}
	h.count = uint32(left)
}

func copyBytes(to, from unsafe.Pointer, n uintptr) {
	copy(unsafe.Slice((*byte)(to), n), unsafe.Slice((*byte)(from), n))
}

// fresh sets the accumulator of a new slice to that of no record.
func (s *Store[Acc]) fresh(r unsafe.Pointer) *Acc {
	if s.flat {
		s.open = textOf(r)
		*s.open = text{}
		*bytesOf(&s.acc) = s.spare[:0]
		s.init(&s.acc)
		return &s.acc
	}
	acc := (*Acc)(unsafe.Add(r, startSize))
	var zero Acc
	*acc = zero
	s.init(acc)
	return acc
}

// bytesOf is a flat accumulator as what it is.
func bytesOf[Acc any](acc *Acc) *[]byte { return (*[]byte)(unsafe.Pointer(acc)) }

// opened hands out the bytes of a flat slice to be changed in place.
func (s *Store[Acc]) opened(r unsafe.Pointer, a *memory.Arena) *Acc {
	t := textOf(r)
	if t.block != 0 && !a.Writable(t.block) {
		old := *t
		t.set(a, a.Bytes(old.block, int(old.len)), a.Cap(old.block))
		a.Free(old.block)
	}
	s.open = t
	*bytesOf(&s.acc) = t.bytes(a)
	if t.block == 0 {
		*bytesOf(&s.acc) = s.spare[:0]
	}
	return &s.acc
}

// keep stores the bytes of the open slice, which may have outgrown their block.
func (s *Store[Acc]) keep(a *memory.Arena) {
	t, b := s.open, *bytesOf(&s.acc)
	*bytesOf(&s.acc) = nil
	if t.block != 0 && cap(b) > 0 && unsafe.SliceData(b) == unsafe.SliceData(a.Bytes(t.block, 1)) {
		t.len = uint32(len(b))
		return
	}
	old := t.block
	if old != 0 || len(b) > 0 {
		t.set(a, b, len(b)+len(b)/2)
		a.Free(old)
	}
	if cap(b) > cap(s.spare) {
		s.spare = make([]byte, 0, cap(b)) // b may lie in the block, or be the aggregator's
	}
}

// bytes are the bytes of a flat slice.
func (t *text) bytes(a *memory.Arena) []byte {
	if t.block == 0 {
		return nil
	}
	return a.Bytes(t.block, int(t.len))
}

// set copies b to a new block of at least size bytes.
func (t *text) set(a *memory.Arena, b []byte, size int) {
	*t = text{a.Alloc(max(size, 1)), uint32(len(b))}
	copy(a.Bytes(t.block, len(b)), b)
}
