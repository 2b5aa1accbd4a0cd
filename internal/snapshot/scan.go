package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// scanAhead is how many stored bytes a Scanner reads at a time.
const scanAhead = 256 << 10

// Scanner reads the sections of one operator in a key group a chunk at a time:
// it takes memory for two chunks and the largest item, however many there are.
// Checksums are verified on the way. It is not safe for concurrent use; Close
// ends it.
type Scanner struct {
	ctx  context.Context
	file *FileReader // nil if all is in raw
	what string
	// ranges are what is left of the file to read, stored what was read of them.
	ranges []byteRange
	stored []byte
	// raw is what is decompressed and not taken yet.
	raw  []byte
	at   int
	zstd *zstd.Decoder
	// left are the bytes of the section that are not taken yet.
	left int
	// total counts what was decompressed.
	total uint64
	err   error
}

type byteRange struct{ off, end int64 }

// Scan returns a scanner of the sections of one operator in a key group, and no
// others. An operator that has none there, or a group that is not in the file,
// gives one at its end.
func (f *FileReader) Scan(ctx context.Context, g int, operator string) *Scanner {
	s := &Scanner{ctx: ctx, file: f, what: fmt.Sprintf("key group %d, operator %s", g, operator)}
	index, err := f.find(g)
	if err != nil {
		return s
	}
	for i, p := range index.parts {
		if p.operator == operator {
			s.ranges = append(s.ranges, index.partRange(i))
		}
	}
	return s
}

// partRange is where the i-th part of a payload lies in the file.
func (g groupIndex) partRange(i int) byteRange {
	end := g.length - endMarkerSize
	if i+1 < len(g.parts) {
		end = g.parts[i+1].offset
	}
	return byteRange{g.offset + g.parts[i].offset, g.offset + end}
}

// Next goes to the next section, over what is left of this one; io.EOF after
// the last one.
func (s *Scanner) Next() (SectionHeader, error) {
	h, _, err := s.NextSized()
	return h, err
}

// NextSized is Next with the bytes of the section's entries.
func (s *Scanner) NextSized() (h SectionHeader, size int, err error) {
	if err := s.skip(); err != nil {
		return h, 0, err
	}
	if s.at == len(s.raw) {
		if err := s.more(); err != nil {
			return h, 0, err // io.EOF: the end of a section is a good end
		}
	}
	for {
		p := &parser{src: s.raw[s.at:]}
		h, s.left = p.header()
		if p.err == nil {
			s.at = len(s.raw) - len(p.src)
			return h, s.left, nil
		}
		if err := s.more(); errors.Is(err, io.EOF) {
			return h, 0, s.fail(fmt.Errorf("section: %w", p.err))
		} else if err != nil {
			return h, 0, err
		}
	}
}

// Item takes the next item off the section, of the given size as in the
// function Item; io.EOF at the end of the section. It is good until the next
// call.
func (s *Scanner) Item(size int) ([]byte, error) {
	if s.err != nil {
		return nil, s.err
	}
	if s.left == 0 {
		return nil, io.EOF
	}
	n := uint64(size)
	if size <= 0 {
		if err := s.need(min(s.left, binary.MaxVarintLen64)); err != nil {
			return nil, err
		}
		length, k := binary.Uvarint(s.raw[s.at:min(len(s.raw), s.at+s.left)])
		if k <= 0 {
			return nil, s.fail(fmt.Errorf("%w: %w: its length is cut off or too large", ErrMalformed, errItem))
		}
		s.at, s.left, n = s.at+k, s.left-k, length
	}
	if n > uint64(s.left) {
		return nil, s.fail(fmt.Errorf("%w: %w: %d bytes long, but the section has only %d more", ErrMalformed, errItem, n, s.left))
	}
	if err := s.need(int(n)); err != nil {
		return nil, err
	}
	item := s.raw[s.at : s.at+int(n) : s.at+int(n)]
	s.at, s.left = s.at+int(n), s.left-int(n)
	return item, nil
}

// Left is the number of bytes of the section that are not taken yet.
func (s *Scanner) Left() int { return s.left }

// Close frees what the scanner holds.
func (s *Scanner) Close() {
	if s.zstd != nil {
		s.zstd.Close()
	}
	s.zstd, s.raw, s.stored, s.ranges, s.at, s.left = nil, nil, nil, nil, 0, 0
	if s.err == nil {
		s.err = errors.New("snapshot: the scanner is closed")
	}
}

func (s *Scanner) fail(err error) error {
	if s.err == nil {
		s.err = fmt.Errorf("%s: %w", s.what, err)
		if s.file != nil {
			s.err = s.file.wrap(s.err)
		}
	}
	return s.err
}

// skip drops what is left of the section.
func (s *Scanner) skip() error {
	for s.err == nil && s.left > 0 {
		n := min(s.left, len(s.raw)-s.at)
		s.at, s.left = s.at+n, s.left-n
		if s.left == 0 {
			break
		}
		if dropped, err := s.drop(); err != nil {
			return err
		} else if dropped {
			continue
		}
		if err := s.more(); errors.Is(err, io.EOF) {
			return s.cut(s.left)
		} else if err != nil {
			return err
		}
	}
	return s.err
}

// drop goes over a chunk that lies in the rest of the section as a whole,
// without looking into it.
func (s *Scanner) drop() (bool, error) {
	if len(s.stored) == 0 && len(s.ranges) == 0 {
		return false, nil
	}
	if err := s.read(chunkHeaderSize); err != nil {
		return false, s.fail(err)
	}
	raw, n := int64(binary.LittleEndian.Uint32(s.stored[1:])), chunkHeaderSize+int64(binary.LittleEndian.Uint32(s.stored[5:]))
	if raw > int64(s.left) {
		return false, nil
	}
	if have := int64(len(s.stored)); have < n {
		if len(s.ranges) == 0 || s.ranges[0].end-s.ranges[0].off < n-have {
			return false, nil // more says what is wrong
		}
		if s.ranges[0].off += n - have; s.ranges[0].off == s.ranges[0].end {
			s.ranges = s.ranges[1:]
		}
		n = have
	}
	s.stored, s.left, s.total = s.stored[n:], s.left-int(raw), s.total+uint64(raw)
	return true, nil
}

// Total is the number of decompressed bytes that were gone over so far.
func (s *Scanner) Total() uint64 { return s.total }

func (s *Scanner) cut(missing int) error {
	return s.fail(malformed("a section has %d bytes less than its header says", missing))
}

// need makes n bytes at hand.
func (s *Scanner) need(n int) error {
	for len(s.raw)-s.at < n {
		if err := s.more(); errors.Is(err, io.EOF) {
			return s.cut(n - len(s.raw) + s.at)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// more decompresses one more chunk behind what is not taken; io.EOF if there
// is none.
func (s *Scanner) more() error {
	if s.err != nil {
		return s.err
	}
	if len(s.stored) == 0 && len(s.ranges) == 0 {
		return io.EOF
	}
	if s.at > 0 {
		s.raw = s.raw[:copy(s.raw, s.raw[s.at:])]
		s.at = 0
	}
	c, err := s.chunk()
	if err != nil {
		return s.fail(err)
	}
	if c.how == Zstd && s.zstd == nil {
		if s.zstd, err = newZstdReader(); err != nil {
			return s.fail(err)
		}
	}
	if need := len(s.raw) + c.rawSize; need > cap(s.raw) {
		s.raw = append(make([]byte, 0, max(need, 2*len(s.raw))), s.raw...)
	}
	if s.raw, err = c.appendTo(s.raw, s.zstd); err != nil {
		return s.fail(err)
	}
	s.total += uint64(c.rawSize)
	return nil
}

// chunk takes the next stored chunk.
func (s *Scanner) chunk() (chunk, error) {
	if err := s.read(chunkHeaderSize); err != nil {
		return chunk{}, err
	}
	n := int64(binary.LittleEndian.Uint32(s.stored[5:]))
	if err := s.read(chunkHeaderSize + n); err != nil {
		return chunk{}, err
	}
	c, rest, err := nextChunk(s.stored)
	s.stored = rest
	return c, err
}

// read makes n stored bytes at hand. Chunks do not go beyond their range.
func (s *Scanner) read(n int64) error {
	have := int64(len(s.stored))
	if have >= n {
		return nil
	}
	var left int64
	if len(s.ranges) > 0 {
		left = s.ranges[0].end - s.ranges[0].off
	}
	if have+left < n {
		return fmt.Errorf("%w or damaged: %d bytes should follow, there are %d", ErrTruncated, n, have+left)
	}
	r := &s.ranges[0]
	b, err := s.file.read(s.ctx, r.off, min(max(n-have, scanAhead), left))
	if err != nil {
		return err
	}
	// What lies behind the last chunk of a range belongs to no other.
	if r.off += int64(len(b)); r.off == r.end {
		s.ranges = s.ranges[1:]
	}
	s.stored = append(append(make([]byte, 0, int64(len(b))+have), s.stored...), b...)
	return nil
}

// CheckGroup verifies what is around the sections of a key group, and returns
// how many bytes they should have in all, and the operators that have some.
func (f *FileReader) CheckGroup(ctx context.Context, g int) (total uint64, operators []string, err error) {
	index, err := f.find(g)
	if err != nil {
		return 0, nil, err
	}
	for _, p := range index.parts {
		operators = append(operators, p.operator)
	}
	if len(index.parts) == 0 && index.length != groupHeaderSize+endMarkerSize {
		return 0, nil, f.wrap(malformed("key group %d has bytes, and no operator that they belong to", g))
	}
	head, err := f.read(ctx, index.offset, groupHeaderSize)
	if err != nil {
		return 0, nil, f.wrap(err)
	}
	group, err := checkGroupHeader(head)
	if err == nil && group != g {
		err = malformed("the payload is of key group %d", group)
	}
	if err != nil {
		return 0, operators, f.wrap(fmt.Errorf("key group %d: %w", g, err))
	}
	end, err := f.read(ctx, index.offset+index.length-endMarkerSize, endMarkerSize)
	if err != nil {
		return 0, operators, f.wrap(err)
	}
	if total, err = checkEndMarker(end, int(index.length-endMarkerSize)); err != nil {
		return 0, operators, f.wrap(fmt.Errorf("key group %d: %w", g, err))
	}
	return total, operators, nil
}

// Held is the number of bytes that the scanner holds.
func (s *Scanner) Held() int { return cap(s.raw) + cap(s.stored) }
