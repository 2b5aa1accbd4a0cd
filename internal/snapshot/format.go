// Package snapshot is the stored form of snapshots: data files with keyed
// state, one payload per key group, and _metadata, which describes the whole.
// docs/format has both to the byte.
package snapshot

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/weirstream/weir/codec"
)

// WeirVersion is the version of Weir, written into every snapshot.
const WeirVersion = "0.1.0"

// Version is the newest version of the formats of data files and payloads. All
// but files of changes are written as version 1, which earlier releases read.
const Version = 2

// MetadataVersion is the newest version of the format of _metadata. What needs
// no more is written as version 1 or 2, which earlier releases read.
const MetadataVersion = 3

// Compression says how a writer compresses chunks. A chunk that does not
// shrink is stored as it is, whatever was asked for. The numbers are stored.
type Compression uint8

const (
	// None stores chunks as they are.
	None Compression = 0
	// S2 costs little CPU; for checkpoints.
	S2 Compression = 1
	// Zstd makes the smallest files; for savepoints.
	Zstd Compression = 2
)

const (
	fileMagic    = "WEIRDATA"
	trailerMagic = "WEIRFOOT"
	groupMagic   = "WGRP"

	fileHeaderSize  = 16
	trailerSize     = 20
	groupHeaderSize = 16
	chunkHeaderSize = 13
	endMarkerSize   = 21

	// maxChunk is the largest chunk before compression.
	maxChunk = 1 << 20
	// fastChunk is what writers cut to where they compress fast or not at
	// all: it stays in the processor's cache. Zstd gets maxChunk.
	fastChunk = 64 << 10
	// endMarker stands where the compression of a chunk would.
	endMarker = 0xFF

	flagTTL = 1

	// baseVersion is that of files that hold all state of their key groups,
	// changesVersion of those that complete other files.
	baseVersion    = 1
	changesVersion = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(parts ...[]byte) uint32 {
	var sum uint32
	for _, p := range parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return sum
}

// SectionHeader says what a section holds: one state of one operator, for one key
// group.
type SectionHeader struct {
	Operator  string
	KeyFormat codec.Format
	State     State
	// Count is the number of entries.
	Count int
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendFormat(dst []byte, f *codec.Format) []byte {
	dst = appendString(dst, f.ID)
	dst = binary.AppendUvarint(dst, uint64(f.Version))
	dst = appendString(dst, f.Schema)
	return binary.AppendUvarint(dst, uint64(f.Size))
}

func appendSectionHeader(dst []byte, operator string, key *codec.Format, st *State, count, size int) []byte {
	dst = appendString(dst, operator)
	dst = appendFormat(dst, key)
	dst = appendString(dst, st.Name)
	dst = appendString(dst, st.Kind)
	dst = appendFormat(dst, &st.Format)
	dst = appendFormat(dst, &st.Key)
	dst = appendString(dst, st.Detail)
	flags := byte(0)
	if st.TTL {
		flags |= flagTTL
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(count))
	return binary.AppendUvarint(dst, uint64(size))
}

// parser takes fields off a byte slice. The first failure sticks, and every
// later field is zero.
type parser struct {
	src []byte
	err error
}

func (p *parser) fail(what string) {
	if p.err == nil {
		p.err = malformed("%s", what)
	}
	p.src = nil
}

func (p *parser) uvarint() uint64 {
	v, n := binary.Uvarint(p.src)
	if n <= 0 {
		p.fail("a number is cut off")
		return 0
	}
	p.src = p.src[n:]
	return v
}

// number reads a uvarint that must fit into an int.
func (p *parser) number() int {
	v := p.uvarint()
	if v > math.MaxInt {
		p.fail(fmt.Sprintf("the number %d is too large", v))
		return 0
	}
	return int(v)
}

func (p *parser) byte() byte {
	b := p.bytes(1)
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

func (p *parser) bytes(n int) []byte {
	if n > len(p.src) {
		p.fail(fmt.Sprintf("%d bytes should follow, there are %d", n, len(p.src)))
		return nil
	}
	b := p.src[:n:n]
	p.src = p.src[n:]
	return b
}

func (p *parser) string() string { return string(p.bytes(p.number())) }

func (p *parser) format() codec.Format {
	return codec.Format{ID: p.string(), Version: p.number(), Schema: p.string(), Size: p.number()}
}

// section reads a section, header and data.
func (p *parser) section() (h SectionHeader, data []byte) {
	h, size := p.header()
	return h, p.bytes(size)
}

// header reads what precedes the data of a section, and their size.
func (p *parser) header() (h SectionHeader, size int) {
	h.Operator = p.string()
	h.KeyFormat = p.format()
	h.State.Name = p.string()
	h.State.Kind = p.string()
	h.State.Format = p.format()
	h.State.Key = p.format()
	h.State.Detail = p.string()
	flags := p.byte()
	if flags&^flagTTL != 0 {
		p.fail(fmt.Sprintf("unknown flags %#x", flags))
	}
	h.State.TTL = flags&flagTTL != 0
	h.Count = p.number()
	return h, p.number()
}

// output collects small writes into large ones and keeps length and checksum
// of all.
type output struct {
	w    io.Writer
	buf  []byte
	size int64 // written and buffered
	sum  uint32
	err  error
}

// flushAt is the number of buffered bytes from which on output writes.
const flushAt = 256 << 10

// add appends to the buffer; grown bytes count as written.
func (o *output) add(p ...byte) {
	o.buf = append(o.buf, p...)
	o.size += int64(len(p))
}

// flush writes what is buffered. After an error everything is dropped.
func (o *output) flush() {
	if o.err == nil && len(o.buf) > 0 {
		o.sum = crc32.Update(o.sum, castagnoli, o.buf)
		_, o.err = o.w.Write(o.buf)
	}
	o.buf = o.buf[:0]
}

func (o *output) flushIfLarge() {
	if len(o.buf) >= flushAt {
		o.flush()
	}
}
