// Package avro reads Avro object container files with package file.
package avro

import (
	"errors"
	"fmt"
	"io"
	"reflect"

	goavro "github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/connector/splitreader"
)

// maxBlock is how many bytes a block of a file may have, stored and
// decompressed.
const maxBlock = 64 << 20

// Format reads the objects of Avro object container files as values of T, a
// struct as a rule. Fields are matched by name, or by tag avro:"name", with
// those of the schema in the file: what the file has more is left out, and a
// field that the file does not have keeps its zero value. Values are converted
// as long as nothing is lost. Blocks may be compressed as null, deflate, snappy
// and zstandard.
//
// Large files are read in ranges. A value that cannot be decoded ends the
// reading: what follows it in its block cannot be found.
func Format[T any]() file.Format[T] { return format[T]{} }

type format[T any] struct{}

func (format[T]) Splittable() bool { return true }

func (format[T]) Open(p *file.Part) (file.RecordReader[T], error) {
	h, err := readHeader(p)
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nothing[T]{}, nil
	}
	r := &reader[T]{part: p, header: h}
	var whole bool
	if r.schema, whole, err = project(h.schema, reflect.TypeFor[T]()); err != nil {
		return nil, errors.Join(err, h.codec.Close())
	}
	if whole {
		r.opts = []goavro.Opt{goavro.SkipUnknown()}
	}
	if r.blocks, err = openBlocks(p, h); err != nil {
		return nil, errors.Join(err, h.codec.Close())
	}
	if p.Next != file.Begin {
		r.skip = p.Next
	}
	return r, nil
}

// nothing is what a file of no byte holds.
type nothing[T any] struct{}

func (nothing[T]) Read(*splitreader.Batch[T], int) error { return io.EOF }
func (nothing[T]) Close() error                          { return nil }

// reader reads the values of a part. A position is the offset of a block and
// the number of values read of it.
type reader[T any] struct {
	part   *file.Part
	header *header
	schema *goavro.Schema // of the file, for T
	opts   []goavro.Opt   // of decoding
	blocks *blocks
	skip   int64 // values of the first block that were read before

	values []byte // of the block at hand, those left
	at     int64  // where the block begins
	done   int64  // values read of it
	count  int64
}

func (r *reader[T]) Read(into *splitreader.Batch[T], n int) error {
	for r.done == r.count {
		if err := r.next(); err != nil {
			into.End, into.Epoch = 0, r.blocks.at
			return err
		}
	}
	for len(into.Vals) < n && r.done < r.count {
		var zero T
		into.Append(zero, connector.NoTimestamp, r.done+1)
		if err := r.decode(&into.Vals[len(into.Vals)-1]); err != nil {
			return fmt.Errorf("value %d of the block at offset %d: %w", r.done, r.at, err)
		}
	}
	into.End, into.Epoch = r.done, r.at
	return nil
}

// decode reads the next value.
func (r *reader[T]) decode(v *T) error {
	rest, err := r.schema.Decode(r.values, v, r.opts...)
	if err != nil {
		return err
	}
	r.values = rest
	if r.done++; r.done == r.count && len(rest) > 0 {
		return fmt.Errorf("%d bytes behind the last value", len(rest))
	}
	return nil
}

// next goes to the next block.
func (r *reader[T]) next() error {
	stored, count, err := r.blocks.next()
	if err != nil {
		return err
	}
	r.at, r.done, r.count = r.blocks.began, 0, count
	if r.values, err = r.header.decompress(stored); err != nil {
		return fmt.Errorf("block at offset %d: %w", r.at, err)
	}
	// Values of no byte are possible, but not any number of them.
	if count > int64(len(r.values))+4096 {
		return fmt.Errorf("block at offset %d: %d values in %d bytes", r.at, count, len(r.values))
	}
	skip := r.skip
	if r.skip = 0; skip > count {
		return fmt.Errorf("block at offset %d: it has %d values, and %d of them were read before", r.at, count, skip)
	}
	for r.done < skip {
		var v T
		if err := r.decode(&v); err != nil {
			return fmt.Errorf("value %d of the block at offset %d: %w", r.done, r.at, err)
		}
	}
	return nil
}

func (r *reader[T]) Close() error { return errors.Join(r.blocks.Close(), r.header.codec.Close()) }

// header is what stands at the beginning of a file.
type header struct {
	schema *goavro.Schema
	codec  ocf.Codec
	sync   [16]byte
	// end is the offset of the first block.
	end int64
}

func (h *header) decompress(stored []byte) ([]byte, error) {
	if b, ok := h.codec.(ocf.BoundedDecompressor); ok {
		return b.DecompressBounded(stored, maxBlock)
	}
	return h.codec.Decompress(stored)
}
