package codec

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/goccy/go-json"
)

// JSON encodes values as encoding/json does, and reads what it reads: struct
// tags, marshalers, unknown and repeated members (the last one counts), null,
// invalid UTF-8 (replaced by U+FFFD) and all. It is faster, most of all with
// structs of numbers, booleans, strings and such structs; docs/adr/0003-json.md
// says how this was found out.
//
// Append encodes a pointer to the value: MarshalJSON and MarshalText run with
// pointer receivers, too, except in the keys and values of maps and in what
// interfaces hold.
//
// JSON does not keep everything that a Go value may hold: fields that are not
// exported, members of interfaces, bytes of strings that are not UTF-8.
//
// It is a BatchDecoder.
func JSON[T any]() Codec[T] {
	t := reflect.TypeFor[T]()
	p := planFor(t)
	return jsonCodec[T]{plan: p, standard: p == nil && needsStandard(reflect.PointerTo(t))}
}

type jsonCodec[T any] struct {
	plan     *plan // nil: the library, or
	standard bool  // encoding/json
}

func (jsonCodec[T]) Format() Format { return Format{ID: "json", Version: 1} }

func (c jsonCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	if c.plan != nil {
		if b, ok := c.plan.write(dst, unsafe.Pointer(&v)); ok {
			return b, nil
		}
	}
	return c.appendWhole(dst, v)
}

// appendWhole encodes without a plan.
func (c jsonCodec[T]) appendWhole(dst []byte, v T) ([]byte, error) {
	marshal := json.Marshal
	if c.standard {
		marshal = stdjson.Marshal
	}
	b, err := marshal(&v)
	if err != nil {
		return dst, fmt.Errorf("encode json: %w", err)
	}
	return append(dst, b...), nil
}

func (c jsonCodec[T]) Decode(src []byte) (T, error) {
	if c.plan != nil {
		var v T
		if c.plan.read(src, unsafe.Pointer(&v)) {
			c.plan.own(unsafe.Pointer(&v), 1, 0)
			return v, nil
		}
	}
	return c.decodeWhole(src)
}

// decodeWhole decodes without a plan.
func (c jsonCodec[T]) decodeWhole(src []byte) (T, error) {
	var v T
	var err error
	if c.standard {
		err = stdjson.Unmarshal(src, &v)
	} else {
		err = json.Unmarshal(src, &v)
	}
	if err != nil {
		var zero T
		return zero, jsonError[T](src, err)
	}
	return v, nil
}

func (c jsonCodec[T]) DecodeBatch(dst []T, srcs [][]byte) ([]T, error) {
	first := len(dst)
	dst = slices.Grow(dst, len(srcs))
	for _, src := range srcs {
		var zero T
		dst = append(dst, zero)
		v := &dst[len(dst)-1]
		if c.plan != nil && c.plan.read(src, unsafe.Pointer(v)) {
			continue
		}
		var err error
		if *v, err = c.decodeWhole(src); err != nil {
			clear(dst[first:])
			return dst[:first], err
		}
	}
	if c.plan != nil && len(srcs) > 0 {
		c.plan.own(unsafe.Pointer(&dst[first]), len(srcs), unsafe.Sizeof(dst[first]))
	}
	return dst, nil
}

// jsonError decodes once more with encoding/json, whose errors have exact
// positions. Failures are rare.
func jsonError[T any](src []byte, err error) error {
	var v T
	if std := stdjson.Unmarshal(src, &v); std != nil {
		err = std
	}
	var syntax *stdjson.SyntaxError
	var typ *stdjson.UnmarshalTypeError
	offset := len(src)
	if errors.As(err, &syntax) {
		offset = int(syntax.Offset)
	} else if errors.As(err, &typ) {
		offset = int(typ.Offset)
	}
	return &DecodeError{Format: "json", Offset: offset, Err: err}
}
