// Package codec turns values into bytes and back.
//
// A codec has a format id, a version and, where the bytes do not describe
// themselves, a schema; a snapshot stores all three, so that a restore can
// tell whether it understands what was written.
package codec

// Codec encodes and decodes values of T. Implementations are stateless and
// safe for concurrent use.
type Codec[T any] interface {
	// Append appends the encoding of v to dst and returns the extended slice.
	Append(dst []byte, v T) ([]byte, error)
	// Decode decodes a value from exactly src. The value does not alias src.
	Decode(src []byte) (T, error)
	// Format identifies the encoding.
	Format() Format
}

// Format identifies an encoding in snapshots.
type Format struct {
	// ID names the encoding: "int64", "string", "json", "avro".
	ID string `json:"id"`
	// Version counts incompatible changes of the encoding, from 1.
	Version int `json:"version"`
	// Schema describes the encoded form where ID and Version alone do not,
	// for example an Avro schema; empty otherwise.
	Schema string `json:"schema,omitempty"`
	// Size is the number of bytes of every encoded value, 0 if it varies.
	Size int `json:"size,omitempty"`
}

// BatchDecoder is a codec that decodes many values for less than one by one.
type BatchDecoder[T any] interface {
	Codec[T]
	// DecodeBatch appends the values that each of srcs encodes to dst. It
	// decodes all or none: with an error it returns dst as it was, and Decode
	// tells which of srcs is at fault. The values do not alias srcs, but their
	// strings may lie together in one block of memory: who keeps one of them
	// for long keeps all, and had better keep a copy (strings.Clone). Keyed
	// state copies what is put into it.
	DecodeBatch(dst []T, srcs [][]byte) ([]T, error)
}
