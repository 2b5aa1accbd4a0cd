package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/weirstream/weir/internal/storage"
)

// FileReader reads a data file. It may be used from several goroutines.
type FileReader struct {
	blobs  storage.Blobs
	name   string
	want   File
	groups []groupIndex
	// changes tells that the file completes others.
	changes bool
	// ahead is what lies from aheadAt on, read together.
	ahead   []byte
	aheadAt int64
}

// OpenFile reads header and footer of the data file at name, of which size and
// checksum are known from _metadata (want.Name is not looked at).
func OpenFile(ctx context.Context, blobs storage.Blobs, name string, want File) (*FileReader, error) {
	f := &FileReader{blobs: blobs, name: name, want: want}
	if err := f.open(ctx); err != nil {
		return nil, f.wrap(err)
	}
	return f, nil
}

func (f *FileReader) wrap(err error) error {
	return fmt.Errorf("snapshot file %s in %s: %w", f.name, f.blobs, err)
}

// read reads a range that the file must have.
func (f *FileReader) read(ctx context.Context, off, n int64) ([]byte, error) {
	if at := off - f.aheadAt; at >= 0 && n >= 0 && at+n <= int64(len(f.ahead)) {
		return f.ahead[at : at+n : at+n], nil
	}
	b, err := f.blobs.GetRange(ctx, f.name, off, n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: %w", ErrTruncated, err)
	}
	return b, err
}

func (f *FileReader) open(ctx context.Context) error {
	if f.want.Size < fileHeaderSize+trailerSize {
		return malformed("_metadata gives its size as %d, less than an empty file has", f.want.Size)
	}
	head, err := f.read(ctx, 0, fileHeaderSize)
	if err != nil {
		return err
	}
	if err := checkFileHeader(head); err != nil {
		return err
	}
	f.changes = binary.LittleEndian.Uint32(head[8:]) == changesVersion
	// One read gets the footer of most files.
	guess := min(f.want.Size, 64<<10)
	tail, err := f.read(ctx, f.want.Size-guess, guess)
	if err != nil {
		return err
	}
	n, err := footerSize(tail[len(tail)-trailerSize:], f.want.Size)
	if err != nil {
		return err
	}
	n += trailerSize
	if n > guess {
		if tail, err = f.read(ctx, f.want.Size-n, n); err != nil {
			return err
		}
	}
	f.groups, err = decodeFooter(tail[int64(len(tail))-n:], f.want.Size)
	return err
}

func checkFileHeader(head []byte) error {
	if string(head[:len(fileMagic)]) != fileMagic {
		return fmt.Errorf("%w, or damaged: it does not begin as a data file does", ErrNotSnapshot)
	}
	if checksum(head[:12]) != binary.LittleEndian.Uint32(head[12:]) {
		return fmt.Errorf("%w in the header", ErrChecksum)
	}
	return checkVersion(uint64(binary.LittleEndian.Uint32(head[8:])), Version)
}

// Groups returns the key groups in the file, ascending.
func (f *FileReader) Groups() []int {
	groups := make([]int, len(f.groups))
	for i, g := range f.groups {
		groups[i] = g.group
	}
	return groups
}

// Operators returns the ids of the operators that have state in the file,
// sorted.
func (f *FileReader) Operators() []string {
	var ids []string
	for _, g := range f.groups {
		for _, p := range g.parts {
			ids = append(ids, p.operator)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (f *FileReader) find(g int) (groupIndex, error) {
	i, ok := slices.BinarySearchFunc(f.groups, g, func(x groupIndex, g int) int { return x.group - g })
	if !ok {
		return groupIndex{}, f.wrap(fmt.Errorf("it does not hold key group %d", g))
	}
	return f.groups[i], nil
}

// ReadGroup reads a key group whole and verifies every checksum in it.
func (f *FileReader) ReadGroup(ctx context.Context, g int) (*GroupReader, error) {
	index, err := f.find(g)
	if err != nil {
		return nil, err
	}
	payload, err := f.read(ctx, index.offset, index.length)
	if err != nil {
		return nil, f.wrap(err)
	}
	r, err := ReadPayload(payload)
	if err == nil && r.Group != g {
		err = malformed("the payload is of key group %d", r.Group)
	}
	if err != nil {
		return nil, f.wrap(fmt.Errorf("key group %d: %w", g, err))
	}
	return r, nil
}

// ReadOperator reads the sections of one operator in a key group, and no
// others. An operator that has none there gives a reader at its end.
func (f *FileReader) ReadOperator(ctx context.Context, g int, operator string) (*GroupReader, error) {
	index, err := f.find(g)
	if err != nil {
		return nil, err
	}
	r := &GroupReader{Group: g}
	for i, p := range index.parts {
		if p.operator != operator {
			continue
		}
		at := index.partRange(i)
		chunks, err := f.read(ctx, at.off, at.end-at.off)
		if err != nil {
			return nil, f.wrap(err)
		}
		raw, err := readChunks(chunks)
		if err != nil {
			return nil, f.wrap(fmt.Errorf("key group %d, operator %s: %w", g, operator, err))
		}
		r.sections.src = append(r.sections.src, raw...)
	}
	return r, nil
}

// Verify reads the whole file and compares its size and checksum with those in
// _metadata.
func (f *FileReader) Verify(ctx context.Context) error {
	return VerifyFile(ctx, f.blobs, f.name, f.want, func(int64) {})
}

// VerifyFile is FileReader.Verify of a file that need not be a data file. read
// is told of the bytes that it reads.
func VerifyFile(ctx context.Context, blobs storage.Blobs, name string, want File, read func(n int64)) error {
	f := &FileReader{blobs: blobs, name: name, want: want}
	size, crc := f.want.Size, uint32(0)
	for off := int64(0); off < size; {
		n := min(size-off, 4<<20)
		b, err := f.read(ctx, off, n)
		if err != nil {
			return f.wrap(err)
		}
		crc = crc32.Update(crc, castagnoli, b)
		off += n
		read(n)
	}
	if crc != f.want.CRC {
		return f.wrap(fmt.Errorf("%w: CRC32C %08x, _metadata says %08x", ErrChecksum, crc, f.want.CRC))
	}
	if _, err := f.blobs.GetRange(ctx, f.name, size, 1); err == nil {
		return f.wrap(malformed("it is longer than the %d bytes that _metadata says", size))
	}
	return nil
}

// GroupReader iterates over the sections of a key group.
type GroupReader struct {
	// Group is the key group.
	Group    int
	sections parser
	// merged are the sections of a Chain.
	merged []mergedSection
}

// ReadPayload decodes the payload of a key group and verifies every checksum
// in it. payload is not kept.
func ReadPayload(payload []byte) (*GroupReader, error) {
	if len(payload) < groupHeaderSize+endMarkerSize {
		return nil, fmt.Errorf("%w: a payload of %d bytes", ErrTruncated, len(payload))
	}
	group, err := checkGroupHeader(payload[:groupHeaderSize])
	if err != nil {
		return nil, err
	}
	body, end := payload[:len(payload)-endMarkerSize], payload[len(payload)-endMarkerSize:]
	rawTotal, err := checkEndMarker(end, len(body))
	if err != nil {
		return nil, err
	}
	raw, err := readChunks(body[groupHeaderSize:])
	if err != nil {
		return nil, err
	}
	if uint64(len(raw)) != rawTotal {
		return nil, malformed("the chunks have %d bytes, the end marker says %d", len(raw), rawTotal)
	}
	return &GroupReader{Group: group, sections: parser{src: raw}}, nil
}

func checkGroupHeader(head []byte) (group int, err error) {
	if string(head[:len(groupMagic)]) != groupMagic {
		return 0, fmt.Errorf("%w, or damaged: it does not begin as a payload does", ErrNotSnapshot)
	}
	if checksum(head[:12]) != binary.LittleEndian.Uint32(head[12:]) {
		return 0, fmt.Errorf("%w in the header of the payload", ErrChecksum)
	}
	return int(binary.LittleEndian.Uint32(head[8:])), checkVersion(uint64(binary.LittleEndian.Uint32(head[4:])), Version)
}

func checkEndMarker(end []byte, before int) (rawTotal uint64, err error) {
	if end[0] != endMarker {
		return 0, fmt.Errorf("%w or damaged: the payload has no end marker", ErrTruncated)
	}
	if checksum(end[:17]) != binary.LittleEndian.Uint32(end[17:]) {
		return 0, fmt.Errorf("%w in the end marker of the payload", ErrChecksum)
	}
	if n := binary.LittleEndian.Uint64(end[9:]); n != uint64(before) {
		return 0, fmt.Errorf("%w: the payload has %d bytes, its end marker says %d", ErrTruncated, before, n)
	}
	return binary.LittleEndian.Uint64(end[1:]), nil
}

// chunk is one chunk as it is stored.
type chunk struct {
	how     Compression
	rawSize int
	stored  []byte
}

// readChunks verifies all chunks in src, then decompresses them into one slice.
func readChunks(src []byte) ([]byte, error) {
	var chunks []chunk
	total := 0
	for i := 0; len(src) > 0; i++ {
		c, rest, err := nextChunk(src)
		if err != nil {
			return nil, fmt.Errorf("chunk %d: %w", i, err)
		}
		chunks = append(chunks, c)
		total += c.rawSize
		src = rest
	}
	raw := make([]byte, 0, total)
	var zr *zstd.Decoder
	for i, c := range chunks {
		var err error
		if c.how == Zstd && zr == nil {
			if zr, err = newZstdReader(); err != nil {
				return nil, err
			}
			defer zr.Close()
		}
		if raw, err = c.appendTo(raw, zr); err != nil {
			return nil, fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	return raw, nil
}

func newZstdReader() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxChunk))
}

func nextChunk(src []byte) (c chunk, rest []byte, err error) {
	if len(src) < chunkHeaderSize {
		return c, nil, fmt.Errorf("%w in its header", ErrTruncated)
	}
	head := src[:chunkHeaderSize]
	raw, n := binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint32(head[5:])
	if int64(n) > int64(len(src)-chunkHeaderSize) {
		return c, nil, fmt.Errorf("%w or damaged: %d bytes should follow, there are %d", ErrTruncated, n, len(src)-chunkHeaderSize)
	}
	c = chunk{how: Compression(head[0]), rawSize: int(raw), stored: src[chunkHeaderSize : chunkHeaderSize+n]}
	if checksum(head[:9], c.stored) != binary.LittleEndian.Uint32(head[9:]) {
		return c, nil, ErrChecksum
	}
	if raw > maxChunk {
		return c, nil, malformed("%d bytes are more than a chunk may have", raw)
	}
	return c, src[chunkHeaderSize+n:], nil
}

// appendTo decompresses the chunk to the end of dst, which has room for it.
func (c chunk) appendTo(dst []byte, zr *zstd.Decoder) ([]byte, error) {
	at := len(dst)
	into := dst[at : at+c.rawSize]
	var got []byte
	var err error
	switch c.how {
	case None:
		got = c.stored
	case S2:
		if n, lenErr := s2.DecodedLen(c.stored); lenErr != nil || n != c.rawSize {
			return nil, malformed("s2 data of %d bytes, not %d: %v", n, c.rawSize, lenErr)
		}
		got, err = s2.Decode(into, c.stored)
	case Zstd:
		got, err = zr.DecodeAll(c.stored, into[:0:len(into)])
	default:
		return nil, malformed("unknown compression %d", c.how)
	}
	if err != nil {
		return nil, malformed("decompress: %v", err)
	}
	if len(got) != c.rawSize {
		return nil, malformed("%d bytes, not %d as its header says", len(got), c.rawSize)
	}
	copy(into, got) // a no-op where it was decompressed in place
	return dst[:at+c.rawSize], nil
}

// Next returns the next section; io.EOF after the last one. data is not
// changed later and may be kept.
func (r *GroupReader) Next() (h SectionHeader, data []byte, err error) {
	if len(r.merged) > 0 {
		s := r.merged[0]
		r.merged = r.merged[1:]
		return s.head, s.data, nil
	}
	if r.sections.err == nil && len(r.sections.src) == 0 {
		return SectionHeader{}, nil, io.EOF
	}
	h, data = r.sections.section()
	if err := r.sections.err; err != nil {
		return SectionHeader{}, nil, fmt.Errorf("section: %w", err)
	}
	return h, data, nil
}
