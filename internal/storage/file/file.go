// Package file keeps blobs as files below a directory of a local or network
// file system.
//
// What a method has acknowledged survives a loss of power: a blob is written
// to a temporary file beside its final place, synced, moved into place, and
// then the directory is synced, and each parent in which a directory was made. A
// crash therefore leaves whole blobs and stray temporary files, never part of
// a blob under its name.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weirstream/weir/internal/killpoint"
	"github.com/weirstream/weir/internal/storage"
)

// tempPrefix marks files under construction. Names of blobs cannot begin with
// a dot, so they never meet.
const tempPrefix = ".tmp-"

// Blobs is a storage below one directory.
type Blobs struct {
	dir string
	// durable holds the directories known to be synced into their parents.
	durable sync.Map
}

var _ storage.Blobs = (*Blobs)(nil)

// New returns the storage below dir. The directory is made at the first
// write.
func New(dir string) *Blobs { return &Blobs{dir: filepath.Clean(dir)} }

// String returns the directory.
func (b *Blobs) String() string { return b.dir }

// Put implements storage.Blobs.
func (b *Blobs) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	return b.put(ctx, name, write, os.Rename)
}

// PutIfAbsent implements storage.Blobs. The file system must support hard
// links: link(2) is the one call that fails when the name is taken and yet never
// shows part of a file.
func (b *Blobs) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	write := func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
	return b.put(ctx, name, write, linkNew)
}

func linkNew(temp, final string) error {
	err := os.Link(temp, final)
	switch {
	case errors.Is(err, fs.ErrExist):
		if sameFile(temp, final) {
			return nil // NFS: the link was made, the reply to it was lost
		}
		return storage.ErrExists
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the file system must support hard links: %w", err)
	}
	return err
}

func sameFile(x, y string) bool {
	xi, xerr := os.Stat(x)
	yi, yerr := os.Stat(y)
	return xerr == nil && yerr == nil && os.SameFile(xi, yi)
}

// put writes a temporary file and moves it to its name by publish.
func (b *Blobs) put(ctx context.Context, name string, write func(io.Writer) error, publish func(temp, final string) error) error {
	final, err := b.path(ctx, name)
	if err != nil {
		return err
	}
	if err := b.writeAndPublish(ctx, final, write, publish); err != nil {
		b.removeEmpty(filepath.Dir(final)) // made for nothing, as on a full disk
		return fmt.Errorf("write %s: %w", final, advised(filepath.Dir(final), err))
	}
	return nil
}

func (b *Blobs) writeAndPublish(ctx context.Context, final string, write func(io.Writer) error, publish func(temp, final string) error) error {
	dir := filepath.Dir(final)
	f, err := b.createTemp(dir)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after a rename, left over otherwise
	err = write(f)
	killpoint.Tear("file.torn", final, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	killpoint.ReachFile("file.synced", final)
	if err := publish(f.Name(), final); err != nil {
		return err
	}
	killpoint.ReachFile("file.placed", final)
	return syncDir(dir)
}

// createTemp makes a temporary file in dir, and dir itself. A Delete elsewhere
// may remove an empty directory just made, hence the repetition.
func (b *Blobs) createTemp(dir string) (*os.File, error) {
	for attempt := 0; ; attempt++ {
		if err := b.makeDir(dir); err != nil {
			return nil, err
		}
		temp := filepath.Join(dir, fmt.Sprintf("%s%016x", tempPrefix, rand.Uint64()))
		f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) || attempt == 100 {
			return nil, err
		}
	}
}

// makeDir makes dir and its parents, durably. A directory that another writer
// made is synced, too: that writer may not have come so far yet.
func (b *Blobs) makeDir(dir string) error {
	info, err := os.Stat(dir)
	exists := err == nil && info.IsDir()
	if _, ok := b.durable.Load(dir); ok && exists {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent == dir || exists && outside(b.dir, dir) {
		return nil
	}
	if err := b.makeDir(parent); err != nil {
		return err
	}
	err = os.Mkdir(dir, 0o777)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // the parent was removed again; createTemp comes back
	case err != nil && !errors.Is(err, fs.ErrExist):
		return err
	}
	if err := syncDir(parent); err != nil && !(exists && errors.Is(err, fs.ErrPermission)) {
		return err // a root given by the user may lie in a directory closed to us
	}
	b.durable.Store(dir, nil)
	return nil
}

// outside reports whether dir lies above root: such a directory, if it exists,
// was not made here.
func outside(root, dir string) bool { return len(dir) < len(root) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed by a Delete elsewhere: nothing to sync
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get implements storage.Blobs.
func (b *Blobs) Get(ctx context.Context, name string) ([]byte, error) {
	file, err := b.path(ctx, name)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, notFound(file, err)
	}
	return data, nil
}

// GetRange implements storage.Blobs.
func (b *Blobs) GetRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	file, err := b.path(ctx, name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, notFound(file, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s: %w", file, storage.ErrNotFound)
	}
	// Checked before the allocation: n may come from a damaged file.
	if size := info.Size(); off < 0 || n < 0 || off > size || n > size-off {
		return nil, fmt.Errorf("read %d bytes at %d of %s, which has %d: %w", n, off, file, size, io.ErrUnexpectedEOF)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(f, off, n), data); err != nil {
		return nil, fmt.Errorf("read %d bytes at %d of %s: %w", n, off, file, err)
	}
	return data, nil
}

// notFound adds storage.ErrNotFound where err says that there is no such file.
func notFound(file string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%s: %w", file, storage.ErrNotFound)
	}
	return err
}

// List implements storage.Blobs. prefix is a directory, "" for all.
func (b *Blobs) List(ctx context.Context, prefix string, fn func(name string, size int64) error) error {
	name := strings.TrimSuffix(prefix, "/")
	if name != "" {
		if err := storage.CheckName(name); err != nil {
			return err
		}
	}
	return b.list(ctx, name, fn)
}

func (b *Blobs) list(ctx context.Context, dir string, fn func(name string, size int64) error) error {
	entries, err := os.ReadDir(filepath.Join(b.dir, filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // nothing there, or removed meanwhile
	}
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(x, y fs.DirEntry) int { return strings.Compare(sortKey(x), sortKey(y)) })
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.listEntry(ctx, dir, e, fn); err != nil {
			return err
		}
	}
	return nil
}

// sortKey orders the entries of a directory as the names of the blobs below
// them: "a-b" before "a/x".
func sortKey(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

func (b *Blobs) listEntry(ctx context.Context, dir string, e fs.DirEntry, fn func(name string, size int64) error) error {
	name := e.Name()
	if dir != "" {
		name = dir + "/" + name
	}
	if storage.CheckName(name) != nil {
		return nil //nolint:nilerr // a temporary file, a lock, or none of ours
	}
	if e.IsDir() {
		return b.list(ctx, name, fn)
	}
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	return fn(name, info.Size())
}

// Delete implements storage.Blobs. Directories that become empty go, too.
func (b *Blobs) Delete(ctx context.Context, name string) error {
	file, err := b.path(ctx, name)
	if err != nil {
		return err
	}
	err = os.Remove(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil // no such file, or a directory of blobs
	}
	if err != nil {
		return err
	}
	return syncDir(b.removeEmpty(filepath.Dir(file)))
}

// removeEmpty removes dir and its parents below the root as far as they are
// empty, and returns the first that stays. Writers make it anew if they need
// to.
func (b *Blobs) removeEmpty(dir string) string {
	for dir != b.dir && syscall.Rmdir(dir) == nil { // fails unless empty, and spares symbolic links
		b.durable.Delete(dir)
		dir = filepath.Dir(dir)
	}
	return dir
}

// RemoveStale deletes temporary files that a crashed process left behind: all
// below prefix that were last written before the given time. It must lie so
// far back that no write under way is hit. Directories that become empty go,
// too. It returns how many files were deleted.
func (b *Blobs) RemoveStale(ctx context.Context, prefix string, before time.Time) (int, error) {
	removed := 0
	root := filepath.Join(b.dir, filepath.FromSlash(prefix))
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), tempPrefix) {
			return nil
		}
		info, err := e.Info()
		if err != nil || !info.ModTime().Before(before) {
			return nil //nolint:nilerr // gone meanwhile, or too young
		}
		if os.Remove(file) == nil { // else it is tried again next time
			removed++
		}
		if dir := filepath.Dir(file); dir != root && os.Remove(dir) == nil { // fails unless empty
			b.durable.Delete(dir)
			return fs.SkipDir
		}
		return nil
	})
	return removed, err
}

// path checks the name and returns its file.
func (b *Blobs) path(ctx context.Context, name string) (string, error) {
	if err := storage.CheckName(name); err != nil {
		return "", err
	}
	return filepath.Join(b.dir, filepath.FromSlash(name)), ctx.Err()
}
