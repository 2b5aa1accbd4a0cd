package pane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
)

// The form in a snapshot is a uvarint count, then the slices in ascending
// order: the start in 8 bytes, little-endian, and the accumulator in its
// layout or, if it is a []byte, after its length as a uvarint.

var errShort = errors.New("the value ends too early")

// appendField is entry.Field.Append.
func (s *Store[Acc]) appendField(dst []byte, p unsafe.Pointer, v memory.View) ([]byte, error) {
	base, n := s.slicesIn(s.headOf(p), v)
	dst = binary.AppendUvarint(dst, uint64(n))
	for i := range n {
		r := s.slice(base, i)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(*startOf(r)))
		if !s.flat {
			dst = s.layout.Append(dst, unsafe.Add(r, startSize))
			continue
		}
		t := textOf(r)
		dst = binary.AppendUvarint(dst, uint64(t.len))
		if t.block != 0 {
			dst = append(dst, v.Bytes(t.block, int(t.len))...)
		}
	}
	return dst, nil
}

// slicesIn is slices as of a view.
func (s *Store[Acc]) slicesIn(h *head, v memory.View) (base unsafe.Pointer, n int) {
	n = int(h.count)
	if h.block == 0 {
		return unsafe.Add(unsafe.Pointer(h), headSize), n
	}
	return unsafe.Pointer(unsafe.SliceData(v.Bytes(h.block, n*int(s.size)))), n
}

// load is entry.Field.Load.
func (s *Store[Acc]) load(src []byte, _ bool, p unsafe.Pointer, a *memory.Arena, _ int64) error {
	count, k := binary.Uvarint(src)
	if k <= 0 || count > uint64(len(src)) {
		return fmt.Errorf("window slices: %w", errShort)
	}
	if s.field.Has(p) {
		s.clear(p, a)
	}
	rest, err := s.loadSlices(src[k:], int(count), p, a)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow the last slice", len(rest))
	}
	if err != nil {
		if s.field.Has(p) {
			s.clear(p, a)
		}
		return fmt.Errorf("window slices: %w", err)
	}
	return nil
}

func (s *Store[Acc]) loadSlices(src []byte, count int, p unsafe.Pointer, a *memory.Arena) ([]byte, error) {
	last := int64(math.MinInt64)
	for i := range count {
		if len(src) < startSize {
			return nil, errShort
		}
		start := int64(binary.LittleEndian.Uint64(src))
		if at, ok := s.windows.SliceStart(start); !ok || at != start || start <= last {
			return nil, fmt.Errorf("no slice of %v follows %d at %d", s.windows, last, start)
		}
		last = start
		acc, rest, err := s.cut(src[startSize:])
		if err != nil {
			return nil, err
		}
		src = rest
		if err := s.fill(s.insert(p, a, i, start), acc, a); err != nil {
			return nil, err
		}
	}
	return src, nil
}

// fill sets the accumulator of a new slice to its stored form.
func (s *Store[Acc]) fill(r unsafe.Pointer, acc []byte, a *memory.Arena) error {
	if !s.flat {
		var zero Acc
		*(*Acc)(unsafe.Add(r, startSize)) = zero
		return s.layout.Load(unsafe.Add(r, startSize), acc)
	}
	*textOf(r) = text{}
	if len(acc) > 0 {
		textOf(r).set(a, acc, len(acc))
	}
	return nil
}

// cut splits the first accumulator off src.
func (s *Store[Acc]) cut(src []byte) (acc, rest []byte, err error) {
	var n, k int
	if s.flat {
		var long uint64
		long, k = binary.Uvarint(src)
		if k <= 0 || long > uint64(len(src)-k) {
			return nil, nil, errShort
		}
		n = int(long)
	} else {
		n = s.layout.Size()
	}
	if len(src)-k < n {
		return nil, nil, errShort
	}
	return src[k : k+n], src[k+n:], nil
}

// clear is entry.Field.Clear.
func (s *Store[Acc]) clear(p unsafe.Pointer, a *memory.Arena) {
	base, n := s.slices(p, a)
	s.release(base, n, a)
	a.Free(s.headOf(p).block)
	*entry.Bits(p) &^= s.field.Bit
}

// touch is entry.Field.Touch: it loads the newest slice, which is the one a
// record most likely belongs to.
func (s *Store[Acc]) touch(p unsafe.Pointer, v memory.View) byte {
	h := s.headOf(p)
	if h.block == 0 && !s.flat {
		return 0
	}
	base, n := s.slicesIn(h, v)
	r := s.slice(base, n-1)
	if !s.flat {
		return *(*byte)(r)
	}
	if t := textOf(r); t.block != 0 {
		return v.Bytes(t.block, 1)[0]
	}
	return 0
}
