package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Record is a struct as Untyped decodes it: its fields in order. As JSON it is
// an object.
type Record []Field

// Field is a field of a Record.
type Field struct {
	Name  string
	Value any
}

// Get returns the value of a field, and false if there is none of that name.
func (r Record) Get(name string) (any, bool) {
	for _, f := range r {
		if f.Name == name {
			return f.Value, true
		}
	}
	return nil, false
}

// MarshalJSON implements json.Marshaler.
func (r Record) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(f.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(JSONValue(f.Value))
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// JSONValue is a value of Untyped as something that JSON has a form for:
// numbers that are infinite or not a number become text, complex numbers a
// pair, durations text.
func JSONValue(v any) any {
	switch v := v.(type) {
	case float32:
		return floatValue(float64(v), v)
	case float64:
		return floatValue(v, v)
	case complex128:
		return []any{floatValue(real(v), real(v)), floatValue(imag(v), imag(v))}
	case time.Duration:
		return v.String()
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = JSONValue(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = JSONValue(v[k])
		}
		return out
	}
	return v
}

func floatValue(f float64, as any) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprint(f)
	}
	return as
}

// Decoder decodes a value from exactly src. The value does not alias src.
type Decoder func(src []byte) (any, error)

// Untyped returns a decoder for what is stored in a format, for programs that
// do not have the Go type: of bool, numbers, string, []byte and time.Time as
// themselves, of structs as Record, of arrays and slices as []any, of maps as
// map[string]any, of JSON as json.RawMessage. ok is false for formats of
// codecs that are not of this package, and schemas that cannot be read.
func Untyped(f Format) (d Decoder, ok bool) {
	if f.Version != 1 {
		return nil, false
	}
	switch f.ID {
	case "string", "text":
		return func(src []byte) (any, error) { return string(src), nil }, true
	case "bytes", "binary", "fixed", "raw":
		return func(src []byte) (any, error) { return bytes.Clone(src), nil }, true
	case "time":
		return func(src []byte) (any, error) { return Time().Decode(src) }, true
	case "json":
		return func(src []byte) (any, error) {
			if !json.Valid(src) {
				return nil, &DecodeError{Format: "json", Err: fmt.Errorf("it is no JSON")}
			}
			return json.RawMessage(bytes.Clone(src)), nil
		}, true
	case "avro":
		return untypedAvro(f.Schema)
	}
	l, err := parseLayout(f)
	if err != nil {
		return nil, false
	}
	return l.decoder(), true
}

// FixedSize is the number of bytes of every value of a format, as far as that
// follows from its id and schema; 0 if they vary or it is not known.
func FixedSize(f Format) int {
	switch f.ID {
	case "time":
		return timeSize
	case "string", "text", "bytes", "binary", "json", "avro", "raw", "fixed":
		return f.Size
	}
	if l, err := parseLayout(f); err == nil && f.Version == 1 {
		if n, fixed := l.size(); fixed {
			return n
		}
	}
	return f.Size
}

// decodeNumber decodes a number or bool of exactly src.
func decodeNumber(id string, src []byte) (any, error) {
	switch id {
	case "bool":
		return Bool().Decode(src)
	case "int8":
		return Int8().Decode(src)
	case "int16":
		return Int16().Decode(src)
	case "int32":
		return Int32().Decode(src)
	case "int64":
		return Int64().Decode(src)
	case "uint8":
		return Uint8().Decode(src)
	case "uint16":
		return Uint16().Decode(src)
	case "uint32":
		return Uint32().Decode(src)
	case "uint64":
		return Uint64().Decode(src)
	case "float32":
		return Float32().Decode(src)
	case "float64":
		return Float64().Decode(src)
	case "complex64":
		if len(src) != 8 {
			return nil, wrongSize(id, len(src), 8)
		}
		part := func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }
		return complex(part(src), part(src[4:])), nil
	case "complex128":
		if len(src) != 16 {
			return nil, wrongSize(id, len(src), 16)
		}
		part := func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }
		return complex(part(src), part(src[8:])), nil
	}
	return nil, fmt.Errorf("no number is of format %q", id)
}

// numberSize is the number of bytes of a number, 0 if the id is none of one.
func numberSize(id string) int {
	switch id {
	case "bool", "int8", "uint8":
		return 1
	case "int16", "uint16":
		return 2
	case "int32", "uint32", "float32":
		return 4
	case "int64", "uint64", "float64", "complex64":
		return 8
	case "complex128":
		return 16
	}
	return 0
}
