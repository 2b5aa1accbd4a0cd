package file

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/splitreader"
)

// LineOption changes formats whose records are lines.
type LineOption func(*lineConfig)

type lineConfig struct {
	limit int
	block int
}

// MaxLine is how many bytes a line may have; a longer one fails the job, for it
// is likely that the file does not consist of lines. Default 16 MiB.
func MaxLine(bytes int) LineOption {
	return func(c *lineConfig) { c.limit = max(1, bytes) }
}

func newLineConfig(opts []LineOption) lineConfig {
	c := lineConfig{limit: defaultMaxLine, block: blockBytes}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// Lines reads lines as strings, without their ends: LF or CR LF. The last line
// needs no end, an empty line is a record, and so a file of no byte has none. A
// byte order mark (UTF-8) is dropped.
//
// The strings of about 128 KiB lie in one block of memory: who keeps a line
// for long outside of Weir's state keeps its block, unless by strings.Clone.
func Lines(opts ...LineOption) Format[string] { return lines{newLineConfig(opts)} }

type lines struct{ config lineConfig }

func (lines) Splittable() bool { return true }

func (l lines) Open(p *Part) (RecordReader[string], error) {
	b, err := openBlocks(p, l.config.block, l.config.limit)
	if err != nil {
		return nil, err
	}
	return &lineReader{blocks: b}, nil
}

// lineReader makes one string of each block, and the lines of that.
type lineReader struct {
	blocks *blocks
	rest   string // of the block
	at     int64  // where rest begins
}

func (r *lineReader) Read(into *splitreader.Batch[string], n int) error {
	if r.rest == "" {
		block, at, err := r.blocks.next()
		if err != nil {
			into.End = r.blocks.at
			return err
		}
		r.rest, r.at = string(block), at
	}
	rest, at, to := r.rest, r.at, r.blocks.to
	for len(into.Vals) < n && rest != "" && at < to {
		line, size := rest, len(rest)
		if i := strings.IndexByte(rest, '\n'); i >= 0 {
			line, size = rest[:i], i+1
			if i > 0 && line[i-1] == '\r' {
				line = line[:i-1]
			}
		}
		if size > r.blocks.limit && len(line) > r.blocks.limit {
			r.blocks.at = at
			return r.blocks.tooLong()
		}
		rest, at = rest[size:], at+int64(size)
		into.Append(line, connector.NoTimestamp, at)
	}
	r.rest, r.at, into.End = rest, at, at
	if at >= to {
		return io.EOF
	}
	return nil
}

func (r *lineReader) Close() error { return r.blocks.close() }

// LinesOf reads a value of each line, by a codec. Empty lines, and those of
// blanks and tabs alone, are left out.
func LinesOf[T any](c codec.Codec[T], opts ...LineOption) Format[T] {
	return decodedLines[T]{newLineConfig(opts), c}
}

// JSONLines reads a JSON value of each line, as codec.JSON does.
func JSONLines[T any](opts ...LineOption) Format[T] { return LinesOf(codec.JSON[T](), opts...) }

type decodedLines[T any] struct {
	config lineConfig
	codec  codec.Codec[T]
}

func (decodedLines[T]) Splittable() bool { return true }

func (l decodedLines[T]) Open(p *Part) (RecordReader[T], error) {
	b, err := openBlocks(p, l.config.block, l.config.limit)
	if err != nil {
		return nil, err
	}
	r := &decodedReader[T]{blocks: b, codec: l.codec}
	r.many, _ = l.codec.(codec.BatchDecoder[T])
	return r, nil
}

// decodedReader decodes the lines of each block where they lie.
type decodedReader[T any] struct {
	blocks *blocks
	codec  codec.Codec[T]
	many   codec.BatchDecoder[T] // nil if the codec is none
	rest   []byte
	at     int64
	lines  [][]byte // of a batch
	spans  []span   // ... and where they lie
}

// span is where a line begins and where the next one does.
type span struct{ begin, end int64 }

func (r *decodedReader[T]) Read(into *splitreader.Batch[T], n int) error {
	if len(r.rest) == 0 {
		block, at, err := r.blocks.next()
		if err != nil {
			into.End = r.blocks.at
			return err
		}
		r.rest, r.at = block, at
	}
	if err := r.collect(n); err != nil {
		return err
	}
	done, err := r.decodeAll(into)
	if err == nil && !done {
		err = r.decodeEach(into)
	}
	if err != nil {
		return err
	}
	into.End = r.at
	if r.at >= r.blocks.to {
		return io.EOF
	}
	return nil
}

// collect takes up to n lines that hold something from the block.
func (r *decodedReader[T]) collect(n int) error {
	r.lines, r.spans = r.lines[:0], r.spans[:0]
	for len(r.lines) < n && len(r.rest) > 0 && r.at < r.blocks.to {
		line, size := r.rest, len(r.rest)
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line, size = line[:i], i+1
			if i > 0 && line[i-1] == '\r' {
				line = line[:i-1]
			}
		}
		if len(line) > r.blocks.limit {
			r.blocks.at = r.at
			return r.blocks.tooLong()
		}
		if len(bytes.Trim(line, " \t\r")) > 0 {
			r.lines = append(r.lines, line)
			r.spans = append(r.spans, span{r.at, r.at + int64(size)})
		}
		r.rest, r.at = r.rest[size:], r.at+int64(size)
	}
	return nil
}

// decodeAll decodes the lines at once, and says whether that was possible.
func (r *decodedReader[T]) decodeAll(into *splitreader.Batch[T]) (bool, error) {
	if r.many == nil {
		return false, nil
	}
	ok, err := splitreader.DecodeTogether(r.many, into, r.lines, r.blocks.part.warning)
	if !ok {
		return false, err
	}
	for _, s := range r.spans {
		into.Times = append(into.Times, connector.NoTimestamp)
		into.Ends = append(into.Ends, s.end)
	}
	return true, nil
}

// decodeEach decodes the lines one by one.
func (r *decodedReader[T]) decodeEach(into *splitreader.Batch[T]) error {
	for i, line := range r.lines {
		v, err := decodeGuarded(r.codec, line)
		if err != nil {
			if err := r.blocks.part.Undecodable(r.spans[i].begin, line, err); err != nil {
				return err
			}
			continue
		}
		into.Append(v, connector.NoTimestamp, r.spans[i].end)
	}
	return nil
}

// decodeGuarded turns a panic of the codec into an error: a record must not
// end the job where it is to be skipped.
func decodeGuarded[T any](c codec.Codec[T], src []byte) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the codec panicked: %v", p)
		}
	}()
	return c.Decode(src)
}

func (r *decodedReader[T]) Close() error { return r.blocks.close() }
