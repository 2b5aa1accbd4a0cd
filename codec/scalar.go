package codec

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// Bool encodes as one byte, 0 or 1.
func Bool() Codec[bool] { return boolean[bool]{} }

// Int encodes as eight bytes, little endian, as Int64 does.
func Int() Codec[int] { return machineInt[int]{} }

// Int8 encodes as one byte.
func Int8() Codec[int8] { return word8[int8]{"int8"} }

// Int16 encodes as two bytes, little endian.
func Int16() Codec[int16] { return word16[int16]{"int16"} }

// Int32 encodes as four bytes, little endian.
func Int32() Codec[int32] { return word32[int32]{"int32"} }

// Int64 encodes as eight bytes, little endian.
func Int64() Codec[int64] { return word64[int64]{"int64"} }

// Uint encodes as eight bytes, little endian, as Uint64 does.
func Uint() Codec[uint] { return machineUint[uint]{} }

// Uint8 encodes as one byte.
func Uint8() Codec[uint8] { return word8[uint8]{"uint8"} }

// Uint16 encodes as two bytes, little endian.
func Uint16() Codec[uint16] { return word16[uint16]{"uint16"} }

// Uint32 encodes as four bytes, little endian.
func Uint32() Codec[uint32] { return word32[uint32]{"uint32"} }

// Uint64 encodes as eight bytes, little endian.
func Uint64() Codec[uint64] { return word64[uint64]{"uint64"} }

// Float32 encodes the IEEE 754 bits as four bytes, little endian. All bits are
// kept, those of a NaN included.
func Float32() Codec[float32] { return word32[float32]{"float32"} }

// Float64 encodes the IEEE 754 bits as eight bytes, little endian. All bits
// are kept, those of a NaN included.
func Float64() Codec[float64] { return word64[float64]{"float64"} }

// String encodes the bytes of the string as they are, valid UTF-8 or not.
func String() Codec[string] { return text[string]{} }

// Bytes encodes the bytes as they are. A nil slice decodes as an empty one.
func Bytes() Codec[[]byte] { return blob[[]byte]{} }

// The codecs below serve a predeclared type and all types defined by it: T
// must have the memory form that the name says, which their constructors and
// For see to.

func fixedFormat(id string, size int) Format { return Format{ID: id, Version: 1, Size: size} }

// as reads v as another type of the same memory form.
func as[To, From any](v From) To { return *(*To)(unsafe.Pointer(&v)) }

type boolean[T any] struct{}

func (boolean[T]) Format() Format { return fixedFormat("bool", 1) }

func (boolean[T]) Append(dst []byte, v T) ([]byte, error) {
	if as[bool](v) {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

func (boolean[T]) Decode(src []byte) (v T, err error) {
	if len(src) != 1 {
		return v, wrongSize("bool", len(src), 1)
	}
	if src[0] > 1 {
		return v, &DecodeError{Format: "bool", Err: fmt.Errorf("%#x is neither 0 nor 1", src[0])}
	}
	return as[T](src[0] == 1), nil
}

type word8[T any] struct{ id string }

func (c word8[T]) Format() Format { return fixedFormat(c.id, 1) }

func (c word8[T]) Append(dst []byte, v T) ([]byte, error) { return append(dst, as[uint8](v)), nil }

func (c word8[T]) Decode(src []byte) (v T, err error) {
	if len(src) != 1 {
		return v, wrongSize(c.id, len(src), 1)
	}
	return as[T](src[0]), nil
}

type word16[T any] struct{ id string }

func (c word16[T]) Format() Format { return fixedFormat(c.id, 2) }

func (c word16[T]) Append(dst []byte, v T) ([]byte, error) {
	return binary.LittleEndian.AppendUint16(dst, as[uint16](v)), nil
}

func (c word16[T]) Decode(src []byte) (v T, err error) {
	if len(src) != 2 {
		return v, wrongSize(c.id, len(src), 2)
	}
	return as[T](binary.LittleEndian.Uint16(src)), nil
}

type word32[T any] struct{ id string }

func (c word32[T]) Format() Format { return fixedFormat(c.id, 4) }

func (c word32[T]) Append(dst []byte, v T) ([]byte, error) {
	return binary.LittleEndian.AppendUint32(dst, as[uint32](v)), nil
}

func (c word32[T]) Decode(src []byte) (v T, err error) {
	if len(src) != 4 {
		return v, wrongSize(c.id, len(src), 4)
	}
	return as[T](binary.LittleEndian.Uint32(src)), nil
}

type word64[T any] struct{ id string }

func (c word64[T]) Format() Format { return fixedFormat(c.id, 8) }

func (c word64[T]) Append(dst []byte, v T) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(dst, as[uint64](v)), nil
}

func (c word64[T]) Decode(src []byte) (v T, err error) {
	if len(src) != 8 {
		return v, wrongSize(c.id, len(src), 8)
	}
	return as[T](binary.LittleEndian.Uint64(src)), nil
}

// machineInt stores an int, which may be 32 bits wide, as an int64.
type machineInt[T any] struct{}

func (machineInt[T]) Format() Format { return fixedFormat("int64", 8) }

func (machineInt[T]) Append(dst []byte, v T) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(dst, uint64(as[int](v))), nil
}

func (machineInt[T]) Decode(src []byte) (v T, err error) {
	if len(src) != 8 {
		return v, wrongSize("int64", len(src), 8)
	}
	wide := int64(binary.LittleEndian.Uint64(src))
	if int64(int(wide)) != wide {
		return v, &DecodeError{Format: "int64", Err: fmt.Errorf("%d does not fit into an int of this machine", wide)}
	}
	return as[T](int(wide)), nil
}

// machineUint stores a uint, which may be 32 bits wide, as a uint64.
type machineUint[T any] struct{}

func (machineUint[T]) Format() Format { return fixedFormat("uint64", 8) }

func (machineUint[T]) Append(dst []byte, v T) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(dst, uint64(as[uint](v))), nil
}

func (machineUint[T]) Decode(src []byte) (v T, err error) {
	if len(src) != 8 {
		return v, wrongSize("uint64", len(src), 8)
	}
	wide := binary.LittleEndian.Uint64(src)
	if uint64(uint(wide)) != wide {
		return v, &DecodeError{Format: "uint64", Err: fmt.Errorf("%d does not fit into a uint of this machine", wide)}
	}
	return as[T](uint(wide)), nil
}

type text[T any] struct{}

func (text[T]) Format() Format { return Format{ID: "string", Version: 1} }

func (text[T]) Append(dst []byte, v T) ([]byte, error) { return append(dst, as[string](v)...), nil }

func (text[T]) Decode(src []byte) (T, error) { return as[T](string(src)), nil }

type blob[T any] struct{}

func (blob[T]) Format() Format { return Format{ID: "bytes", Version: 1} }

func (blob[T]) Append(dst []byte, v T) ([]byte, error) { return append(dst, as[[]byte](v)...), nil }

func (blob[T]) Decode(src []byte) (T, error) { return as[T](append([]byte{}, src...)), nil }

// array serves arrays of bytes.
type array[T any] struct{}

func (array[T]) size() int {
	var v T
	return int(unsafe.Sizeof(v))
}

func (c array[T]) Format() Format { return fixedFormat("fixed", c.size()) }

func (c array[T]) Append(dst []byte, v T) ([]byte, error) {
	return append(dst, unsafe.Slice((*byte)(unsafe.Pointer(&v)), c.size())...), nil
}

func (c array[T]) Decode(src []byte) (v T, err error) {
	if len(src) != c.size() {
		return v, wrongSize("fixed", len(src), c.size())
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), c.size()), src)
	return v, nil
}
