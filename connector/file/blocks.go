package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// blockBytes is how much is read at once.
	blockBytes = 128 << 10
	// defaultMaxLine is the longest line.
	defaultMaxLine = 16 << 20
)

// blocks cuts a part into blocks of whole lines.
type blocks struct {
	part  *Part
	file  io.ReadCloser
	buf   []byte
	limit int // of a line, in bytes

	to     int64 // lines that begin here are another part's
	line   int   // where in buf the lines begin that no block had
	filled int   // how far buf is filled
	at     int64 // the offset of buf[line]
	atEOF  bool
}

// openBlocks goes to the first line of the part. A line belongs to the part in
// which it begins.
func openBlocks(p *Part, size, limit int) (*blocks, error) {
	b := &blocks{part: p, buf: make([]byte, size), limit: limit, at: p.Next, to: p.To}
	seeking := p.Next == Begin && p.From > 0
	if p.Next == Begin {
		b.at = p.From
	}
	if seeking {
		b.at-- // a line begins here if the byte before ends one
	}
	var err error
	if b.file, err = p.Open(b.at); err != nil {
		return nil, err
	}
	switch {
	case seeking:
		err = b.skipLine()
	case b.at == 0:
		err = b.skipMark()
	}
	if err != nil {
		return nil, errors.Join(err, b.file.Close())
	}
	return b, nil
}

// skipLine goes behind the next end of a line.
func (b *blocks) skipLine() error {
	for {
		if i := bytes.IndexByte(b.buf[b.line:b.filled], '\n'); i >= 0 {
			b.line += i + 1
			b.at += int64(i) + 1
			return nil
		}
		b.at += int64(b.filled - b.line)
		b.line, b.filled = 0, 0
		if b.atEOF || b.at >= b.to { // none begins in this part
			return nil
		}
		if err := b.fill(); err != nil {
			return err
		}
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// skipMark skips a byte order mark.
func (b *blocks) skipMark() error {
	for b.filled < len(byteOrderMark) && !b.atEOF {
		if err := b.fill(); err != nil {
			return err
		}
	}
	if bytes.HasPrefix(b.buf[:b.filled], byteOrderMark) {
		b.line, b.at = len(byteOrderMark), int64(len(byteOrderMark))
		b.to = max(b.to, b.at+1) // the first line begins with its mark
	}
	return nil
}

// fill reads more, making room for it first.
func (b *blocks) fill() error {
	if b.line > 0 {
		b.filled = copy(b.buf, b.buf[b.line:b.filled])
		b.line = 0
	}
	if b.filled == len(b.buf) {
		larger := make([]byte, 2*len(b.buf))
		copy(larger, b.buf)
		b.buf = larger
	}
	for range 100 {
		n, err := b.file.Read(b.buf[b.filled:])
		b.filled += n
		if errors.Is(err, io.EOF) {
			b.atEOF = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("at offset %d: %w", b.at+int64(b.filled), err)
		}
		if n > 0 {
			return nil
		}
	}
	return io.ErrNoProgress
}

// next returns a block of whole lines, each with its end but perhaps the
// file's last, and the offset where it begins; io.EOF behind the part's last.
// The block is overwritten by the next call.
func (b *blocks) next() (block []byte, at int64, err error) {
	searched := 0
	for b.at < b.to {
		if i := bytes.LastIndexByte(b.buf[b.line+searched:b.filled], '\n'); i >= 0 {
			return b.take(searched + i + 1)
		}
		searched = b.filled - b.line
		switch {
		case searched > b.limit:
			return nil, 0, b.tooLong()
		case b.atEOF && searched > 0:
			return b.take(searched)
		case b.atEOF:
			return nil, 0, io.EOF
		}
		if err := b.fill(); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, io.EOF
}

func (b *blocks) take(n int) ([]byte, int64, error) {
	block, at := b.buf[b.line:b.line+n], b.at
	b.line += n
	b.at += int64(n)
	return block, at, nil
}

func (b *blocks) tooLong() error {
	return fmt.Errorf("the line at offset %d is longer than %d bytes; file.MaxLine raises the limit, if these are lines at all", b.at, b.limit)
}

func (b *blocks) close() error { return b.file.Close() }
