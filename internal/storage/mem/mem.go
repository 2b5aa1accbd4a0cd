// Package mem keeps blobs in memory: the storage "memory:", for tests and for
// jobs whose snapshots need not outlive the process.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/weirstream/weir/internal/storage"
)

// Blobs is a storage in memory. It lives as long as it is referenced.
type Blobs struct {
	mu    sync.Mutex
	blobs map[string][]byte // the slices are never written to
}

var _ storage.Blobs = (*Blobs)(nil)

// New returns an empty storage.
func New() *Blobs { return &Blobs{blobs: map[string][]byte{}} }

// String returns "memory:".
func (b *Blobs) String() string { return "memory:" }

// Put implements storage.Blobs.
func (b *Blobs) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	if err := begin(ctx, name); err != nil {
		return err
	}
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		return fmt.Errorf("write %s in memory: %w", name, err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blobs[name] = buf.Bytes()
	return nil
}

// PutIfAbsent implements storage.Blobs.
func (b *Blobs) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if err := begin(ctx, name); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.blobs[name]; ok {
		return fmt.Errorf("%s in memory: %w", name, storage.ErrExists)
	}
	b.blobs[name] = bytes.Clone(data)
	return nil
}

// Get implements storage.Blobs.
func (b *Blobs) Get(ctx context.Context, name string) ([]byte, error) {
	data, err := b.lookup(ctx, name)
	return bytes.Clone(data), err
}

// GetRange implements storage.Blobs.
func (b *Blobs) GetRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	data, err := b.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	size := int64(len(data))
	if off < 0 || n < 0 || off > size || n > size-off {
		return nil, fmt.Errorf("read %d bytes at %d of %s in memory, which has %d: %w",
			n, off, name, size, io.ErrUnexpectedEOF)
	}
	return bytes.Clone(data[off : off+n]), nil
}

func (b *Blobs) lookup(ctx context.Context, name string) ([]byte, error) {
	if err := begin(ctx, name); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.blobs[name]
	if !ok {
		return nil, fmt.Errorf("%s in memory: %w", name, storage.ErrNotFound)
	}
	return data, nil
}

// List implements storage.Blobs. prefix is a directory, "" for all.
func (b *Blobs) List(ctx context.Context, prefix string, fn func(name string, size int64) error) error {
	dir := strings.TrimSuffix(prefix, "/")
	if dir != "" {
		if err := begin(ctx, dir); err != nil {
			return err
		}
		dir += "/"
	}
	// A copy, so that fn may call the storage.
	b.mu.Lock()
	blobs := maps.Clone(b.blobs)
	b.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(blobs)) {
		if !strings.HasPrefix(name, dir) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(name, int64(len(blobs[name]))); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements storage.Blobs.
func (b *Blobs) Delete(ctx context.Context, name string) error {
	if err := begin(ctx, name); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.blobs, name)
	return nil
}

func begin(ctx context.Context, name string) error {
	if err := storage.CheckName(name); err != nil {
		return err
	}
	return ctx.Err()
}
