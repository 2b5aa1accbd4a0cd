package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// ParseText encodes a key that a person has written, in the format that a
// snapshot gives for keys: a string as it is, a number or bool as in Go, bytes in
// hexadecimal digits, and a struct or array as JSON: [1,"a"], with its parts in
// order, or {"N":1,"Name":"a"} where the format tells the names.
func ParseText(f Format, text string) ([]byte, error) {
	if f.ID == "string" && f.Version == 1 {
		return []byte(text), nil
	}
	l, err := parseLayout(f)
	if err != nil || f.Version != 1 {
		return nil, fmt.Errorf("keys of format %s cannot be given as text", f.Describe())
	}
	var v any = text
	if l.id == "struct" || l.id == "array" {
		d := json.NewDecoder(bytes.NewReader([]byte(text)))
		d.UseNumber()
		if err := d.Decode(&v); err != nil || d.More() {
			return nil, fmt.Errorf("write a key of format %s as a JSON array of its parts in order, such as [1,\"a\"]", f.ID)
		}
	}
	b, err := l.encode(nil, v)
	if err != nil {
		return nil, fmt.Errorf("not a key of format %s: %w", f.ID, err)
	}
	return b, nil
}

// partsOf are the parts of a struct or array in order: v is an array of them, or
// an object with the fields of a struct.
func (l *layout) partsOf(v any) ([]any, error) {
	if parts, ok := v.([]any); ok {
		return parts, nil
	}
	object, ok := v.(map[string]any)
	if !ok || l.id != "struct" {
		return nil, fmt.Errorf("%v is no array of parts", v)
	}
	if len(object) != len(l.fields) {
		return nil, fmt.Errorf("%d fields where there are %d", len(object), len(l.fields))
	}
	parts := make([]any, len(l.fields))
	for i, f := range l.fields {
		if parts[i], ok = object[f.name]; !ok {
			return nil, fmt.Errorf("there is no field %s", f.name)
		}
	}
	return parts, nil
}

// encode is the inverse of decode for values as JSON has them, and text.
func (l *layout) encode(dst []byte, v any) ([]byte, error) {
	switch l.id {
	case "struct", "array":
		parts, err := l.partsOf(v)
		if err != nil {
			return nil, err
		}
		forms := make([]*layout, len(l.fields))
		for i := range l.fields {
			forms[i] = l.fields[i].form
		}
		for range l.n {
			forms = append(forms, l.elem)
		}
		if len(parts) != len(forms) {
			return nil, fmt.Errorf("%d parts where there are %d", len(parts), len(forms))
		}
		for i := range parts {
			if dst, err = forms[i].encode(dst, parts[i]); err != nil {
				return nil, err
			}
		}
		return dst, nil
	case "string":
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%v is no string", v)
		}
		return append(binary.AppendUvarint(dst, uint64(len(s))), s...), nil
	}
	text := fmt.Sprint(v)
	if l.id == "bytes" {
		b, err := hex.DecodeString(text)
		if err == nil && len(b) != l.n {
			err = fmt.Errorf("%d bytes where there are %d", len(b), l.n)
		}
		return append(dst, b...), err
	}
	return encodeNumber(dst, l.id, text)
}

func encodeNumber(dst []byte, id, text string) ([]byte, error) {
	size := numberSize(id)
	var word uint64
	var err error
	switch id[0] {
	case 'b':
		var b bool
		if b, err = strconv.ParseBool(text); b {
			word = 1
		}
	case 'i':
		var n int64
		n, err = strconv.ParseInt(text, 10, 8*size)
		word = uint64(n)
	case 'u':
		word, err = strconv.ParseUint(text, 10, 8*size)
	case 'f':
		var f float64
		f, err = strconv.ParseFloat(text, 8*size)
		word = canonicalFloat(f, size)
	default:
		err = errors.New("complex numbers are no keys")
	}
	if err != nil {
		return nil, err
	}
	return append(dst, binary.LittleEndian.AppendUint64(nil, word)[:size]...), nil
}

// canonicalFloat is the form of keys: all NaN are one, and so are both zeros.
func canonicalFloat(f float64, size int) uint64 {
	switch {
	case f == 0:
		return 0
	case size == 4 && math.IsNaN(f):
		return 0x7FC00000
	case size == 4:
		return uint64(math.Float32bits(float32(f)))
	case math.IsNaN(f):
		return 0x7FF8000000000000
	}
	return math.Float64bits(f)
}
