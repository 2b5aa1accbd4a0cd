package file

import (
	"context"
	"errors"
	"io"

	"github.com/weirstream/weir/connector/splitreader"
)

// Format says how the bytes of a file become records of T.
type Format[T any] interface {
	// Splittable says whether a range of a file can be read without what lies
	// before it.
	Splittable() bool
	// Open begins to read a part of a file, from the part's position. It may
	// block.
	Open(part *Part) (RecordReader[T], error)
}

// RecordReader reads the records of a part, in order. Its methods are called
// by one goroutine and may block; reading is interrupted through the part.
type RecordReader[T any] interface {
	// Read appends records to the batch, at most n and at most as many as are
	// at hand without much waiting or memory, and sets the batch's End, and
	// Epoch if positions are pairs. All that is in the batch has one Epoch.
	// io.EOF, alone or along with records, is the end of the part.
	Read(into *splitreader.Batch[T], n int) error
	// Close releases everything. It is called once.
	Close() error
}

// Part is what a Format reads: a file or a range of it, and from where on.
type Part struct {
	// Split has the file, the range and the position. Of a file that is
	// compressed, the range goes from 0 to Whole, and positions count what
	// comes out of the decompression.
	Split

	ctx         context.Context
	storage     Storage
	compression Compression
	undecodable func(position int64, raw []byte, err error) error
	warning     *splitreader.PanicWarning // nil: none
}

// NewPart is for tests of formats: a part of a file of a storage, from whose
// position on it is read. The source makes the others. Undecodable records
// are errors.
func NewPart(ctx context.Context, s Storage, split Split, how Compression) *Part {
	p := &Part{Split: split, ctx: ctx, storage: s, compression: how.of(split.Path)}
	p.undecodable = func(position int64, _ []byte, err error) error {
		return &UndecodableError{p.Path, position, err}
	}
	return p
}

// Context ends when the reading of the part is over.
func (p *Part) Context() context.Context { return p.ctx }

// Compressed says whether the file is decompressed on the way: it can then be
// read in order only.
func (p *Part) Compressed() bool { return p.compression != Uncompressed }

// Open reads the file's content, decompressed, from an offset of it on.
func (p *Part) Open(offset int64) (io.ReadCloser, error) {
	if p.Compressed() {
		return p.compression.open(p, offset)
	}
	f, err := p.storage.Open(p.ctx, p.Path, offset)
	if err != nil {
		return nil, err
	}
	return &expected{f, p.Size - offset}, nil
}

// ReaderAt opens the file, as it is stored, to be read anywhere.
func (p *Part) ReaderAt() (ReaderAtCloser, error) {
	f, err := p.storage.Open(p.ctx, p.Path, 0)
	if err != nil {
		return nil, err
	}
	if r, ok := f.(ReaderAtCloser); ok {
		return r, nil
	}
	return reopening{p}, f.Close()
}

// Undecodable says what to do about a record that cannot be decoded: to leave
// it out, if nil, or else to fail with the error. position is the record's,
// raw what is known of its bytes.
func (p *Part) Undecodable(position int64, raw []byte, err error) error {
	return p.undecodable(position, raw, err)
}

// ReaderAtCloser reads anywhere until it is closed.
type ReaderAtCloser interface {
	io.ReaderAt
	io.Closer
}

// expected is a file of which some bytes must still come: where there are
// fewer, it is not the file that was found. It ends where the file ended then.
type expected struct {
	io.ReadCloser
	left int64
}

func (e *expected) Read(b []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n, err := e.ReadCloser.Read(b[:min(int64(len(b)), e.left)])
	e.left -= int64(n)
	if errors.Is(err, io.EOF) && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// reopening is a file that is opened for every read.
type reopening struct{ part *Part }

func (r reopening) ReadAt(b []byte, off int64) (int, error) {
	f, err := r.part.storage.Open(r.part.ctx, r.part.Path, off)
	if err != nil {
		return 0, err
	}
	n, err := io.ReadFull(f, b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return n, err
}

func (reopening) Close() error { return nil }
