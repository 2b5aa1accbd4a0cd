package keygroup

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"
)

// op is what a step of a plan does with a part of a key.
type op uint8

const (
	// opRaw copies bytes that are canonical in memory.
	opRaw op = iota
	// opNumber writes a number of 1, 2, 4 or 8 bytes in little-endian order.
	opNumber
	// opWord and opUWord widen an int or uint of 4 bytes to 8.
	opWord
	opUWord
	opBool
	opFloat32
	opFloat64
	// opString writes a uvarint length, then the bytes.
	opString
)

// step encodes the size bytes at offset off of a key.
type step struct {
	op   op
	off  uintptr
	size uintptr
}

// plan is the canonical encoding of a key type, settled once per type.
type plan struct {
	id string
	// names is the id with the names of fields, "" if there are none.
	names string
	steps []step
	// fixed is the number of encoded bytes, valid unless varies.
	fixed  int
	varies bool
	// canonical says that the key in memory is its own encoding.
	canonical bool
	// text says that the key is a string; alone it has no length in front.
	text bool
}

var littleEndian = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}()

func newPlan(t reflect.Type) (*plan, error) {
	p := &plan{}
	id, err := p.add(t, 0)
	if err != nil {
		return nil, fmt.Errorf("%v cannot be a key: %w; use numbers, strings, byte arrays or structs of those", t, err)
	}
	p.id = id
	if names := named(t); names != id {
		p.names = names
	}
	p.text = t.Kind() == reflect.String
	p.canonical = len(p.steps) == 0 && t.Size() == 0 ||
		len(p.steps) == 1 && p.steps[0] == step{opRaw, 0, t.Size()}
	return p, nil
}

// add appends the steps for a value of t at offset off and returns the name
// of its encoding.
func (p *plan) add(t reflect.Type, off uintptr) (string, error) {
	kind := t.Kind()
	switch kind {
	case reflect.Bool:
		p.put(step{opBool, off, 1}, 1)
	case reflect.Int, reflect.Uint:
		if kind == reflect.Uint {
			p.word(opUWord, off, t.Size())
		} else {
			p.word(opWord, off, t.Size())
		}
		return kind.String() + "64", nil
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.put(step{opNumber, off, t.Size()}, int(t.Size()))
	case reflect.Float32:
		p.put(step{opFloat32, off, 4}, 4)
	case reflect.Float64:
		p.put(step{opFloat64, off, 8}, 8)
	case reflect.String:
		p.put(step{opString, off, t.Size()}, 0)
		p.varies = true
	case reflect.Array:
		return p.addArray(t, off)
	case reflect.Struct:
		return p.addStruct(t, off)
	default:
		return "", fmt.Errorf("it holds a %v", kind)
	}
	return kind.String(), nil
}

func (p *plan) addArray(t reflect.Type, off uintptr) (string, error) {
	elem, n := t.Elem(), t.Len()
	if elem.Kind() == reflect.Uint8 {
		if n > 0 {
			p.put(step{opRaw, off, uintptr(n)}, n)
		}
		return fmt.Sprintf("bytes%d", n), nil
	}
	id, err := new(plan).add(elem, 0)
	if err != nil {
		return "", err
	}
	for i := range n {
		if _, err := p.add(elem, off+uintptr(i)*elem.Size()); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("[%d]%s", n, id), nil
}

func (p *plan) addStruct(t reflect.Type, off uintptr) (string, error) {
	var ids []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "_" { // equality ignores it, so must the encoding
			continue
		}
		id, err := p.add(f.Type, off+f.Offset)
		if err != nil {
			return "", fmt.Errorf("field %s: %w", f.Name, err)
		}
		ids = append(ids, id)
	}
	return "struct{" + strings.Join(ids, ";") + "}", nil
}

func (p *plan) word(o op, off, size uintptr) {
	if size == 8 {
		o = opNumber
	}
	p.put(step{o, off, size}, 8)
}

// put appends a step of n encoded bytes; neighbours that are canonical in
// memory become one copy.
func (p *plan) put(s step, n int) {
	p.fixed += n
	if s.op == opNumber && (littleEndian || s.size == 1) {
		s.op = opRaw
	}
	if s.op == opRaw && len(p.steps) > 0 {
		if last := &p.steps[len(p.steps)-1]; last.op == opRaw && last.off+last.size == s.off {
			last.size += s.size
			return
		}
	}
	p.steps = append(p.steps, s)
}
