package codec

import (
	"encoding/binary"
	stdjson "encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// write appends the value at base. It returns false if it has no JSON form.
func (p *plan) write(dst []byte, base unsafe.Pointer) ([]byte, bool) {
	dst = append(dst, '{')
	more := false
	for n := range p.fields {
		f := &p.fields[n]
		at := unsafe.Add(base, f.offset)
		if f.omitEmpty && f.empty(at) {
			continue
		}
		if more {
			dst = append(dst, ',')
		}
		more = true
		var ok bool
		if dst, ok = f.write(append(dst, f.member...), at); !ok {
			return dst, false
		}
	}
	return append(dst, '}'), true
}

// empty is what omitempty means: structs never are.
func (f *planField) empty(at unsafe.Pointer) bool {
	switch f.kind {
	case reflect.String:
		return *(*string)(at) == ""
	case reflect.Bool:
		return !*(*bool)(at)
	case reflect.Float32:
		return *(*float32)(at) == 0
	case reflect.Float64:
		return *(*float64)(at) == 0
	case reflect.Struct:
		return false
	}
	if f.kind >= reflect.Uint {
		return loadUint(f.kind, at) == 0
	}
	return loadInt(f.kind, at) == 0
}

func (f *planField) write(dst []byte, at unsafe.Pointer) ([]byte, bool) {
	switch f.kind {
	case reflect.String:
		return appendText(dst, *(*string)(at)), true
	case reflect.Bool:
		return strconv.AppendBool(dst, *(*bool)(at)), true
	case reflect.Float32:
		return appendFloat(dst, float64(*(*float32)(at)), 32)
	case reflect.Float64:
		return appendFloat(dst, *(*float64)(at), 64)
	case reflect.Struct:
		return f.nested.write(dst, at)
	}
	if f.kind >= reflect.Uint {
		return strconv.AppendUint(dst, loadUint(f.kind, at), 10), true
	}
	return strconv.AppendInt(dst, loadInt(f.kind, at), 10), true
}

func loadInt(kind reflect.Kind, at unsafe.Pointer) int64 {
	switch kind {
	case reflect.Int8:
		return int64(*(*int8)(at))
	case reflect.Int16:
		return int64(*(*int16)(at))
	case reflect.Int32:
		return int64(*(*int32)(at))
	case reflect.Int:
		return int64(*(*int)(at))
	}
	return *(*int64)(at)
}

func loadUint(kind reflect.Kind, at unsafe.Pointer) uint64 {
	switch kind {
	case reflect.Uint8:
		return uint64(*(*uint8)(at))
	case reflect.Uint16:
		return uint64(*(*uint16)(at))
	case reflect.Uint32:
		return uint64(*(*uint32)(at))
	case reflect.Uint:
		return uint64(*(*uint)(at))
	}
	return *(*uint64)(at)
}

// appendText appends a string in quotes.
func appendText(dst []byte, s string) []byte {
	if !verbatim(s) {
		b, err := stdjson.Marshal(s)
		if err != nil {
			panic(err) // a string always has a form
		}
		return append(dst, b...)
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// verbatim says whether a string is written as it is: encoding/json escapes
// what means something in JSON, HTML or JavaScript.
func verbatim(s string) bool {
	i, plain := 0, true
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		html := (zeros(w^'<'*everyByte) | zeros(w^'>'*everyByte) | zeros(w^'&'*everyByte)) & highBits
		if oddBytes(w)|html != 0 {
			break
		}
	}
	for _, c := range b[i:] {
		switch {
		case c < ' ', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	return plain || utf8.ValidString(s) && !strings.Contains(s, "\u2028") && !strings.Contains(s, "\u2029")
}

// appendFloat appends a number as encoding/json does: with an exponent only
// where it is very large or very small.
func appendFloat(dst []byte, v float64, size int) ([]byte, bool) {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return dst, false
	}
	form := byte('f')
	abs := math.Abs(v)
	if abs != 0 && (size == 64 && (abs < 1e-6 || abs >= 1e21) || size == 32 && (float32(abs) < 1e-6 || float32(abs) >= 1e21)) {
		form = 'e'
	}
	dst = strconv.AppendFloat(dst, v, form, -1, size)
	if n := len(dst); form == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // one digit of exponent where one will do
		dst = dst[:n-1]
	}
	return dst, true
}
