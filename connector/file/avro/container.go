package avro

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	goavro "github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/weirstream/weir/connector/file"
)

var magic = []byte("Obj\x01")

// maxHeader is how many bytes one value of a header may have.
const maxHeader = 16 << 20

// readHeader reads the header of a file, nil if the file has no byte at all.
func readHeader(p *file.Part) (*header, error) {
	f, err := p.Open(0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := &counted{r: bufio.NewReader(f)}
	start := make([]byte, len(magic))
	switch n, err := io.ReadFull(in, start); {
	case n == 0 && errors.Is(err, io.EOF):
		return nil, nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, err
	case !bytes.Equal(start, magic):
		return nil, fmt.Errorf("it is not an Avro object container file: it begins with %q", start[:n])
	}
	h, err := parseHeader(in)
	if err != nil {
		return nil, fmt.Errorf("header of the Avro file: %w", cutShort(err))
	}
	return h, nil
}

func parseHeader(in *counted) (*header, error) {
	meta, err := parseMeta(in)
	if err != nil {
		return nil, err
	}
	h := &header{}
	if _, err := io.ReadFull(in, h.sync[:]); err != nil {
		return nil, err
	}
	h.end = in.n
	if h.schema, err = goavro.Parse(string(meta["avro.schema"])); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	switch name := string(meta["avro.codec"]); name {
	case "", "null":
		h.codec = null{}
	case "deflate":
		h.codec = ocf.DeflateCodec(flate.DefaultCompression)
	case "snappy":
		h.codec = ocf.SnappyCodec()
	case "zstandard":
		if h.codec, err = ocf.ZstdCodec(nil, nil); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("its blocks are compressed by %q, which is not known here", name)
	}
	return h, nil
}

// parseMeta reads a map of bytes.
func parseMeta(in *counted) (map[string][]byte, error) {
	meta := map[string][]byte{}
	for {
		n, err := in.long()
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return meta, nil
		}
		if n < 0 { // the size in bytes follows
			if _, err := in.long(); err != nil {
				return nil, err
			}
			n = -n
		}
		for ; n > 0; n-- {
			key, err := in.bytes()
			if err != nil {
				return nil, err
			}
			if meta[string(key)], err = in.bytes(); err != nil {
				return nil, err
			}
		}
		if in.n > 2*maxHeader {
			return nil, fmt.Errorf("more than %d bytes", in.n)
		}
	}
}

// null does not compress.
type null struct{}

func (null) Name() string                          { return "null" }
func (null) Compress(src []byte) ([]byte, error)   { return src, nil }
func (null) Decompress(src []byte) ([]byte, error) { return src, nil }
func (null) Close() error                          { return nil }

// counted counts what is read.
type counted struct {
	r *bufio.Reader
	n int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

func (c *counted) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

func (c *counted) long() (int64, error) { return binary.ReadVarint(c) }

func (c *counted) bytes() ([]byte, error) {
	n, err := c.long()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > maxHeader {
		return nil, fmt.Errorf("a value of %d bytes", n)
	}
	return c.take(nil, n)
}

// take reads n bytes over buf. Memory is taken as bytes come: a length may be
// a lie.
func (c *counted) take(buf []byte, n int64) ([]byte, error) {
	const step = 1 << 20
	buf = buf[:0]
	for int64(len(buf)) < n {
		more := int(min(n-int64(len(buf)), step))
		from := len(buf)
		if cap(buf)-from >= more {
			buf = buf[:from+more]
		} else {
			buf = append(buf, make([]byte, more)...)
		}
		if _, err := io.ReadFull(c, buf[from:]); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// cutShort makes an end where more must come an unexpected one.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// blocks reads the blocks of a part. A block belongs to the part in which the
// marker before it begins.
type blocks struct {
	sync  [16]byte
	to    int64
	file  io.ReadCloser
	in    *counted
	base  int64 // of what in counts
	buf   []byte
	began int64 // where the block at hand begins
	at    int64 // ... and the next
}

func openBlocks(p *file.Part, h *header) (*blocks, error) {
	b := &blocks{sync: h.sync, to: p.To}
	b.at = h.end
	seeking := p.Next == file.Begin && p.From > h.end-int64(len(h.sync))
	switch {
	case p.Next != file.Begin:
		b.at = p.Block
	case seeking:
		b.at = p.From
	}
	var err error
	if b.file, err = p.Open(b.at); err != nil {
		return nil, err
	}
	b.base, b.in = b.at, &counted{r: bufio.NewReaderSize(b.file, 256<<10)}
	if seeking {
		if err := b.seek(); err != nil {
			return nil, errors.Join(err, b.file.Close())
		}
	}
	return b, nil
}

// seek goes behind the next marker, if one begins in the part.
func (b *blocks) seek() error {
	for b.at < b.to {
		ahead, err := b.in.r.Peek(b.in.r.Size())
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		i := bytes.Index(ahead, b.sync[:])
		switch {
		case i >= 0 && b.at+int64(i) < b.to:
			return b.discard(i + len(b.sync))
		case i >= 0 || end:
			b.at = b.to + int64(len(b.sync))
			return nil
		}
		if err := b.discard(len(ahead) - len(b.sync) + 1); err != nil { // a marker may begin in the rest
			return err
		}
	}
	b.at = b.to + int64(len(b.sync))
	return nil
}

func (b *blocks) discard(n int) error {
	_, err := b.in.r.Discard(n)
	b.in.n += int64(n)
	b.at += int64(n)
	return err
}

// next returns the next block that holds something, as it is stored, and how
// many values it has. The block is overwritten by the next call.
func (b *blocks) next() (stored []byte, count int64, err error) {
	for count == 0 {
		if b.at-int64(len(b.sync)) >= b.to {
			return nil, 0, io.EOF
		}
		b.began = b.at
		if count, err = b.in.long(); errors.Is(err, io.EOF) && b.base+b.in.n == b.began {
			return nil, 0, io.EOF
		}
		if err == nil {
			stored, err = b.data()
		}
		if err == nil && count < 0 {
			err = fmt.Errorf("%d values", count)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("block at offset %d: %w", b.began, cutShort(err))
		}
		b.at = b.base + b.in.n
	}
	return stored, count, nil
}

// data reads the bytes of a block and the marker behind them.
func (b *blocks) data() ([]byte, error) {
	size, err := b.in.long()
	if err != nil {
		return nil, err
	}
	if size < 0 || size > maxBlock {
		return nil, fmt.Errorf("it has %d bytes, and may have %d", size, maxBlock)
	}
	if b.buf, err = b.in.take(b.buf, size); err != nil {
		return nil, err
	}
	var sync [16]byte
	if _, err := io.ReadFull(b.in, sync[:]); err != nil {
		return nil, err
	}
	if sync != b.sync {
		return nil, errors.New("no marker stands behind it: the file is damaged")
	}
	return b.buf, nil
}

func (b *blocks) Close() error { return b.file.Close() }
