package codec

import (
	"encoding"
	"fmt"
	"reflect"
)

// textual serves types that implement encoding.TextMarshaler and, by pointer,
// encoding.TextUnmarshaler.
type textual[T any] struct{}

func (textual[T]) Format() Format { return Format{ID: "text", Version: 1} }

func (textual[T]) Append(dst []byte, v T) ([]byte, error) {
	if a, ok := any(&v).(encoding.TextAppender); ok {
		return a.AppendText(dst)
	}
	b, err := any(&v).(encoding.TextMarshaler).MarshalText()
	return append(dst, b...), err
}

func (textual[T]) Decode(src []byte) (v T, err error) {
	if err := any(&v).(encoding.TextUnmarshaler).UnmarshalText(src); err != nil {
		var zero T
		return zero, &DecodeError{Format: "text", Offset: len(src), Err: fmt.Errorf("%T: %w", v, err)}
	}
	return v, nil
}

// binaryForm serves types that implement encoding.BinaryMarshaler and, by
// pointer, encoding.BinaryUnmarshaler.
type binaryForm[T any] struct{}

func (binaryForm[T]) Format() Format { return Format{ID: "binary", Version: 1} }

func (binaryForm[T]) Append(dst []byte, v T) ([]byte, error) {
	b, err := any(&v).(encoding.BinaryMarshaler).MarshalBinary()
	return append(dst, b...), err
}

func (binaryForm[T]) Decode(src []byte) (v T, err error) {
	if err := any(&v).(encoding.BinaryUnmarshaler).UnmarshalBinary(src); err != nil {
		var zero T
		return zero, &DecodeError{Format: "binary", Offset: len(src), Err: fmt.Errorf("%T: %w", v, err)}
	}
	return v, nil
}

// isTextual reports whether *t marshals to text and back.
func isTextual(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) &&
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// isBinary reports whether *t marshals to bytes and back.
func isBinary(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.BinaryMarshaler]()) &&
		p.Implements(reflect.TypeFor[encoding.BinaryUnmarshaler]())
}
