package keygroup

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"reflect"
)

// Order is the natural order of keys of a type, by their encodings: numbers by
// value, NaN before all others, false before true, strings and byte arrays
// by their bytes, arrays and structs by their parts from the first on. The zero Order is that of
// the encodings' bytes.
type Order struct{ parts []part }

// part is a part of an encoded key.
type part struct {
	kind partKind
	// size is the number of encoded bytes, 0 if they vary.
	size int
}

type partKind uint8

const (
	unsignedPart partKind = iota
	signedPart
	floatPart
	bytesPart
	// stringPart has its length in front.
	stringPart
)

// OrderOf returns the order of K, which must have an Encoding.
func OrderOf[K comparable]() Order {
	t := reflect.TypeFor[K]()
	if t.Kind() == reflect.String {
		return Order{}
	}
	return Order{appendParts(nil, t)}
}

func appendParts(parts []part, t reflect.Type) []part {
	switch kind := t.Kind(); kind {
	case reflect.Bool, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return append(parts, part{unsignedPart, int(t.Size())})
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return append(parts, part{signedPart, int(t.Size())})
	case reflect.Int:
		return append(parts, part{signedPart, 8})
	case reflect.Uint:
		return append(parts, part{unsignedPart, 8})
	case reflect.Float32, reflect.Float64:
		return append(parts, part{floatPart, int(t.Size())})
	case reflect.String:
		return append(parts, part{stringPart, 0})
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return append(parts, part{bytesPart, t.Len()})
		}
		for range t.Len() {
			parts = appendParts(parts, t.Elem())
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Name != "_" {
				parts = appendParts(parts, f.Type)
			}
		}
	}
	return parts
}

// Exact tells that no two keys have the same rank.
func (o Order) Exact() bool { return len(o.parts) == 1 && o.parts[0].kind < bytesPart }

// Rank returns a number that is smaller than that of another key only if the key
// comes before the other.
func (o Order) Rank(key []byte) uint64 {
	if len(o.parts) == 0 {
		return prefix(key)
	}
	p := o.parts[0]
	head, _ := p.cut(key)
	return p.rank(head)
}

// Compare returns -1, 0 or 1 as key a comes before b, is b, or comes after b.
func (o Order) Compare(a, b []byte) int {
	if len(o.parts) == 0 {
		return bytes.Compare(a, b)
	}
	for _, p := range o.parts {
		var x, y []byte
		x, a = p.cut(a)
		y, b = p.cut(b)
		var c int
		if p.kind < bytesPart {
			c = cmp.Compare(p.rank(x), p.rank(y))
		} else {
			c = bytes.Compare(x, y)
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// cut takes a part off an encoded key. What is cut short is what there is.
func (p part) cut(key []byte) (head, rest []byte) {
	n := p.size
	if p.kind == stringPart {
		length, k := binary.Uvarint(key)
		if k <= 0 {
			return nil, nil
		}
		key = key[k:]
		n = int(min(length, uint64(len(key))))
	}
	n = min(n, len(key))
	return key[:n], key[n:]
}

// rank returns a number that orders the values of a part, or what they begin with.
func (p part) rank(value []byte) uint64 {
	if p.kind >= bytesPart {
		return prefix(value)
	}
	var w [8]byte
	copy(w[:], value)
	v := binary.LittleEndian.Uint64(w[:])
	switch shift := 64 - 8*p.size; {
	case p.kind == signedPart:
		return SignedRank(int64(v<<shift) >> shift)
	case p.kind == floatPart && p.size == 4:
		return floatRank(float64(math.Float32frombits(uint32(v))))
	case p.kind == floatPart:
		return floatRank(math.Float64frombits(v))
	}
	return v
}

// SignedRank is the rank of an integer.
func SignedRank(v int64) uint64 { return uint64(v) ^ 1<<63 }

func floatRank(f float64) uint64 {
	b := math.Float64bits(f)
	switch {
	case f != f:
		return 0
	case b>>63 != 0:
		return ^b
	}
	return b | 1<<63
}

// prefix is the first 8 bytes as a number; zeros stand for those missing.
func prefix(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b)
	return binary.BigEndian.Uint64(w[:])
}
