package file

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compression is how a whole file is compressed. Files of several gzip
// members or zstd frames, one after the other, are read to their end.
type Compression int

const (
	// BySuffix takes .gz and .gzip for Gzip, .zst and .zstd for Zstd, everything
	// else for Uncompressed. It is the default.
	BySuffix Compression = iota
	// Uncompressed files are read as they are.
	Uncompressed
	// Gzip is RFC 1952.
	Gzip
	// Zstd is RFC 8878.
	Zstd
)

func (c Compression) String() string {
	return [...]string{"by suffix", "uncompressed", "gzip", "zstd"}[c]
}

// of returns the compression of a file.
func (c Compression) of(name string) Compression {
	if c != BySuffix {
		return c
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".gz", ".gzip":
		return Gzip
	case ".zst", ".zstd":
		return Zstd
	}
	return Uncompressed
}

// open decompresses a file from an offset of its content on. There is no way
// to the offset but through what lies before it.
func (c Compression) open(p *Part, offset int64) (io.ReadCloser, error) {
	f, err := p.storage.Open(p.ctx, p.Path, 0)
	if err != nil {
		return nil, err
	}
	d := &decompressed{compression: c, file: f}
	if err := d.begin(&expected{f, p.Size}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	n, err := io.CopyN(io.Discard, d, offset)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("it has %d bytes when decompressed, and is to be read from %d on: %w", n, offset, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// decompressed is the content of a compressed file.
type decompressed struct {
	compression Compression
	file        io.Closer
	content     io.Reader
	release     func()
}

// begin starts decompressing. An empty file is empty, compressed or not.
func (d *decompressed) begin(r io.Reader) error {
	stored := bufio.NewReaderSize(r, 64<<10)
	if _, err := stored.Peek(1); errors.Is(err, io.EOF) {
		d.content = stored
		return nil
	}
	switch d.compression {
	case Gzip:
		z, err := gzip.NewReader(stored)
		if err != nil {
			return d.wrap(err)
		}
		d.content = z
	default:
		// One at a time: without goroutines there are none to leave behind.
		z, err := zstd.NewReader(stored, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return d.wrap(err)
		}
		d.content, d.release = z, z.Close
	}
	return nil
}

// maxWindow is how far back zstd may look, and so the memory it may ask for:
// what the zstd program itself writes with --long at most by default.
const maxWindow = 128 << 20

func (d *decompressed) Read(b []byte) (int, error) {
	n, err := d.content.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = d.wrap(err)
	}
	return n, err
}

func (d *decompressed) wrap(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("unexpected end of compressed data (%s): the file was cut or is not complete yet: %w", d.compression, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("compressed data (%s): %w", d.compression, err)
}

func (d *decompressed) Close() error {
	if d.release != nil {
		d.release()
	}
	return d.file.Close()
}
