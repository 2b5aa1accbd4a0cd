// Package fixed turns values without pointers into little-endian bytes and
// back: the fields in order, without padding, equal on every architecture. A
// layout is compiled once per type; nothing is reflected on per value.
package fixed

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"unsafe"
)

// Layout is the encoded form of a type. It is immutable.
type Layout struct {
	name  string
	parts []part
	// bools are the encoded positions that hold 0 or 1.
	bools []int
	size  int
	plain bool
}

type partKind uint8

const (
	// raw bytes are equal in memory and encoded, but for the byte order of
	// numbers of width bytes each.
	raw partKind = iota
	// signed and unsigned are an int and a uint of 4 bytes, encoded as 8.
	signed
	unsigned
)

// part is size bytes at offset off of the value.
type part struct {
	kind             partKind
	off, size, width uintptr
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Of returns the layout of t, or an error that says where t holds pointers.
func Of(t reflect.Type) (*Layout, error) {
	l := &Layout{}
	name, err := l.add(t, 0)
	if err != nil {
		return nil, fmt.Errorf("%v is not free of pointers: %w", t, err)
	}
	l.name = name
	l.plain = len(l.parts) == 1 && l.parts[0].kind == raw && l.parts[0].size == t.Size() && !l.parts[0].swaps()
	l.size = max(l.size, 1)
	return l, nil
}

// String describes the form, to be compared with that of a snapshot: "int64",
// "struct{Sum float64; N int64}".
func (l *Layout) String() string { return l.name }

// Size is the number of encoded bytes, never 0: a type without content is
// encoded as one zero.
func (l *Layout) Size() int { return l.size }

// Plain reports whether the form in memory is the encoded form.
func (l *Layout) Plain() bool { return l.plain }

// Append appends the encoded form of the value at v.
func (l *Layout) Append(dst []byte, v unsafe.Pointer) []byte {
	if l.plain {
		return append(dst, unsafe.Slice((*byte)(v), l.size)...)
	}
	if len(l.parts) == 0 {
		return append(dst, 0)
	}
	for i := range l.parts {
		p := &l.parts[i]
		at := unsafe.Add(v, p.off)
		switch p.kind {
		case raw:
			dst = append(dst, unsafe.Slice((*byte)(at), p.size)...)
			if p.swaps() {
				swap(dst[len(dst)-int(p.size):], p.width)
			}
		case signed:
			dst = binary.LittleEndian.AppendUint64(dst, uint64(*(*int)(at)))
		case unsigned:
			dst = binary.LittleEndian.AppendUint64(dst, uint64(*(*uint)(at)))
		}
	}
	return dst
}

// Load decodes a value from exactly src into v.
func (l *Layout) Load(v unsafe.Pointer, src []byte) error {
	if len(src) != l.size {
		return fmt.Errorf("%d bytes where %s takes %d", len(src), l.name, l.size)
	}
	for _, at := range l.bools {
		if src[at] > 1 {
			return fmt.Errorf("%s: byte %d is %#x, which is no bool", l.name, at, src[at])
		}
	}
	for i := range l.parts {
		p := &l.parts[i]
		if err := p.load(unsafe.Add(v, p.off), src); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		src = src[p.encoded():]
	}
	return nil
}

func (p *part) load(at unsafe.Pointer, src []byte) error {
	switch p.kind {
	case raw:
		b := unsafe.Slice((*byte)(at), p.size)
		copy(b, src)
		if p.swaps() {
			swap(b, p.width)
		}
	case signed:
		v := int64(binary.LittleEndian.Uint64(src))
		if v < math.MinInt32 || v > math.MaxInt32 {
			return fmt.Errorf("%d does not fit into an int of 32 bits", v)
		}
		*(*int)(at) = int(v)
	case unsigned:
		v := binary.LittleEndian.Uint64(src)
		if v > math.MaxUint32 {
			return fmt.Errorf("%d does not fit into a uint of 32 bits", v)
		}
		*(*uint)(at) = uint(v)
	}
	return nil
}

func (p *part) swaps() bool { return !littleEndian && p.width > 1 }

// encoded is the number of encoded bytes.
func (p *part) encoded() int {
	if p.kind != raw {
		return 8
	}
	return int(p.size)
}

// swap reverses the bytes of each number of width bytes in b.
func swap(b []byte, width uintptr) {
	for number := range slices.Chunk(b, int(width)) {
		slices.Reverse(number)
	}
}
