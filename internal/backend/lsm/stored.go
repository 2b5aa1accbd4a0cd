package lsm

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
)

// Stored is a database as a snapshot holds it.
type Stored struct {
	Blobs storage.Blobs
	// Dir is the directory of the snapshot.
	Dir   string
	Files []StoredFile
	// Groups are the key groups it may have rows of.
	Groups keygroup.Range
}

// StoredFile is a file of a Stored.
type StoredFile struct {
	// Local is its name in the directory of the database.
	Local string
	snapshot.File
}

// NewStored finds the database of an operator's subtask in a snapshot.
func NewStored(blobs storage.Blobs, dir string, n *snapshot.Native, files map[string]snapshot.File, groups keygroup.Range) (*Stored, error) {
	if n.Format != Format {
		return nil, fmt.Errorf("%w: its state has the form %q, this version reads %q", snapshot.ErrNewer, n.Format, Format)
	}
	s := &Stored{Blobs: blobs, Dir: dir, Groups: groups}
	manifests := 0
	for _, f := range n.Files {
		file, ok := files[f.File]
		manifest := strings.HasPrefix(f.Local, manifestPrefix)
		if manifest {
			manifests++
		}
		if !ok || !manifest && !isTable(f.Local) || path.Base(f.Local) != f.Local {
			return nil, fmt.Errorf("%w: file %q of a database, stored as %q", snapshot.ErrMalformed, f.Local, f.File)
		}
		s.Files = append(s.Files, StoredFile{f.Local, file})
	}
	if manifests != 1 {
		return nil, fmt.Errorf("%w: a database with %d manifests", snapshot.ErrMalformed, manifests)
	}
	return s, nil
}

func isTable(local string) bool { return strings.HasSuffix(local, tableSuffix) }

// checkKnown compares the tables with what the manifest of the opened database
// says. One whose end was lost when it was stored reads as an earlier one.
func (s *Stored) checkKnown(db *pebble.DB) error {
	levels, err := db.SSTables()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, tables := range levels {
		for _, t := range tables {
			known[t.BackingSSTNum.String()+tableSuffix] = true
		}
	}
	for i := range s.Files {
		if f := &s.Files[i]; isTable(f.Local) && !known[f.Local] {
			return s.wrap(f, fmt.Errorf("%w: the database's manifest does not know of it", snapshot.ErrMalformed))
		}
	}
	return nil
}

func (s *Stored) name(f *StoredFile) string { return path.Join(s.Dir, f.Name) }

func (s *Stored) wrap(f *StoredFile, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", snapshot.ErrTruncated, err)
	}
	return fmt.Errorf("snapshot file %s in %s: %w", s.name(f), s.Blobs, err)
}

// piece is how many bytes are read of a blob at a time.
const piece = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// read reads a file in pieces and compares its checksum.
func (s *Stored) read(ctx context.Context, f *StoredFile, w io.Writer) error {
	var sum uint32
	for off := int64(0); off < f.Size; off += piece {
		b, err := s.Blobs.GetRange(ctx, s.name(f), off, min(piece, f.Size-off))
		if err != nil {
			return s.wrap(f, err)
		}
		sum = crc32.Update(sum, castagnoli, b)
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	if sum != f.CRC {
		return s.wrap(f, fmt.Errorf("%w: CRC32C %08x, _metadata says %08x", snapshot.ErrChecksum, sum, f.CRC))
	}
	return nil
}

// linker is a storage that can make its files known under another name.
type linker interface {
	Link(ctx context.Context, name, path string) error
}

// place puts all files into a directory.
func (s *Stored) place(ctx context.Context, fs vfs.FS, dir string) error {
	if err := fs.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for i := range s.Files {
		if err := s.placeFile(ctx, fs, dir, &s.Files[i]); err != nil {
			return err
		}
	}
	return s.makeMarkers(fs, dir)
}

// placeFile makes a file by a link, if it can: tables never change. Either way
// all of it is read once, for its checksum.
func (s *Stored) placeFile(ctx context.Context, fs vfs.FS, dir string, f *StoredFile) error {
	to := fs.PathJoin(dir, f.Local)
	if l, ok := s.Blobs.(linker); ok && vfs.Root(fs) == vfs.Default && isTable(f.Local) {
		if err := l.Link(ctx, s.name(f), to); err == nil {
			return s.read(ctx, f, io.Discard)
		}
	}
	out, err := fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	return errors.Join(s.read(ctx, f, out), out.Close())
}

// makeMarkers makes the files that say which manifest counts and what version
// the files are of: their names say it.
func (s *Stored) makeMarkers(fs vfs.FS, dir string) error {
	for _, f := range s.Files {
		if strings.HasPrefix(f.Local, manifestPrefix) {
			return errors.Join(mark(fs, dir, "manifest", f.Local), mark(fs, dir, "format-version", formatVersion.String()))
		}
	}
	return nil
}

func mark(fs vfs.FS, dir, name, value string) error {
	m, _, err := atomicfs.LocateMarker(fs, dir, name)
	if err != nil {
		return err
	}
	return errors.Join(m.Move(value), m.Close())
}
