package codec

import (
	"fmt"
	"reflect"
	"time"

	"github.com/twmb/avro"
)

// Avro encodes values in the binary form of Avro, without any frame, by a schema
// inferred from the type, which the format carries: so state that was stored
// for an older form of the type can be read (Resolve), fields may be added, left
// out, reordered and renamed, and snapshots be looked into without the program.
//
// Structs are records with the names of their fields or of their avro:"name"
// tags; pointers are unions with null. A nil slice or map decodes as an empty
// one. time.Time is a string of RFC 3339 with nanoseconds and offset, and time.Duration a
// long of nanoseconds, unless the field's tag names a logical type of Avro
// (avro:",timestamp-millis"), which then all time fields of the type must do.
// uint64 and uint are the long of the same bits.
//
// The error names the part of the type that Avro has no form for.
func Avro[T any]() (Codec[T], error) {
	t := reflect.TypeFor[T]()
	shape, err := inspect(t)
	if err != nil {
		return nil, err
	}
	if shape.needsJSON != "" {
		return nil, fmt.Errorf("no Avro schema for %s: %s", t, shape.needsJSON)
	}
	if shape.tagged != "" && shape.untagged != "" {
		return nil, fmt.Errorf("no Avro schema for %s: %s has a logical type in its tag and %s has none; give one to all time fields or to none",
			t, shape.tagged, shape.untagged)
	}
	options := customTypes(shape.tagged == "")
	c := avroCodec[T]{boxed: t.Kind() != reflect.Struct || isTextual(t) || t == timeType}
	if c.boxed {
		c.schema, err = avro.SchemaFor[box[T]](append(options, avro.WithName("value"))...)
	} else {
		c.schema, err = avro.SchemaFor[T](append(options, avro.WithName(recordName(t.Name())))...)
	}
	if err != nil {
		return nil, fmt.Errorf("no Avro schema for %s: %w", t, err)
	}
	c.format = Format{ID: "avro", Version: 1, Schema: c.schema.String()}
	return c, nil
}

// box makes a record of a type that is none; its encoding is that of the type.
type box[T any] struct {
	V T `avro:"value"`
}

type avroCodec[T any] struct {
	schema *avro.Schema
	format Format
	boxed  bool
}

func (c avroCodec[T]) Format() Format { return c.format }

func (c avroCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	var out []byte
	var err error
	if c.boxed {
		out, err = c.schema.AppendEncode(dst, &box[T]{v})
	} else {
		out, err = c.schema.AppendEncode(dst, &v)
	}
	if err != nil {
		return dst, fmt.Errorf("encode avro: %w", err)
	}
	return out, nil
}

func (c avroCodec[T]) Decode(src []byte) (T, error) {
	var v box[T]
	var rest []byte
	var err error
	if c.boxed {
		rest, err = c.schema.Decode(src, &v)
	} else {
		rest, err = c.schema.Decode(src, &v.V)
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes too many", len(rest))
	}
	if err != nil {
		var zero T
		return zero, &DecodeError{Format: "avro", Offset: len(src) - len(rest), Err: err}
	}
	return v.V, nil
}

// Logical types of ours, for Go types that would lose something in those of
// Avro.
const (
	logicalTime     = "go-time"
	logicalDuration = "go-duration"
	logicalUint64   = "go-uint64"
	logicalUint     = "go-uint"
)

func customTypes(times bool) []avro.SchemaOpt {
	options := []avro.SchemaOpt{
		custom(logicalUint64, func(v uint64) int64 { return int64(v) }, func(v int64) (uint64, error) { return uint64(v), nil }),
		custom(logicalUint, func(v uint) int64 { return int64(v) }, func(v int64) (uint, error) { return uint(v), nil }),
	}
	if times {
		options = append(options,
			custom(logicalDuration, func(v time.Duration) int64 { return int64(v) }, func(v int64) (time.Duration, error) { return time.Duration(v), nil }),
			avro.NewCustomType(logicalTime,
				func(v time.Time, _ *avro.SchemaNode) (string, error) {
					b, err := v.MarshalText()
					return string(b), err
				},
				func(s string, _ *avro.SchemaNode) (v time.Time, err error) {
					err = v.UnmarshalText([]byte(s))
					return v, err
				}))
	}
	return options
}

// custom stores G as a long.
func custom[G any](name string, encode func(G) int64, decode func(int64) (G, error)) avro.SchemaOpt {
	return avro.NewCustomType(name,
		func(v G, _ *avro.SchemaNode) (int64, error) { return encode(v), nil },
		func(v int64, _ *avro.SchemaNode) (G, error) { return decode(v) })
}
