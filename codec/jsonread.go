package codec

import (
	"encoding/binary"
	"math/bits"
	"reflect"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// maxNesting is how deep the values of unknown members may nest before they
// are left to the library.
const maxNesting = 32

// read decodes src into the zero value at base. Its strings alias src. It
// returns false for everything that it does not understand, valid or not; what
// it has then written is to be thrown away.
func (p *plan) read(src []byte, base unsafe.Pointer) bool {
	i := p.object(src, space(src, 0), base)
	return i > 0 && space(src, i) == len(src)
}

// object reads an object at position i and returns the position behind it, 0
// where it gives up, like all functions here.
func (p *plan) object(src []byte, i int, base unsafe.Pointer) int {
	if i >= len(src) || src[i] != '{' {
		return 0
	}
	if i = space(src, i+1); i < len(src) && src[i] == '}' {
		return i + 1
	}
	expected := 0
	for {
		// Members mostly come in the order of the fields.
		var f *planField
		if expected < len(p.fields) && p.fields[expected].begins(src, i) {
			f = &p.fields[expected]
			i += len(f.member)
		} else if f, i = p.member(src, i); i == 0 {
			return 0
		}
		if i = space(src, i); f == nil {
			i = skip(src, i, maxNesting)
		} else {
			expected = f.index + 1
			i = f.value(src, i, unsafe.Add(base, f.offset))
		}
		if i == 0 {
			return 0
		}
		var more bool
		if i, more = behind(src, i, '}'); !more {
			return i
		}
	}
}

// begins says whether the field's name and a colon stand at position i.
func (f *planField) begins(src []byte, i int) bool {
	n := len(f.member)
	if n <= 8 && i+8 <= len(src) {
		return binary.LittleEndian.Uint64(src[i:])&f.mask == f.word
	}
	return i+n <= len(src) && string(src[i:i+n]) == f.member
}

// member reads a name and its colon and returns the field, nil if there is
// none, and the position behind the colon.
func (p *plan) member(src []byte, i int) (*planField, int) {
	if i >= len(src) || src[i] != '"' {
		return nil, 0
	}
	end, plain := scanText(src, i+1)
	if end == 0 || !plain {
		return nil, 0
	}
	f, ok := p.find(src[i+1 : end])
	if i = space(src, end+1); !ok || i >= len(src) || src[i] != ':' {
		return nil, 0
	}
	return f, i + 1
}

// value reads the value of a field.
func (f *planField) value(src []byte, i int, at unsafe.Pointer) int {
	if i >= len(src) {
		return 0
	}
	switch c := src[i]; {
	case c == 'n':
		return literal(src, i, "null")
	case f.kind == reflect.String:
		if c != '"' {
			return 0
		}
		end, plain := scanText(src, i+1)
		if end == 0 || !plain && !utf8.Valid(src[i+1:end]) {
			return 0
		}
		*(*string)(at) = unsafe.String(unsafe.SliceData(src[i+1:]), end-i-1)
		return end + 1
	case f.kind == reflect.Bool:
		*(*bool)(at) = c == 't'
		if c == 't' {
			return literal(src, i, "true")
		}
		return literal(src, i, "false")
	case f.kind == reflect.Struct:
		return f.nested.object(src, i, at)
	case f.kind == reflect.Float32 || f.kind == reflect.Float64:
		return f.float(src, i, at)
	}
	return f.integer(src, i, at)
}

// integer reads up to 18 digits.
func (f *planField) integer(src []byte, i int, at unsafe.Pointer) int {
	negative := src[i] == '-'
	if negative {
		i++
	}
	n, end := digits(src, i)
	if end == i || end-i > 18 || src[i] == '0' && end-i > 1 || end < len(src) && (src[end] == '.' || src[end]|0x20 == 'e') {
		return 0
	}
	if f.kind >= reflect.Uint {
		if negative {
			return 0
		}
		return storeUint(f.kind, n, at, end)
	}
	v := int64(n)
	if negative {
		v = -v
	}
	return storeInt(f.kind, v, at, end)
}

func storeInt(kind reflect.Kind, v int64, at unsafe.Pointer, end int) int {
	switch {
	case kind == reflect.Int64:
		*(*int64)(at) = v
	case kind == reflect.Int && int64(int(v)) == v:
		*(*int)(at) = int(v)
	case kind == reflect.Int32 && int64(int32(v)) == v:
		*(*int32)(at) = int32(v)
	case kind == reflect.Int16 && int64(int16(v)) == v:
		*(*int16)(at) = int16(v)
	case kind == reflect.Int8 && int64(int8(v)) == v:
		*(*int8)(at) = int8(v)
	default:
		return 0
	}
	return end
}

func storeUint(kind reflect.Kind, v uint64, at unsafe.Pointer, end int) int {
	switch {
	case kind == reflect.Uint64:
		*(*uint64)(at) = v
	case kind == reflect.Uint && uint64(uint(v)) == v:
		*(*uint)(at) = uint(v)
	case kind == reflect.Uint32 && uint64(uint32(v)) == v:
		*(*uint32)(at) = uint32(v)
	case kind == reflect.Uint16 && uint64(uint16(v)) == v:
		*(*uint16)(at) = uint16(v)
	case kind == reflect.Uint8 && uint64(uint8(v)) == v:
		*(*uint8)(at) = uint8(v)
	default:
		return 0
	}
	return end
}

func (f *planField) float(src []byte, i int, at unsafe.Pointer) int {
	end := number(src, i)
	if end == 0 {
		return 0
	}
	s := unsafe.String(&src[i], end-i)
	if f.kind == reflect.Float32 {
		v, err := strconv.ParseFloat(s, 32)
		if err != nil {
			return 0
		}
		*(*float32)(at) = float32(v)
		return end
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	*(*float64)(at) = v
	return end
}

// space returns the position of the first byte that is no white space.
func space(src []byte, i int) int {
	for i < len(src) && src[i] <= ' ' && (src[i] == ' ' || src[i] == '\n' || src[i] == '\r' || src[i] == '\t') {
		i++
	}
	return i
}

func literal(src []byte, i int, want string) int {
	if end := i + len(want); end <= len(src) && string(src[i:end]) == want {
		return end
	}
	return 0
}

const (
	everyByte = 0x0101010101010101
	highBits  = 0x8080808080808080
)

// oddBytes has the high bit set in the first byte of w, from its low end, that
// is no plain character of a string: the quote, a backslash, control
// characters, what is not ASCII. Above that byte the bits mean nothing.
func oddBytes(w uint64) uint64 {
	return (zeros(w^'"'*everyByte) | zeros(w^'\\'*everyByte) | (w - ' '*everyByte) | w) & highBits
}

// zeros has the high bit set in the first zero byte of w; also in bytes above
// 0x80, and perhaps in those behind the first.
func zeros(w uint64) uint64 { return w - everyByte }

// scanText returns the position of the quote that ends the string whose characters
// begin at i, and whether all are ASCII; 0 with escapes and control
// characters.
func scanText(src []byte, i int) (end int, plain bool) {
	plain = true
	for i+8 <= len(src) {
		odd := oddBytes(binary.LittleEndian.Uint64(src[i:]))
		if odd == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(odd) >> 3
		switch c := src[i]; {
		case c == '"':
			return i, plain
		case c < utf8.RuneSelf:
			return 0, false
		}
		plain = false
		i++
	}
	for ; i < len(src); i++ {
		switch c := src[i]; {
		case c == '"':
			return i, plain
		case c == '\\', c < ' ':
			return 0, false
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	return 0, false
}

// digits reads digits and returns their value, which is wrong for more than 18
// of them, and the position behind them.
func digits(src []byte, i int) (uint64, int) {
	n := uint64(0)
	for i+8 <= len(src) {
		w := binary.LittleEndian.Uint64(src[i:]) ^ '0'*everyByte
		if (w+0x76*everyByte|w)&highBits != 0 {
			break
		}
		// Neighbours are joined to pairs, those to fours, those to one number.
		w = w*10 + w>>8
		w = (w&0x000000ff000000ff*(100+1_000_000<<32) + w>>16&0x000000ff000000ff*(1+10_000<<32)) >> 32
		n = n*100_000_000 + w
		i += 8
	}
	for ; i < len(src) && src[i]-'0' <= 9; i++ {
		n = n*10 + uint64(src[i]-'0')
	}
	return n, i
}
