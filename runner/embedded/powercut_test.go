package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/internal/storage"
)

// powered is a storage of files, made as that of package file, on a disk that
// loses power after a number of steps: what was not synced is then there or
// not, and nothing works any more.
type powered struct {
	mu    sync.Mutex
	fs    *vfs.MemFS
	rng   *rand.Rand
	temps int
	// left are the steps until the power goes, negative for never; steps counts
	// all.
	left, steps int
	// flaky is the part of the steps, in percent, that fail, done or not.
	flaky int
	// found is the disk as the next process finds it; off is closed then.
	found *vfs.MemFS
	off   chan struct{}
}

var errPower = errors.New("the power is gone")

func newPowered(fs *vfs.MemFS, rng *rand.Rand, left int) *powered {
	return &powered{fs: fs, rng: rng, left: left, off: make(chan struct{})}
}

func (p *powered) String() string { return "memory:" }

// isOff tells whether the power is gone.
func (p *powered) isOff() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found != nil
}

// step lets one change of the disk happen, and after it, perhaps, the end.
func (p *powered) step(change func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return errPower
	}
	fails := p.flaky > 0 && p.rng.IntN(100) < p.flaky
	if fails && p.rng.IntN(2) == 0 {
		return errPower
	}
	err := change()
	if fails && err == nil {
		err = errPower
	}
	p.steps++
	if p.left--; p.left == 0 {
		p.found = p.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: p.rng.IntN(101), RNG: p.rng})
		close(p.off)
		return errPower
	}
	return err
}

// Put implements storage.Blobs.
func (p *powered) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	return p.put(ctx, name, write, p.fs.Rename)
}

// PutIfAbsent implements storage.Blobs.
func (p *powered) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	write := func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
	return p.put(ctx, name, write, func(temp, final string) error {
		err := p.fs.Link(temp, final)
		if errors.Is(err, os.ErrExist) {
			return storage.ErrExists
		}
		return errors.Join(err, p.fs.Remove(temp))
	})
}

func (p *powered) put(ctx context.Context, name string, write func(io.Writer) error, place func(temp, final string) error) error {
	temp, err := p.make(name)
	if err != nil {
		return err
	}
	f, err := p.fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = write(poweredWriter{p, f})
	if err == nil {
		err = p.step(f.Sync)
	}
	if err = errors.Join(err, f.Close(), ctx.Err()); err == nil {
		err = p.step(func() error { return place(temp, name) })
	}
	if err == nil {
		return p.sync(path.Dir(name))
	}
	_ = p.step(func() error { return p.fs.Remove(temp) })
	return err
}

// make makes the directory of a blob, and names a temporary file in it.
func (p *powered) make(name string) (temp string, err error) {
	dir := path.Dir(name)
	err = p.step(func() error {
		p.temps++
		temp = path.Join(dir, fmt.Sprint(".tmp-", p.temps))
		return p.fs.MkdirAll(dir, 0o777)
	})
	for err == nil && dir != "." {
		dir = path.Dir(dir)
		err = p.sync(dir)
	}
	return temp, err
}

func (p *powered) sync(dir string) error {
	return p.step(func() error {
		if dir == "." {
			dir = ""
		}
		d, err := p.fs.OpenDir(dir)
		if err != nil {
			return err
		}
		return errors.Join(d.Sync(), d.Close())
	})
}

// poweredWriter makes each write a step.
type poweredWriter struct {
	p *powered
	f vfs.File
}

func (w poweredWriter) Write(b []byte) (n int, err error) {
	own := bytes.Clone(b) // a vfs.File may change what it is given
	err = w.p.step(func() error { n, err = w.f.Write(own); return err })
	return n, err
}

// Get implements storage.Blobs.
func (p *powered) Get(_ context.Context, name string) ([]byte, error) {
	return p.read(name, func(f vfs.File, size int64) ([]byte, error) { return io.ReadAll(f) })
}

// GetRange implements storage.Blobs.
func (p *powered) GetRange(_ context.Context, name string, off, n int64) ([]byte, error) {
	return p.read(name, func(f vfs.File, size int64) ([]byte, error) {
		if off < 0 || n < 0 || off > size || n > size-off {
			return nil, io.ErrUnexpectedEOF
		}
		b := make([]byte, n)
		_, err := f.ReadAt(b, off)
		return b, err
	})
}

func (p *powered) read(name string, fn func(f vfs.File, size int64) ([]byte, error)) ([]byte, error) {
	if p.isOff() {
		return nil, errPower
	}
	f, err := p.fs.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, storage.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s: %w", name, storage.ErrNotFound)
	}
	return fn(f, info.Size())
}

// List implements storage.Blobs.
func (p *powered) List(_ context.Context, prefix string, fn func(name string, size int64) error) error {
	if p.isOff() {
		return errPower
	}
	sizes := map[string]int64{}
	if err := p.walk(strings.TrimSuffix(prefix, "/"), sizes); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if err := fn(name, sizes[name]); err != nil {
			return err
		}
	}
	return nil
}

func (p *powered) walk(dir string, sizes map[string]int64) error {
	names, err := p.fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue
		}
		name = path.Join(dir, name)
		info, serr := p.fs.Stat(name)
		switch {
		case errors.Is(serr, os.ErrNotExist): // removed since
		case serr != nil:
			return serr
		case info.IsDir():
			err = errors.Join(err, p.walk(name, sizes))
		default:
			sizes[name] = info.Size()
		}
	}
	return err
}

// Delete implements storage.Blobs.
func (p *powered) Delete(_ context.Context, name string) error {
	err := p.step(func() error { return p.fs.Remove(name) })
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.sync(path.Dir(name))
}
