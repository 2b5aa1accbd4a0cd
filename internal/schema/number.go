package schema

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

func isNumber(k Kind) bool { return k >= Int8 && k <= Float64 }
func isFloat(k Kind) bool  { return k == Float32 || k == Float64 }

// candidates are the types of Go that a number may have been: Avro has two for
// all integers.
func candidates(n *Node) []Kind {
	switch {
	case n.width != Opaque:
		return []Kind{n.width}
	case n.Kind == Small:
		return []Kind{Int8, Int16, Int32, Uint8, Uint16}
	case n.Kind == Long:
		return []Kind{Int64, Uint32}
	}
	return []Kind{n.Kind}
}

// bits are the bits that values of a type need, and whether they may be below zero.
var bits = map[Kind]struct {
	size   int
	signed bool
}{
	Int8: {7, true}, Int16: {15, true}, Int32: {31, true}, Int64: {63, true},
	Uint8: {8, false}, Uint16: {16, false}, Uint32: {32, false}, Uint64: {64, false},
	Float32: {24, true}, Float64: {53, true},
}

// widens tells whether all numbers of a type are numbers of another.
func widens(from, to Kind) bool {
	f, t := bits[from], bits[to]
	if isFloat(from) && !isFloat(to) {
		return false
	}
	return f.size <= t.size && (!f.signed || t.signed)
}

// target is the type that a number is to have.
func target(n *Node) Kind {
	switch {
	case n.width != Opaque:
		return n.width
	case n.Kind == Small:
		return Int32
	case n.Kind == Long:
		return Int64
	}
	return n.Kind
}

func (c *compiler) number(w, r *Node, path string) step {
	to := target(r)
	possible := w.Kind == r.Kind
	for _, from := range candidates(w) {
		possible = possible || widens(from, to) && !(w.Kind == Long && isFloat(to))
	}
	if !possible {
		return c.differ(path, w, r)
	}
	fromAvro, toAvro := c.from, c.to
	if isFloat(w.Kind) {
		return func(dst, src []byte) ([]byte, []byte, error) {
			v, rest, err := cutFloat(w.Kind, src)
			return appendFloat(dst, r.Kind, v), rest, err
		}
	}
	return func(dst, src []byte) ([]byte, []byte, error) {
		v, big, rest, err := cutInt(fromAvro, w.Kind, src)
		if err != nil {
			return nil, nil, err
		}
		if isFloat(r.Kind) {
			return appendNumber(dst, r.Kind, v), rest, nil
		}
		if !holds(to, v, big) {
			return nil, nil, fmt.Errorf("%s: %w: %d", name(path), errRange, v)
		}
		return appendInt(dst, toAvro, r.Kind, v), rest, nil
	}
}

func appendNumber(dst []byte, k Kind, v int64) []byte {
	if k == Float32 {
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v)))
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(v)))
}

// cutFloat returns the bits of a float64, or of a float32 in the lower half.
func cutFloat(k Kind, src []byte) (bits uint64, rest []byte, err error) {
	if k == Float32 {
		if len(src) < 4 {
			return 0, nil, errSize
		}
		return math.Float64bits(float64(math.Float32frombits(binary.LittleEndian.Uint32(src)))), src[4:], nil
	}
	if len(src) < 8 {
		return 0, nil, errSize
	}
	return binary.LittleEndian.Uint64(src), src[8:], nil
}

func appendFloat(dst []byte, k Kind, v uint64) []byte {
	if k == Float32 {
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(math.Float64frombits(v))))
	}
	return binary.LittleEndian.AppendUint64(dst, v)
}

// holds tells whether a type has a number: v, or what uint64(v) is if big.
func holds(k Kind, v int64, big bool) bool {
	b := bits[k]
	switch {
	case big:
		return k == Uint64
	case v < 0:
		return b.signed && v >= -1<<b.size
	}
	return b.size >= 63 || v < 1<<b.size
}

// cutInt takes an integer off src. big tells that it is above those of an int64,
// and v its bits.
func cutInt(avro bool, k Kind, src []byte) (v int64, big bool, rest []byte, err error) {
	if avro {
		v, rest, err = cutLong(src)
		return v, k == Uint64 && v < 0, rest, err
	}
	n := fixedSize(&Node{Kind: k})
	if len(src) < n {
		return 0, false, nil, errSize
	}
	rest = src[n:]
	switch k {
	case Int8:
		v = int64(int8(src[0]))
	case Uint8:
		v = int64(src[0])
	case Int16:
		v = int64(int16(binary.LittleEndian.Uint16(src)))
	case Uint16:
		v = int64(binary.LittleEndian.Uint16(src))
	case Int32:
		v = int64(int32(binary.LittleEndian.Uint32(src)))
	case Uint32:
		v = int64(binary.LittleEndian.Uint32(src))
	default:
		v = int64(binary.LittleEndian.Uint64(src))
		big = k == Uint64 && v < 0
	}
	return v, big, rest, nil
}

func appendInt(dst []byte, avro bool, k Kind, v int64) []byte {
	if avro {
		return appendLong(dst, v)
	}
	switch fixedSize(&Node{Kind: k}) {
	case 1:
		return append(dst, byte(v))
	case 2:
		return binary.LittleEndian.AppendUint16(dst, uint16(v))
	case 4:
		return binary.LittleEndian.AppendUint32(dst, uint32(v))
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(v))
}

// appendLong and cutLong are Avro's zigzag numbers.
func appendLong(dst []byte, v int64) []byte { return binary.AppendVarint(dst, v) }

func cutLong(src []byte) (v int64, rest []byte, err error) {
	v, n := binary.Varint(src)
	if n <= 0 {
		return 0, nil, errSize
	}
	return v, src[n:], nil
}

// cutBytes takes bytes with their length in front off src.
func cutBytes(src []byte) (b, rest []byte, err error) {
	n, src, err := cutLong(src)
	if err != nil || n < 0 || n > int64(len(src)) {
		return nil, nil, errSize
	}
	return src[:n:n], src[n:], nil
}

// preset is the encoding of a field that is not stored.
func (c *compiler) preset(f *Field, fresh []byte) ([]byte, error) {
	if f.preset == nil {
		if fresh != nil {
			return fresh, nil
		}
		return zero(nil, c.to, f.Type), nil
	}
	text, n := *f.preset, f.Type
	switch {
	case n.ID != "":
	case n.Kind == Bool:
		v, err := strconv.ParseBool(text)
		if v {
			return []byte{1}, err
		}
		return []byte{0}, err
	case n.Kind == String, n.Kind == Bytes:
		return append(appendLong(nil, int64(len(text))), text...), nil
	case isFloat(n.Kind):
		v, err := strconv.ParseFloat(text, 64)
		return appendFloat(nil, n.Kind, math.Float64bits(v)), err
	case n.Kind == Uint64:
		v, err := strconv.ParseUint(text, 10, 64)
		return appendInt(nil, c.to, n.Kind, int64(v)), err
	case isNumber(n.Kind):
		v, err := strconv.ParseInt(text, 10, 64)
		if err == nil && !holds(target(n), v, false) {
			err = errRange
		}
		return appendInt(nil, c.to, n.Kind, v), err
	}
	return nil, fmt.Errorf("there is none for a %s", n)
}

// zero appends the zero value.
func zero(dst []byte, avro bool, n *Node) []byte {
	if !avro {
		return append(dst, make([]byte, fixedSize(n))...)
	}
	switch n.Kind {
	case Record:
		for i := range n.Fields {
			dst = zero(dst, avro, n.Fields[i].Type)
		}
		return dst
	case Optional:
		return appendLong(dst, int64(n.nullAt))
	case Union:
		return zero(append(dst, 0), avro, n.Branches[0])
	case Fixed, Array:
		return append(dst, make([]byte, n.Size)...)
	case List:
		var all []byte
		for range n.length {
			all = zero(all, avro, n.Elem)
		}
		return appendBlock(dst, n.length, all)
	case Float32:
		return append(dst, 0, 0, 0, 0)
	case Float64:
		return append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	case Null:
		return dst
	}
	if n.ID == "time.Time" {
		const zeroTime = "0001-01-01T00:00:00Z"
		return append(appendLong(dst, int64(len(zeroTime))), zeroTime...)
	}
	return append(dst, 0) // false, 0, or a length of 0
}
