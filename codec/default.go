package codec

import (
	"fmt"
	"reflect"
	"time"
)

// For returns the default codec of a type:
//
//   - bool, integers, floats, strings, []byte, arrays of bytes, and types
//     defined by these: the codec of that name, Int64 and so on;
//   - integer types that implement encoding.TextMarshaler and TextUnmarshaler:
//     their text, so that a value is stored by name and not by position, also
//     where it is part of another one;
//   - time.Time: Time;
//   - other types that implement TextMarshaler and TextUnmarshaler, or else
//     BinaryMarshaler and BinaryUnmarshaler, by value or pointer: that form;
//   - structs, and slices, arrays, maps and pointers: Avro with a schema
//     inferred from the type, or JSON where Avro has no such type, as for maps
//     with integer keys (see Avro). Where that is JSON a tag with an alias or a
//     default is refused: it would have no effect.
//
// A type is refused if part of its values would be lost: struct fields that
// are not exported, interfaces, channels, functions. A field tagged avro:"-" is
// left out on purpose. Give such types a codec of their own.
func For[T any]() (Codec[T], error) {
	t := reflect.TypeFor[T]()
	if t == reflect.TypeFor[time.Time]() {
		return any(Time()).(Codec[T]), nil
	}
	if c := scalarFor[T](t); c != nil {
		return c, nil
	}
	switch {
	case isTextual(t):
		return textual[T]{}, nil
	case isBinary(t):
		return binaryForm[T]{}, nil
	}
	shape, err := inspect(t)
	if err != nil {
		return nil, err
	}
	switch {
	case shape.needsJSON != "" && shape.rule != "":
		return nil, fmt.Errorf("no default codec for %s: %s, which Avro alone obeys, and it is stored as JSON: %s; "+
			"keep the name of a member by a tag like json:\"Old\", or give it a codec of its own", t, shape.rule, shape.needsJSON)
	case shape.needsJSON != "":
		return JSON[T](), nil
	}
	return Avro[T]()
}

// scalarFor returns the codec of a type that is one value or a string of
// bytes, nil for others.
func scalarFor[T any](t reflect.Type) Codec[T] {
	switch t.Kind() {
	case reflect.Bool:
		return boolean[T]{}
	case reflect.Float32:
		return word32[T]{"float32"}
	case reflect.Float64:
		return word64[T]{"float64"}
	case reflect.String:
		return text[T]{}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && !isTextual(t.Elem()) {
			return blob[T]{}
		}
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Len() > 0 && !isTextual(t.Elem()) {
			return array[T]{}
		}
	}
	return integerFor[T](t)
}

func integerFor[T any](t reflect.Type) Codec[T] {
	var c Codec[T]
	switch t.Kind() {
	case reflect.Int:
		c = machineInt[T]{}
	case reflect.Int8:
		c = word8[T]{"int8"}
	case reflect.Int16:
		c = word16[T]{"int16"}
	case reflect.Int32:
		c = word32[T]{"int32"}
	case reflect.Int64:
		c = word64[T]{"int64"}
	case reflect.Uint:
		c = machineUint[T]{}
	case reflect.Uint8:
		c = word8[T]{"uint8"}
	case reflect.Uint16:
		c = word16[T]{"uint16"}
	case reflect.Uint32:
		c = word32[T]{"uint32"}
	case reflect.Uint64:
		c = word64[T]{"uint64"}
	default:
		return nil
	}
	if isTextual(t) {
		return textual[T]{}
	}
	return c
}
