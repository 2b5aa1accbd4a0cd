package keygroup

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"unsafe"

	"github.com/weirstream/weir/codec"
)

// Encoding is the canonical encoding of keys of type K: two keys are the same
// key exactly if their encodings are equal. Numbers and bool are little-endian
// of fixed width (int and uint take 8 bytes), strings and byte arrays are
// their bytes, structs and other arrays are their parts in order, each string
// among them after its length as a uvarint. All NaN are one key, and so are
// -0 and +0.
//
// An Encoding is immutable and may be used from any goroutine.
type Encoding[K comparable] struct{ plan *plan }

// NewEncoding returns the encoding of K, or an error if K holds anything that
// has no stable encoding: pointers, interfaces, channels, complex numbers.
func NewEncoding[K comparable]() (Encoding[K], error) {
	p, err := newPlan(reflect.TypeFor[K]())
	return Encoding[K]{p}, err
}

// Format names the encoding: "int64", "string", "bytes16",
// "struct{int64;string}". Types of equal id encode equally; the schema of a struct
// has the names of its fields, too: see SameKeys.
func (e Encoding[K]) Format() codec.Format {
	f := codec.Format{ID: e.plan.id, Version: 1, Schema: e.plan.names}
	if !e.plan.varies {
		f.Size = e.plan.fixed
	}
	return f
}

// InMemory reports whether the memory of a K is its encoding, byte for byte,
// so that it may be copied and compared without encoding.
func (e Encoding[K]) InMemory() bool { return e.plan.canonical }

// Append appends the encoding of k to dst.
func (e Encoding[K]) Append(dst []byte, k K) []byte {
	p := unsafe.Pointer(&k)
	if e.plan.text {
		return append(dst, *(*string)(p)...)
	}
	return e.plan.append(dst, p)
}

// Decode decodes a key from exactly src. The key does not alias src.
func (e Encoding[K]) Decode(src []byte) (K, error) {
	var k K
	p := unsafe.Pointer(&k)
	if e.plan.text {
		*(*string)(p) = string(src)
		return k, nil
	}
	rest, err := e.plan.decode(p, src)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes too many", len(rest))
	}
	if err != nil {
		var zero K
		return zero, fmt.Errorf("key of format %s: %w", e.plan.id, err)
	}
	return k, nil
}

func (p *plan) append(dst []byte, base unsafe.Pointer) []byte {
	for i := range p.steps {
		s := &p.steps[i]
		at := unsafe.Add(base, s.off)
		switch s.op {
		case opRaw:
			dst = append(dst, unsafe.Slice((*byte)(at), s.size)...)
		case opNumber:
			dst = appendNumber(dst, at, s.size)
		case opWord:
			dst = binary.LittleEndian.AppendUint64(dst, uint64(*(*int)(at)))
		case opUWord:
			dst = binary.LittleEndian.AppendUint64(dst, uint64(*(*uint)(at)))
		case opBool:
			dst = append(dst, *(*byte)(at))
		case opFloat32:
			dst = binary.LittleEndian.AppendUint32(dst, canonical32(*(*float32)(at)))
		case opFloat64:
			dst = binary.LittleEndian.AppendUint64(dst, canonical64(*(*float64)(at)))
		case opString:
			text := *(*string)(at)
			dst = binary.AppendUvarint(dst, uint64(len(text)))
			dst = append(dst, text...)
		}
	}
	return dst
}

func appendNumber(dst []byte, at unsafe.Pointer, size uintptr) []byte {
	switch size {
	case 2:
		return binary.LittleEndian.AppendUint16(dst, *(*uint16)(at))
	case 4:
		return binary.LittleEndian.AppendUint32(dst, *(*uint32)(at))
	default:
		return binary.LittleEndian.AppendUint64(dst, *(*uint64)(at))
	}
}

func (p *plan) decode(base unsafe.Pointer, src []byte) ([]byte, error) {
	for i := range p.steps {
		s := &p.steps[i]
		at := unsafe.Add(base, s.off)
		n := s.size
		switch s.op {
		case opWord, opUWord:
			n = 8
		case opString:
			length, k := binary.Uvarint(src)
			if k <= 0 || length > uint64(len(src)-k) {
				return nil, fmt.Errorf("a string goes beyond the end")
			}
			*(*string)(at) = string(src[k : k+int(length)])
			src = src[k+int(length):]
			continue
		}
		if uintptr(len(src)) < n {
			return nil, fmt.Errorf("%d bytes where %d are needed", len(src), n)
		}
		if err := s.load(at, src[:n]); err != nil {
			return nil, err
		}
		src = src[n:]
	}
	return src, nil
}

// load decodes one part of fixed size.
func (s *step) load(at unsafe.Pointer, src []byte) error {
	switch s.op {
	case opRaw:
		copy(unsafe.Slice((*byte)(at), s.size), src)
	case opBool:
		if src[0] > 1 {
			return fmt.Errorf("byte %#x is no bool", src[0])
		}
		*(*bool)(at) = src[0] == 1
	case opWord:
		v := int64(binary.LittleEndian.Uint64(src))
		if int64(int(v)) != v {
			return fmt.Errorf("%d does not fit into an int here", v)
		}
		*(*int)(at) = int(v)
	case opUWord:
		v := binary.LittleEndian.Uint64(src)
		if uint64(uint(v)) != v {
			return fmt.Errorf("%d does not fit into a uint here", v)
		}
		*(*uint)(at) = uint(v)
	case opFloat32:
		*(*float32)(at) = math.Float32frombits(binary.LittleEndian.Uint32(src))
	case opFloat64:
		*(*float64)(at) = math.Float64frombits(binary.LittleEndian.Uint64(src))
	case opNumber:
		loadNumber(at, src)
	}
	return nil
}

func loadNumber(at unsafe.Pointer, src []byte) {
	switch len(src) {
	case 2:
		*(*uint16)(at) = binary.LittleEndian.Uint16(src)
	case 4:
		*(*uint32)(at) = binary.LittleEndian.Uint32(src)
	case 8:
		*(*uint64)(at) = binary.LittleEndian.Uint64(src)
	}
}

// canonical32 and canonical64 give all NaN, and both zeros, one form.
func canonical32(f float32) uint32 {
	switch {
	case f != f:
		return 0x7FC00000
	case f == 0:
		return 0
	}
	return math.Float32bits(f)
}

func canonical64(f float64) uint64 {
	switch {
	case f != f:
		return 0x7FF8000000000000
	case f == 0:
		return 0
	}
	return math.Float64bits(f)
}
