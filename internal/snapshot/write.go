package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/weirstream/weir/codec"
)

// buffers is what a writer needs besides its own fields. They are reused: a
// first touch of their pages would cost more than the encoding.
type buffers struct {
	raw, out []byte
	zstd     *zstd.Encoder
}

var bufferPool = sync.Pool{New: func() any { return new(buffers) }}

// GroupWriter writes the payload of one key group: see NewGroupWriter.
// FileWriter writes a file of them. It is not safe for concurrent use.
type GroupWriter struct {
	out         *output
	version     uint32
	compression Compression
	mem         *buffers
	raw         []byte // the chunk under way
	start       int64  // of the payload in out
	rawTotal    uint64
	operator    string
	parts       []part
	open        bool
	// plain is how many chunks of the section are yet to be stored as they are,
	// because doubts before them, each after twice as many, have not shrunk.
	plain, doubts int
}

// part is where the sections of an operator begin in a payload.
type part struct {
	operator string
	offset   int64
}

// NewGroupWriter begins the payload of key group g, on its own, in w. Close
// ends it.
func NewGroupWriter(w io.Writer, c Compression, g int) *GroupWriter {
	mem := bufferPool.Get().(*buffers)
	gw := &GroupWriter{out: &output{w: w, buf: mem.out[:0]}, version: baseVersion, compression: c, mem: mem, raw: mem.raw[:0]}
	gw.begin(g)
	return gw
}

// Operator returns a writer of the sections of one operator, whose keys are
// encoded by the given format. It may be kept and used for later key groups of
// the same file.
func (g *GroupWriter) Operator(id string, key codec.Format) *OperatorWriter {
	return &OperatorWriter{group: g, id: id, key: key}
}

// OperatorWriter writes sections of one operator.
type OperatorWriter struct {
	group *GroupWriter
	id    string
	key   codec.Format
}

// Section writes the entries of a state, count of them, encoded in data. data
// may be reused after the call.
func (o *OperatorWriter) Section(st State, count int, data []byte) error {
	return o.group.Section(o.id, o.key, st, count, data)
}

// Section writes one section. The sections of an operator follow one another.
func (g *GroupWriter) Section(operator string, key codec.Format, st State, count int, data []byte) error {
	if !g.open {
		return errors.New("snapshot: section outside of a key group")
	}
	if g.version == baseVersion && isChange(st.Kind) {
		return fmt.Errorf("snapshot: a section of kind %s outside of a file of changes", st.Kind)
	}
	if operator != g.operator || len(g.parts) == 0 {
		// Chunks hold one operator each, so that it can be read alone.
		g.endChunk()
		g.parts = append(g.parts, part{operator, g.out.size - g.start})
		g.operator = operator
	}
	g.plain, g.doubts = 0, 0
	g.raw = appendSectionHeader(g.raw, operator, &key, &st, count, len(data))
	if len(g.raw)+len(data) > g.chunkSize() {
		g.endChunk()
		g.chunks(data) // not by way of raw: that would be a copy
	} else {
		g.raw = append(g.raw, data...)
	}
	return g.out.err
}

func (g *GroupWriter) chunkSize() int {
	if g.compression == Zstd {
		return maxChunk
	}
	return fastChunk
}

// Close ends the payload and returns its size and the CRC32C of its bytes.
// The writer cannot be used afterwards.
func (g *GroupWriter) Close() (size int64, crc uint32, err error) {
	g.end()
	g.out.flush()
	g.release()
	return g.out.size, g.out.sum, g.out.err
}

func (g *GroupWriter) release() {
	g.mem.raw, g.mem.out = g.raw[:0], g.out.buf[:0]
	bufferPool.Put(g.mem)
	g.mem, g.raw, g.out.buf, g.open = nil, nil, nil, false
}

func (g *GroupWriter) begin(group int) {
	g.start, g.rawTotal, g.operator, g.parts, g.open = g.out.size, 0, "", nil, true
	h := make([]byte, 0, groupHeaderSize)
	h = append(h, groupMagic...)
	h = binary.LittleEndian.AppendUint32(h, g.version)
	h = binary.LittleEndian.AppendUint32(h, uint32(group))
	g.out.add(binary.LittleEndian.AppendUint32(h, checksum(h))...)
}

func (g *GroupWriter) end() {
	g.endChunk()
	h := make([]byte, 0, endMarkerSize)
	h = append(h, endMarker)
	h = binary.LittleEndian.AppendUint64(h, g.rawTotal)
	h = binary.LittleEndian.AppendUint64(h, uint64(g.out.size-g.start))
	g.out.add(binary.LittleEndian.AppendUint32(h, checksum(h))...)
	g.out.flushIfLarge()
	g.open = false
}

// endChunk writes the chunk under way, if any.
func (g *GroupWriter) endChunk() {
	g.chunks(g.raw)
	g.raw = g.raw[:0]
}

// chunks writes raw in chunks of at most chunkSize.
func (g *GroupWriter) chunks(raw []byte) {
	for part := range slices.Chunk(raw, g.chunkSize()) {
		g.chunk(part)
	}
}

func (g *GroupWriter) chunk(raw []byte) {
	used, how := g.compress(raw)
	out := g.out.buf
	at := len(out)
	head := out[at : at+chunkHeaderSize]
	stored := out[at+chunkHeaderSize : at+chunkHeaderSize+used]
	head[0] = byte(how)
	binary.LittleEndian.PutUint32(head[1:], uint32(len(raw)))
	binary.LittleEndian.PutUint32(head[5:], uint32(used))
	binary.LittleEndian.PutUint32(head[9:], checksum(head[:9], stored))
	g.out.buf = out[:at+chunkHeaderSize+used]
	g.out.size += int64(chunkHeaderSize + used)
	g.rawTotal += uint64(len(raw))
	g.out.flushIfLarge()
}

// mostDoubts bounds how many chunks are stored as they are before the next is
// compressed: 1, 2, 4, 8, 16 and 16 again.
const mostDoubts = 4

// compress puts the stored form of raw behind the room for the chunk's header
// in the output buffer, whose length stays, and returns its length.
func (g *GroupWriter) compress(raw []byte) (int, Compression) {
	g.out.buf = slices.Grow(g.out.buf, chunkHeaderSize+s2.MaxEncodedLen(len(raw)))
	room := g.out.buf[len(g.out.buf)+chunkHeaderSize : cap(g.out.buf)]
	worth := len(raw) - len(raw)/16 // below that, reading would only be slower
	switch g.compression {
	case S2:
		if g.plain > 0 {
			g.plain--
			break
		}
		if n := len(s2.Encode(room, raw)); n < worth {
			g.doubts = 0
			return n, S2
		}
		if len(raw) == fastChunk { // of less it would say little
			g.plain = 1 << min(g.doubts, mostDoubts)
			g.doubts++
		}
	case Zstd:
		if packed := g.encoder().EncodeAll(raw, room[:0]); len(packed) < worth {
			return copy(room, packed), Zstd // in place unless it had outgrown room
		}
	}
	return copy(room, raw), None
}

func (g *GroupWriter) encoder() *zstd.Encoder {
	if g.mem.zstd == nil {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(maxChunk))
		if err != nil {
			panic(fmt.Sprintf("snapshot: options of zstd: %v", err)) // constant options
		}
		g.mem.zstd = enc
	}
	return g.mem.zstd
}

// FileWriter writes a data file: the payloads of any number of key groups, and
// a footer that says where they are. It is not safe for concurrent use. Its
// errors stick, so it is enough to look at that of Close.
type FileWriter struct {
	out    output
	group  GroupWriter
	groups []groupIndex
	number int // of the key group under way
}

// groupIndex is where a payload and its parts lie in a file.
type groupIndex struct {
	group          int
	offset, length int64
	parts          []part
}

// NewFileWriter begins a data file in w.
func NewFileWriter(w io.Writer, c Compression) *FileWriter { return newFileWriter(w, c, baseVersion) }

// NewChangesWriter begins a data file that completes others (see Chain). In each
// key group in which an operator has changed, the operator begins with a section of kind
// ChangedKeys or AllKeys; the other key groups need not be written. Sections of kind
// RawKind count from the last file of a chain only.
func NewChangesWriter(w io.Writer, c Compression) *FileWriter {
	return newFileWriter(w, c, changesVersion)
}

func newFileWriter(w io.Writer, c Compression, version uint32) *FileWriter {
	mem := bufferPool.Get().(*buffers)
	f := &FileWriter{out: output{w: w, buf: mem.out[:0]}}
	f.group = GroupWriter{out: &f.out, version: version, compression: c, mem: mem, raw: mem.raw[:0]}
	h := make([]byte, 0, fileHeaderSize)
	h = append(h, fileMagic...)
	h = binary.LittleEndian.AppendUint32(h, version)
	f.out.add(binary.LittleEndian.AppendUint32(h, checksum(h))...)
	return f
}

// BeginGroup begins the payload of a key group; groups may come in any order,
// each once. EndGroup must have ended the one before.
func (f *FileWriter) BeginGroup(g int) error {
	switch {
	case f.group.open:
		return fmt.Errorf("snapshot: key group %d begins before %d has ended", g, f.number)
	case g < 0 || int64(g) > 1<<31-1:
		return fmt.Errorf("snapshot: key group %d is out of range", g)
	case f.group.mem == nil:
		return errors.New("snapshot: the file is closed")
	}
	f.number = g
	f.group.begin(g)
	return f.out.err
}

// Operator is like GroupWriter.Operator, for whatever key group is under way.
func (f *FileWriter) Operator(id string, key codec.Format) *OperatorWriter {
	return f.group.Operator(id, key)
}

// Section is like GroupWriter.Section, for the key group under way.
func (f *FileWriter) Section(operator string, key codec.Format, st State, count int, data []byte) error {
	return f.group.Section(operator, key, st, count, data)
}

// EndGroup ends the payload of the key group under way.
func (f *FileWriter) EndGroup() error {
	if !f.group.open {
		return errors.New("snapshot: no key group to end")
	}
	f.group.end()
	start := f.group.start
	f.groups = append(f.groups, groupIndex{f.number, start, f.out.size - start, f.group.parts})
	return f.out.err
}

// Close writes the footer and returns size and CRC32C of the file, which
// belong into its File in _metadata. It does not close the io.Writer. It must be
// called once, also after an error.
func (f *FileWriter) Close() (size int64, crc uint32, err error) {
	if f.group.mem == nil {
		return 0, 0, errors.New("snapshot: the file is closed")
	}
	defer f.group.release()
	if f.group.open {
		return 0, 0, errors.Join(f.out.err, fmt.Errorf("snapshot: key group %d has not ended", f.number))
	}
	footer, err := encodeFooter(f.groups, f.group.version)
	if err != nil {
		return 0, 0, err
	}
	f.out.add(footer...)
	f.out.flush()
	return f.out.size, f.out.sum, f.out.err
}
