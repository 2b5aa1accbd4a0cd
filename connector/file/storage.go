package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// Info is a file as a storage lists it.
type Info struct {
	// Path names the file in the storage, as it is opened.
	Path string
	// Size is in bytes.
	Size int64
	// ModTime is when the file was last written. Together with Size it tells
	// whether a file is still the one that was found.
	ModTime time.Time
}

// Storage is where files lie. Local is the default; an object storage is read
// by implementing it. Its methods may be called from any goroutine, block, and
// return early with an error when ctx ends. Errors about what is not there
// wrap fs.ErrNotExist.
type Storage interface {
	// List calls fn for each file in a directory, deep: also in directories
	// below it, in ascending order of paths. Of a dir that is a file it lists
	// this file. fn's error ends the listing and is returned.
	List(ctx context.Context, dir string, deep bool, fn func(Info) error) error
	// Stat returns a file's present info.
	Stat(ctx context.Context, path string) (Info, error)
	// Open opens a file to be read from offset, until ctx ends. What it returns
	// may implement io.ReaderAt, which formats that jump about make use of.
	Open(ctx context.Context, path string, offset int64) (io.ReadCloser, error)
}

// Local is the file system of the machine. Relative paths are relative to the
// process's working directory; links are followed to files, not to
// directories. Anything that is not a regular file is left out.
func Local() Storage { return local{} }

// FS is a file system of io/fs as a Storage: what is embedded into a program,
// say. Files that cannot seek are read from their beginning.
func FS(fsys fs.FS) Storage { return mounted{fsys} }

type local struct{}

func (local) List(ctx context.Context, dir string, deep bool, fn func(Info) error) error {
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return fn(info(dir, st))
	}
	return walk(ctx, os.DirFS(dir), deep, func(rel string, st fs.FileInfo) error {
		return fn(info(filepath.Join(dir, filepath.FromSlash(rel)), st))
	})
}

func (local) Stat(_ context.Context, path string) (Info, error) {
	st, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	return info(path, st), nil
}

func (local) Open(_ context.Context, path string, offset int64) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return from(f, offset)
}

type mounted struct{ fs.FS }

func (m mounted) List(ctx context.Context, dir string, deep bool, fn func(Info) error) error {
	st, err := fs.Stat(m.FS, dir)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return fn(info(dir, st))
	}
	sub, err := fs.Sub(m.FS, dir)
	if err != nil {
		return err
	}
	return walk(ctx, sub, deep, func(rel string, st fs.FileInfo) error {
		return fn(info(path.Join(dir, rel), st))
	})
}

func (m mounted) Stat(_ context.Context, path string) (Info, error) {
	st, err := fs.Stat(m.FS, path)
	if err != nil {
		return Info{}, err
	}
	return info(path, st), nil
}

func (m mounted) Open(_ context.Context, path string, offset int64) (io.ReadCloser, error) {
	f, err := m.FS.Open(path)
	if err != nil {
		return nil, err
	}
	return from(f, offset)
}

func info(path string, st fs.FileInfo) Info {
	return Info{Path: path, Size: st.Size(), ModTime: st.ModTime()}
}

// walk visits the regular files of fsys. What goes while it looks is not there.
func walk(ctx context.Context, fsys fs.FS, deep bool, fn func(rel string, st fs.FileInfo) error) error {
	return fs.WalkDir(fsys, ".", func(rel string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && rel != "." && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir():
			if rel != "." && !deep {
				return fs.SkipDir
			}
			return nil
		}
		st, err := fs.Stat(fsys, rel)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !st.Mode().IsRegular() {
			return err
		}
		return fn(rel, st)
	})
}

// from moves f to an offset; it closes f on failure.
func from(f fs.File, offset int64) (io.ReadCloser, error) {
	var err error
	if s, ok := f.(io.Seeker); ok {
		_, err = s.Seek(offset, io.SeekStart)
	} else if offset > 0 {
		_, err = io.CopyN(io.Discard, f, offset)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("go to offset %d: %w", offset, err)
	}
	return f, nil
}
