package codec

import (
	stdjson "encoding/json"
	"errors"
	"fmt"

	"github.com/goccy/go-json"
)

// JSON encodes values as encoding/json does, and reads what it reads: struct
// tags, marshalers, unknown and repeated members (the last one counts), null,
// invalid UTF-8 (replaced by U+FFFD) and all. It is faster; docs/adr/0003-json.md
// says how this was found out.
//
// JSON does not keep everything that a Go value may hold: fields that are not
// exported, members of interfaces, bytes of strings that are not UTF-8.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

type jsonCodec[T any] struct{}

func (jsonCodec[T]) Format() Format { return Format{ID: "json", Version: 1} }

func (jsonCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	b, err := json.Marshal(&v)
	if err != nil {
		return dst, fmt.Errorf("encode json: %w", err)
	}
	return append(dst, b...), nil
}

func (jsonCodec[T]) Decode(src []byte) (T, error) {
	var v T
	if err := json.Unmarshal(src, &v); err != nil {
		var zero T
		return zero, jsonError[T](src, err)
	}
	return v, nil
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
