package state

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unsafe"
)

// program converts a type without pointers between its form in memory and its
// form in snapshots: the fields in order, little-endian, without padding. It
// is compiled once per type and never changes.
type program struct {
	// name describes the type: "int64", "[4]uint8", "struct{A int64; B bool}".
	name  string
	moves []move
	// bools are the encoded positions that hold 0 or 1.
	bools []int
	// size is the number of encoded bytes, never 0: a type without content is
	// encoded as one zero.
	size int
	// plain says that the form in memory is the encoded form.
	plain bool
}

// move stands for n bytes at offset mem in memory and enc in the encoded
// form, made of numbers of width bytes each.
type move struct{ mem, enc, n, width uintptr }

var littleEndian = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}()

// compile returns the program of t, or false if t holds pointers.
func compile(t reflect.Type) (*program, bool) {
	p := &program{}
	name, ok := p.add(t, 0)
	if !ok {
		return nil, false
	}
	p.name = name
	p.plain = len(p.moves) == 1 && p.moves[0].n == t.Size() && (littleEndian || p.moves[0].width == 1)
	p.size = max(p.size, 1)
	return p, true
}

func (p *program) add(t reflect.Type, off uintptr) (name string, ok bool) {
	switch kind := t.Kind(); kind {
	case reflect.Bool:
		p.bools = append(p.bools, p.size)
		p.put(off, 1)
		return "bool", true
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		p.put(off, t.Size())
		name = strings.TrimSuffix(kind.String(), "ptr")
		return name + strconv.Itoa(t.Bits()), true
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		p.put(off, t.Size())
		return kind.String(), true
	case reflect.Complex64, reflect.Complex128:
		p.put(off, t.Size()/2)
		p.put(off+t.Size()/2, t.Size()/2)
		return kind.String(), true
	case reflect.Array:
		return p.addArray(t, off)
	case reflect.Struct:
		return p.addStruct(t, off)
	default:
		return "", false
	}
}

func (p *program) addArray(t reflect.Type, off uintptr) (string, bool) {
	elem := t.Elem()
	name, ok := new(program).add(elem, 0)
	if !ok && t.Len() > 0 {
		return "", false
	}
	if elem.Kind() == reflect.Uint8 || elem.Kind() == reflect.Int8 {
		p.move(move{off, uintptr(p.size), t.Size(), 1})
	} else {
		for i := range t.Len() {
			p.add(elem, off+uintptr(i)*elem.Size())
		}
	}
	return fmt.Sprintf("[%d]%s", t.Len(), name), true
}

func (p *program) addStruct(t reflect.Type, off uintptr) (string, bool) {
	var fields []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "_" && f.Type.Kind() != reflect.Struct && f.Type.Kind() != reflect.Array {
			if _, ok := new(program).add(f.Type, 0); !ok {
				return "", false
			}
			continue // padding
		}
		name, ok := p.add(f.Type, off+f.Offset)
		if !ok {
			return "", false
		}
		fields = append(fields, f.Name+" "+name)
	}
	return "struct{" + strings.Join(fields, "; ") + "}", true
}

func (p *program) put(off, width uintptr) {
	p.move(move{off, uintptr(p.size), width, width})
}

// move appends m, which may become part of the one before it.
func (p *program) move(m move) {
	p.size += int(m.n)
	if n := len(p.moves); n > 0 {
		last := &p.moves[n-1]
		if last.mem+last.n == m.mem && (littleEndian || last.width == m.width) {
			last.n += m.n
			return
		}
	}
	p.moves = append(p.moves, m)
}

// append appends the encoded form of the value at v.
func (p *program) append(dst []byte, v unsafe.Pointer) []byte {
	if p.plain {
		return append(dst, unsafe.Slice((*byte)(v), p.size)...)
	}
	if len(p.moves) == 0 {
		return append(dst, 0)
	}
	for i := range p.moves {
		m := &p.moves[i]
		start := len(dst)
		dst = append(dst, unsafe.Slice((*byte)(unsafe.Add(v, m.mem)), m.n)...)
		if !littleEndian {
			swap(dst[start:], int(m.width))
		}
	}
	return dst
}

// load decodes the value from exactly src into v.
func (p *program) load(v unsafe.Pointer, src []byte) error {
	if len(src) != p.size {
		return fmt.Errorf("%d bytes where a %s has %d", len(src), p.name, p.size)
	}
	for _, at := range p.bools {
		if src[at] > 1 {
			return fmt.Errorf("byte %d of a %s is %#x, which is no bool", at, p.name, src[at])
		}
	}
	for i := range p.moves {
		m := &p.moves[i]
		dst := unsafe.Slice((*byte)(unsafe.Add(v, m.mem)), m.n)
		copy(dst, src[m.enc:])
		if !littleEndian {
			swap(dst, int(m.width))
		}
	}
	return nil
}

// swap reverses the bytes of each number of width bytes in b.
func swap(b []byte, width int) {
	for ; len(b) > 0; b = b[width:] {
		switch width {
		case 2:
			binary.BigEndian.PutUint16(b, binary.LittleEndian.Uint16(b))
		case 4:
			binary.BigEndian.PutUint32(b, binary.LittleEndian.Uint32(b))
		case 8:
			binary.BigEndian.PutUint64(b, binary.LittleEndian.Uint64(b))
		case 1:
			return
		}
	}
}

func typeName[T any]() string { return reflect.TypeFor[T]().String() }
