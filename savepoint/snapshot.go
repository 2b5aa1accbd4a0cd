package savepoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/internal/storage/location"
	"github.com/weirstream/weir/storage"
)

// Errors of reading. They say what was found, and where.
var (
	// ErrNotSnapshot: the path or file is something else.
	ErrNotSnapshot = snapshot.ErrNotSnapshot
	// ErrDamaged: bytes were changed after they were written. Verify tells all.
	ErrDamaged = snapshot.ErrChecksum
	// ErrNewer: a newer version of Weir wrote it.
	ErrNewer = snapshot.ErrNewer
	// ErrUnknown: there is no such operator or state.
	ErrUnknown = errors.New("not in the snapshot")
)

// Snapshot is a stored snapshot, open for reading. It reads what it is asked
// for, when it is asked. It may be used from one goroutine at a time, and needs no
// closing.
type Snapshot struct {
	meta     *snapshot.Metadata
	blobs    storage.Blobs
	dir      string
	decoders map[string]codec.Decoder
	files    map[string]*snapshot.FileReader
}

// Option sets how a snapshot is read.
type Option func(*Snapshot)

// WithDecoder decodes values of a format of the user's own, by the id that its
// codec gives (codec.Format.ID), where Entries and Info show them. Without it
// they are Undecoded.
func WithDecoder(formatID string, d codec.Decoder) Option {
	return func(s *Snapshot) { s.decoders[formatID] = d }
}

// Open opens the snapshot at path, its directory or its _metadata, on this
// machine. The error wraps ErrNotSnapshot where there is none.
func Open(ctx context.Context, path string, opts ...Option) (*Snapshot, error) {
	blobs, dir, err := locate(path)
	if err != nil {
		return nil, err
	}
	return OpenIn(ctx, blobs, dir, opts...)
}

// locate finds the directory of a snapshot.
func locate(path string) (storage.Blobs, string, error) {
	abs, err := filepath.Abs(strings.TrimPrefix(path, "file://"))
	if err != nil {
		return nil, "", err
	}
	if filepath.Base(abs) == snapshot.MetadataName {
		abs = filepath.Dir(abs)
	}
	if _, err := os.Stat(abs); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, "", fmt.Errorf("%w: %s does not exist", ErrNotSnapshot, abs)
	} else if err != nil {
		return nil, "", err
	}
	return file.New(filepath.Dir(abs)), filepath.Base(abs), nil
}

// OpenIn is Open of a snapshot in any storage: dir is relative to it.
func OpenIn(ctx context.Context, blobs storage.Blobs, dir string, opts ...Option) (*Snapshot, error) {
	m, err := snapshot.Load(ctx, blobs, dir)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{meta: m, blobs: blobs, dir: dir, decoders: map[string]codec.Decoder{}, files: map[string]*snapshot.FileReader{}}
	for _, set := range opts {
		set(s)
	}
	return s, nil
}

// Path is the directory of the snapshot.
func (s *Snapshot) Path() string { return location.Join(s.blobs.String(), s.dir) }

// operator returns an operator of the snapshot.
func (s *Snapshot) operator(id string) (*snapshot.Operator, error) {
	i := slices.IndexFunc(s.meta.Operators, func(op snapshot.Operator) bool { return op.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("%w: operator %q; there are %s", ErrUnknown, id, quoted(s.operatorIDs()))
	}
	return &s.meta.Operators[i], nil
}

func (s *Snapshot) operatorIDs() (ids []string) {
	for _, op := range s.meta.Operators {
		ids = append(ids, op.ID)
	}
	return ids
}

func quoted(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(out, ", ")
}

// file opens a data file, once.
func (s *Snapshot) file(ctx context.Context, name string) (*snapshot.FileReader, error) {
	if f := s.files[name]; f != nil {
		return f, nil
	}
	i := slices.IndexFunc(s.meta.Files, func(f snapshot.File) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("snapshot %s: data file %s is not listed in %s", s.Path(), name, snapshot.MetadataName)
	}
	f, err := snapshot.OpenFile(ctx, s.blobs, path.Join(s.dir, name), s.meta.Files[i])
	if err == nil {
		s.files[name] = f
	}
	return f, err
}

// place is where a key group of an operator's state lies: in a data file or, if
// that is nil, in several files that are read together.
type place struct {
	group int
	file  *snapshot.FileReader
	files fileSet
}

// fileSet is the keyed state of a subtask in files that are read together.
type fileSet interface {
	group(ctx context.Context, g int) (*snapshot.RawGroup, error)
}

// scan reads the sections of the operator there.
func (p place) scan(ctx context.Context, operator string) (*snapshot.Scanner, error) {
	if p.file != nil {
		return p.file.Scan(ctx, p.group, operator), nil
	}
	g, err := p.files.group(ctx, p.group)
	if err != nil {
		return nil, err
	}
	return g.Scan(), nil
}

// read is scan of all that is there at once.
func (p place) read(ctx context.Context, operator string) (*snapshot.GroupReader, error) {
	if p.file != nil {
		return p.file.ReadOperator(ctx, p.group, operator)
	}
	g, err := p.files.group(ctx, p.group)
	if err != nil {
		return nil, err
	}
	return g.Read(), nil
}

// places are where the key groups of an operator lie, in ascending order.
func (s *Snapshot) places(ctx context.Context, op *snapshot.Operator) ([]place, error) {
	if err := readable(op); err != nil {
		return nil, err
	}
	var all []place
	for i := range op.Subtasks {
		own, err := s.placesOf(ctx, op, &op.Subtasks[i])
		if err != nil {
			return nil, err
		}
		all = append(all, own...)
	}
	slices.SortStableFunc(all, func(a, b place) int { return a.group - b.group })
	return all, nil
}

// placesOf are those of a subtask.
func (s *Snapshot) placesOf(ctx context.Context, op *snapshot.Operator, sub *snapshot.Subtask) ([]place, error) {
	switch {
	case sub.Native != nil:
		return s.databasePlaces(op, sub)
	case len(sub.Increments) > 0:
		return s.chainPlaces(ctx, op, sub)
	case sub.File == "":
		return nil, nil
	}
	f, err := s.file(ctx, sub.File)
	if err != nil {
		return nil, err
	}
	var own []place
	for _, g := range f.Groups() {
		own = append(own, place{group: g, file: f})
	}
	return own, nil
}
