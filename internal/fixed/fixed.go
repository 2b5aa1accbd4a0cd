// Package fixed turns values without pointers into little-endian bytes and
// back: the fields in order, without padding, equal on every architecture. A
// layout is compiled once per type; nothing is reflected on per value.
package fixed

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unsafe"
)

// Layout is the encoded form of a type. It is immutable.
type Layout struct {
	name  string
	size  int
	parts []part
}

type partKind uint8

const (
	// raw bytes are equal in memory and encoded.
	raw partKind = iota
	// number is swapped on big-endian hosts.
	number
	// truth is a bool.
	truth
	// signed and unsigned are an int and a uint of 4 bytes, encoded as 8.
	signed
	unsigned
)

// part is size bytes at offset off of the value.
type part struct {
	kind      partKind
	off, size uintptr
}

var littleEndian = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}()

// Of returns the layout of t, or an error that says where t holds pointers.
func Of(t reflect.Type) (*Layout, error) {
	l := &Layout{}
	var err error
	if l.name, err = l.add(t, 0); err != nil {
		return nil, fmt.Errorf("%v is not free of pointers: %w", t, err)
	}
	return l, nil
}

// String describes the form, to be compared with that of a snapshot: "int64",
// "struct{Sum float64; N int64}".
func (l *Layout) String() string { return l.name }

// Size is the number of encoded bytes.
func (l *Layout) Size() int { return l.size }

func (l *Layout) add(t reflect.Type, off uintptr) (string, error) {
	switch kind := t.Kind(); kind {
	case reflect.Bool:
		l.put(part{truth, off, 1}, 1)
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		p := part{number, off, t.Size()}
		if t.Size() == 4 {
			p.kind = unsigned
			if kind == reflect.Int {
				p.kind = signed
			}
		}
		l.put(p, 8)
		return strings.TrimSuffix(kind.String(), "ptr") + "64", nil
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		l.put(part{number, off, t.Size()}, int(t.Size()))
	case reflect.Array:
		return l.addArray(t, off)
	case reflect.Struct:
		return l.addStruct(t, off)
	default:
		return "", fmt.Errorf("it holds a %v", kind)
	}
	return t.Kind().String(), nil
}

func (l *Layout) addArray(t reflect.Type, off uintptr) (string, error) {
	elem := t.Elem()
	name, err := new(Layout).add(elem, 0)
	if err != nil {
		return "", err
	}
	for i := range t.Len() {
		if _, err := l.add(elem, off+uintptr(i)*elem.Size()); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("[%d]%s", t.Len(), name), nil
}

func (l *Layout) addStruct(t reflect.Type, off uintptr) (string, error) {
	var fields []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, err := l.add(f.Type, off+f.Offset)
		if err != nil {
			return "", fmt.Errorf("field %s: %w", f.Name, err)
		}
		fields = append(fields, f.Name+" "+name)
	}
	return "struct{" + strings.Join(fields, "; ") + "}", nil
}

// put appends a part of n encoded bytes; neighbours that are copied as they
// are become one.
func (l *Layout) put(p part, n int) {
	l.size += n
	if p.kind == number && (littleEndian || p.size == 1) {
		p.kind = raw
	}
	if k := len(l.parts) - 1; k >= 0 && p.kind == raw && l.parts[k].kind == raw && l.parts[k].off+l.parts[k].size == p.off {
		l.parts[k].size += p.size
		return
	}
	l.parts = append(l.parts, p)
}

// Append appends the encoded form of the value at v.
func (l *Layout) Append(dst []byte, v unsafe.Pointer) []byte {
	for i := range l.parts {
		p := &l.parts[i]
		at := unsafe.Add(v, p.off)
		switch p.kind {
		case raw, truth:
			dst = append(dst, unsafe.Slice((*byte)(at), p.size)...)
		case signed:
			dst = binary.LittleEndian.AppendUint64(dst, uint64(*(*int)(at)))
		case unsigned:
			dst = binary.LittleEndian.AppendUint64(dst, uint64(*(*uint)(at)))
		case number:
			b := unsafe.Slice((*byte)(at), p.size)
			for i := len(b) - 1; i >= 0; i-- {
				dst = append(dst, b[i])
			}
		}
	}
	return dst
}

// Load decodes a value from exactly src into v.
func (l *Layout) Load(v unsafe.Pointer, src []byte) error {
	if len(src) != l.size {
		return fmt.Errorf("%d bytes where %s takes %d", len(src), l.name, l.size)
	}
	for i := range l.parts {
		p := &l.parts[i]
		n := p.size
		if p.kind == signed || p.kind == unsigned {
			n = 8
		}
		if err := p.load(unsafe.Add(v, p.off), src[:n]); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		src = src[n:]
	}
	return nil
}

func (p *part) load(at unsafe.Pointer, src []byte) error {
	switch p.kind {
	case raw:
		copy(unsafe.Slice((*byte)(at), p.size), src)
	case truth:
		if src[0] > 1 {
			return fmt.Errorf("byte %#x is no bool", src[0])
		}
		*(*byte)(at) = src[0]
	case number:
		b := unsafe.Slice((*byte)(at), p.size)
		for i := range b {
			b[len(b)-1-i] = src[i]
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
