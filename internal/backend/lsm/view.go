package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

// View reads a database where it is stored: what is asked for is read, and
// nothing is put on the local disk. One goroutine uses it.
type View struct {
	stored *Stored
	db     *pebble.DB
}

// viewDir is where a database lies in a viewFS.
const viewDir = "db"

// OpenSnapshot opens a stored database for reading. Every block that is read is
// checked; a damaged one gives an error that wraps snapshot.ErrChecksum.
func OpenSnapshot(ctx context.Context, s *Stored) (*View, error) {
	fs := &viewFS{FS: vfs.NewMem(), ctx: ctx, stored: s, tables: map[string]*StoredFile{}}
	if err := fs.fill(); err != nil {
		return nil, err
	}
	o := &pebble.Options{FS: fs, ReadOnly: true, DisableWAL: true, FormatMajorVersion: formatVersion, Logger: logger{slog.New(slog.DiscardHandler)}}
	o.DisableTableStats = true
	// The default ends the process; here the error of the read is enough.
	o.EventListener = &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}
	db, err := pebble.Open(viewDir, o)
	if err != nil {
		return nil, s.damaged(err)
	}
	if err := s.checkKnown(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &View{s, db}, nil
}

// damaged tells what of an error of Pebble is the snapshot's fault.
func (s *Stored) damaged(err error) error {
	if err == nil || !pebble.IsCorruptionError(err) {
		return err
	}
	return fmt.Errorf("database of key groups %v of snapshot %s in %s: %w: %w", s.Groups, s.Dir, s.Blobs, snapshot.ErrChecksum, err)
}

// Sections calls fn with the sections of the key groups in a range, in the
// canonical form. layout is that of the rows.
func (v *View) Sections(groups keygroup.Range, key codec.Format, layout []snapshot.State, fn func(group int, st snapshot.State, count int, data []byte) error) error {
	rows := heap.NewSections(key, layout)
	for g := groups.First; g <= groups.Last; g++ {
		if err := v.rows(keygroup.Range{First: g, Last: g}, rows.Add); err != nil {
			return err
		}
		if err := rows.Write(sectionFunc(func(st snapshot.State, count int, data []byte) error { return fn(g, st, count, data) })); err != nil {
			return err
		}
	}
	return nil
}

type sectionFunc func(st snapshot.State, count int, data []byte) error

func (f sectionFunc) Section(st snapshot.State, count int, data []byte) error {
	return f(st, count, data)
}

// rows calls fn with all rows of a range of key groups.
func (v *View) rows(groups keygroup.Range, fn func(key, row []byte) error) error {
	var failed error
	err := walk(v.db, groupKey(groups.First), groupKey(groups.Last+1), func(key, row []byte) (bool, error) {
		failed = fn(key, row)
		return failed == nil, nil
	})
	if failed != nil {
		return failed
	}
	return v.stored.damaged(err)
}

// Close ends the view.
func (v *View) Close() error { return v.db.Close() }

// groupKey is before all rows of a key group.
func groupKey(g int) []byte { return []byte{byte(g >> 8), byte(g)} }

// viewFS is a file system in memory, but for the tables, which lie in the
// storage.
type viewFS struct {
	vfs.FS
	ctx    context.Context
	stored *Stored
	tables map[string]*StoredFile
}

// fill makes the small files, and names the others.
func (v *viewFS) fill() error {
	if err := v.MkdirAll(viewDir, 0o777); err != nil {
		return err
	}
	for i := range v.stored.Files {
		f := &v.stored.Files[i]
		to := v.PathJoin(viewDir, f.Local)
		out, err := v.Create(to, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		if isTable(f.Local) {
			v.tables[to] = f
		} else if err := v.stored.read(v.ctx, f, out); err != nil {
			return errors.Join(err, out.Close())
		}
		if err := out.Close(); err != nil {
			return err
		}
	}
	return v.stored.makeMarkers(v.FS, viewDir)
}

func (v *viewFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := v.FS.Open(name, opts...)
	if t := v.tables[name]; err == nil && t != nil {
		return &viewFile{File: f, fs: v, table: t}, nil
	}
	return f, err
}

func (v *viewFS) Stat(name string) (vfs.FileInfo, error) {
	info, err := v.FS.Stat(name)
	if t := v.tables[name]; err == nil && t != nil {
		return viewInfo{info, t.Size}, nil
	}
	return info, err
}

// viewInfo is that of a table.
type viewInfo struct {
	vfs.FileInfo
	size int64
}

func (i viewInfo) Size() int64 { return i.size }

// viewFile is a table. It keeps the piece that was read last.
type viewFile struct {
	vfs.File
	fs    *viewFS
	table *StoredFile

	mu    sync.Mutex
	start int64
	held  []byte
}

func (f *viewFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	return viewInfo{info, f.table.Size}, err
}

func (f *viewFile) Read([]byte) (int, error)    { return 0, os.ErrInvalid }
func (f *viewFile) Prefetch(int64, int64) error { return nil }

func (f *viewFile) ReadAt(p []byte, off int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n < len(p) {
		at := off + int64(n)
		if at < 0 || at >= f.table.Size {
			return n, io.EOF
		}
		if at < f.start || at >= f.start+int64(len(f.held)) {
			start := at / piece * piece
			b, err := f.fs.stored.Blobs.GetRange(f.fs.ctx, f.fs.stored.name(f.table), start, min(piece, f.table.Size-start))
			if err != nil {
				return n, f.fs.stored.wrap(f.table, err)
			}
			f.start, f.held = start, b
		}
		n += copy(p[n:], f.held[at-f.start:])
	}
	return n, nil
}
