package lsm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/storage/file"
)

const (
	// pebbleShare is the part of the memory, as a divisor, that goes to block
	// cache and memtables.
	pebbleShare = 4

	minMemTable = 256 << 10
	maxMemTable = 64 << 20
	// openFiles bounds the files that are open for reading, over all tiers.
	openFiles = 1024
)

// Options of a Disk. All are required but Incremental and FS.
type Options struct {
	// Dir is the root of the local directories; several processes may share it.
	Dir string
	// Memory is what cached entries, block cache and memtables may take
	// together, in bytes.
	Memory int64
	// Stores is how many stores there will be.
	Stores int
	// Incremental says that checkpoints are taken of the files.
	Incremental bool
	Logger      *slog.Logger
	// FS replaces the file system below Dir, in tests.
	FS vfs.FS
}

// Disk is the local disk of one attempt. It is safe for concurrent use.
type Disk struct {
	o   Options
	dir string
	// unlock and remove end what claim has begun.
	unlock, remove func() error

	fs     vfs.FS
	cache  *pebble.Cache
	files  *pebble.FileCache
	budget *memory.Budget
	next   atomic.Int64
	open   sync.WaitGroup
}

// Open removes what killed processes have left below the root and makes a
// directory there.
func Open(o Options) (*Disk, error) {
	d := &Disk{o: o, dir: o.Dir, fs: o.FS}
	d.unlock = func() error { return nil }
	d.remove = func() error { return d.fs.RemoveAll(d.dir) }
	if o.FS == nil {
		d.fs = unsynced{vfs.Default}
		root := file.New(o.Dir)
		if err := sweep(root, o.Dir, o.Logger); err != nil {
			return nil, badRoot(err)
		}
		if err := d.claim(root.LockDir); err != nil {
			return nil, badRoot(err)
		}
	}
	pebbles := o.Memory / pebbleShare
	d.cache = pebble.NewCache(pebbles)
	d.files = pebble.NewFileCache(1, openFiles)
	d.budget = memory.NewBudget(o.Memory-pebbles, o.Stores)
	return d, nil
}

func badRoot(err error) error {
	return fmt.Errorf("local state directory (state.backend.lsm.dir): %w", advise(err))
}

const (
	// claimed begins the names of directories that are locked, or were left.
	claimed = "state-"
	// unclaimed is for those that come or go, and may not be locked for a moment.
	unclaimed = "temp-"
	// grace is after how long such a one was left, too.
	grace = time.Minute
)

// claim makes the directory of this attempt. Others see it only once it is
// locked: they would take it for one that was left.
func (d *Disk) claim(lock func(name string) (unlock func() error, err error)) error {
	fresh, err := os.MkdirTemp(d.o.Dir, unclaimed)
	if err != nil {
		return err
	}
	unlock, err := lock(filepath.Base(fresh))
	switch {
	case err == nil:
		d.unlock = unlock
	case !errors.Is(err, errors.ErrUnsupported): // else nobody can sweep it either
		return errors.Join(err, os.RemoveAll(fresh))
	}
	d.dir = filepath.Join(d.o.Dir, claimed+strings.TrimPrefix(filepath.Base(fresh), unclaimed))
	d.remove = func() error {
		return errors.Join(os.Rename(d.dir, fresh), os.RemoveAll(fresh))
	}
	if err := os.Rename(fresh, d.dir); err != nil {
		return errors.Join(err, os.RemoveAll(fresh), d.unlock())
	}
	return nil
}

// sweep removes the directories whose process has ended.
func sweep(root *file.Blobs, dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !left(e) {
			continue
		}
		unlock, err := root.LockDir(e.Name())
		if err != nil {
			continue // in use
		}
		old := filepath.Join(dir, e.Name())
		log.Info("removing local state that a process left", "dir", old)
		if err := errors.Join(os.RemoveAll(old), unlock()); err != nil {
			log.Warn("removing local state that a process left", "dir", old, "error", err)
		}
	}
	return nil
}

// left reports whether a process may have left the entry.
func left(e os.DirEntry) bool {
	if strings.HasPrefix(e.Name(), claimed) {
		return true
	}
	info, err := e.Info()
	return err == nil && strings.HasPrefix(e.Name(), unclaimed) && time.Since(info.ModTime()) > grace
}

// Dir is the directory of this attempt.
func (d *Disk) Dir() string { return d.dir }

// Share is the memory of one more store.
func (d *Disk) Share() *memory.Share { return d.budget.Share() }

// Tier makes an empty tier. name is for people who look at the directory.
func (d *Disk) Tier(name string) (*Tier, error) { return d.openTier(name, d.newDir(name)) }

// newDir names the directory of a new tier.
func (d *Disk) newDir(name string) string {
	return d.fs.PathJoin(d.dir, strconv.FormatInt(d.next.Add(1), 10)+"-"+plain(name))
}

// openTier opens what lies in a directory, if anything.
func (d *Disk) openTier(name, dir string) (*Tier, error) {
	h := newHealth()
	t := &Tier{disk: d, dir: dir, health: h, options: d.options(name, dir, h)}
	db, err := pebble.Open(dir, t.options)
	if err != nil {
		return nil, fmt.Errorf("open local state %s: %w", dir, err)
	}
	t.db = db
	d.open.Add(1)
	return t, nil
}

// plain is a name without what has a meaning in paths.
func plain(name string) string {
	b := []byte(name)
	for i, c := range b {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			b[i] = '_'
		}
	}
	return string(b[:min(len(b), 64)])
}

// Close waits for the tiers to be closed and removes the directory.
func (d *Disk) Close() error {
	d.open.Wait()
	d.cache.Unref()
	d.files.Unref()
	return errors.Join(d.remove(), d.unlock())
}

// logger passes on what Pebble says.
type logger struct {
	log *slog.Logger
}

func (l logger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}

func (l logger) Errorf(format string, args ...any) { l.log.Error(fmt.Sprintf(format, args...)) }

// Fatalf must not return: Pebble does not know its own state any more.
func (l logger) Fatalf(format string, args ...any) {
	panic("local state: " + fmt.Sprintf(format, args...))
}
