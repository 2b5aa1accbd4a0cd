// Package bucket keeps blobs in the buckets of gocloud.dev/blob: it is what
// the storages for S3, Google Cloud Storage and Azure have in common.
package bucket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"

	"github.com/weirstream/weir/internal/storage"
)

const (
	// partSize times the 10,000 parts that S3 allows is the largest blob,
	// 160 GB; times concurrency it is the memory of a writer.
	partSize    = 16 << 20
	concurrency = 3
	// smallPart is enough for what PutIfAbsent writes, and the least that S3
	// takes.
	smallPart = 5 << 20
	// conflicts is how often a conditional write is repeated that met another.
	conflicts = 10
	// reads is how often a read is begun that broke off.
	reads = 3
	// nonceKey is metadata of what PutIfAbsent has written.
	nonceKey    = "weir-put"
	contentType = "application/octet-stream"
	// reading is the operation that may find nothing.
	reading = "read"
)

// Kind is what an error means.
type Kind int

const (
	// Passing may be gone the next time.
	Passing Kind = iota
	// NotFound says that there is no such blob; a missing bucket is Fatal.
	NotFound
	// Exists says that a conditional write found a blob.
	Exists
	// Conflict says that a conditional write met another one, which may have
	// failed.
	Conflict
	// Fatal goes on until somebody does something.
	Fatal
	// NoCredentials says that none could be had. It is fatal as long as nothing
	// has succeeded, and then passes: they are renewed.
	NoCredentials
)

// Config is what Blobs are made of.
type Config struct {
	// Bucket is closed by Close.
	Bucket *blob.Bucket
	// Name is the URL without parameters, Path the part of it that goes before
	// all names, without slashes at its ends.
	Name, Path string
	// Place tells the server or account, if Name does not.
	Place string
	// Classify tells what an error means, and of a fatal one what to do. It is
	// the one place that decides.
	Classify func(error) (kind Kind, advice string)
	// Reach says what tells the client where the server is, for when it cannot
	// be reached.
	Reach string
	// Stale aborts uploads to keys with the prefix that began before the given
	// time and never ended. May be nil.
	Stale func(ctx context.Context, prefix string, before time.Time) (int, error)
	// Closer, if set, is closed by Close, too.
	Closer io.Closer
}

// Blobs is a storage in a bucket.
type Blobs struct {
	Config
	worked atomic.Bool
}

var (
	_ storage.Blobs  = (*Blobs)(nil)
	_ storage.Placed = (*Blobs)(nil)
	_ io.Closer      = (*Blobs)(nil)
)

// New returns the storage that c describes.
func New(c Config) *Blobs { return &Blobs{Config: c} }

// String returns the URL.
func (b *Blobs) String() string { return b.Name }

// Place implements storage.Placed.
func (b *Blobs) Place() string { return b.Config.Place }

// Close closes the bucket.
func (b *Blobs) Close() error {
	err := b.Bucket.Close()
	if b.Closer != nil {
		err = errors.Join(err, b.Closer.Close())
	}
	return err
}

// key checks a name and returns its key.
func (b *Blobs) key(ctx context.Context, name string) (string, error) {
	if err := storage.CheckName(name); err != nil {
		return "", err
	}
	return b.below(name), ctx.Err()
}

func (b *Blobs) below(name string) string {
	switch {
	case b.Path == "":
		return name
	case name == "":
		return b.Path + "/"
	}
	return b.Path + "/" + name
}

// failed says what failed, and what the error means.
func (b *Blobs) failed(ctx context.Context, what, name string, err error) error {
	if name != "" {
		name = "/" + name
	}
	where := b.Name + name
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", what, where, err)
	}
	kind, advice := b.Classify(err)
	err = storage.BrokenOff(err)
	if kind == NoCredentials && !b.worked.Load() {
		kind = Fatal
	}
	switch kind {
	case NotFound:
		if what != reading {
			// The bucket, or nothing that the client knows.
			return fmt.Errorf("%s %s: there is no such place on the server: correct the bucket, or %s: %w", what, where, b.Reach, err)
		}
		return fmt.Errorf("%s: %w", where, storage.ErrNotFound)
	case Exists:
		return fmt.Errorf("%s: %w", where, storage.ErrExists)
	case Fatal:
		return fmt.Errorf("%s %s: %s: %w: %w", what, where, advice, storage.ErrFatal, err)
	}
	if storage.Unreached(err) {
		return fmt.Errorf("%s %s: the server cannot be reached: it is down, or correct %s: %w", what, where, b.Reach, err)
	}
	return fmt.Errorf("%s %s: %w", what, where, err)
}

// Put implements storage.Blobs. Large blobs go up in parts while they are
// written; what fails leaves nothing.
func (b *Blobs) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	key, err := b.key(ctx, name)
	if err != nil {
		return err
	}
	err = b.put(ctx, key, write, &blob.WriterOptions{BufferSize: partSize, MaxConcurrency: concurrency})
	if err != nil {
		return b.failed(ctx, "write", name, err)
	}
	return nil
}

func (b *Blobs) put(ctx context.Context, key string, write func(io.Writer) error, o *blob.WriterOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.ContentType, o.DisableContentTypeDetection = contentType, true
	w, err := b.Bucket.NewWriter(ctx, key, o)
	if err != nil {
		return err
	}
	if err = write(w); err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()      // Close gives up what was written
		_ = w.Close() // its error only repeats that
		return err
	}
	if err = w.Close(); err == nil {
		b.worked.Store(true)
	}
	return err
}

// PutIfAbsent implements storage.Blobs. Clients repeat a request whose answer
// was lost, and find their own blob there: it is known by its metadata.
func (b *Blobs) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	key, err := b.key(ctx, name)
	if err != nil {
		return err
	}
	nonce := rand.Text()
	for attempt := 1; ; attempt++ {
		err := b.put(ctx, key, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}, &blob.WriterOptions{IfNotExist: true, Metadata: map[string]string{nonceKey: nonce}, BufferSize: smallPart, MaxConcurrency: 1})
		if err == nil {
			return nil
		}
		kind, _ := b.Classify(err)
		switch {
		case kind == Exists && ctx.Err() == nil:
			return b.taken(ctx, key, name, nonce)
		case kind != Conflict || attempt == conflicts:
			return b.failed(ctx, "write", name, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(attempt) * 20 * time.Millisecond):
		}
	}
}

// taken finds out whether it is the blob itself that stands under its name.
func (b *Blobs) taken(ctx context.Context, key, name, nonce string) error {
	a, err := b.Bucket.Attributes(ctx, key)
	if err != nil {
		if kind, _ := b.Classify(err); kind != NotFound {
			return b.failed(ctx, "write", name, err)
		}
		// deleted since
	} else if a.Metadata[nonceKey] == nonce {
		return nil
	}
	return fmt.Errorf("%s/%s: %w", b.Name, name, storage.ErrExists)
}

// Get implements storage.Blobs.
func (b *Blobs) Get(ctx context.Context, name string) ([]byte, error) {
	key, err := b.key(ctx, name)
	if err != nil {
		return nil, err
	}
	data, err := b.read(ctx, key, 0, -1)
	if err != nil {
		return nil, b.failed(ctx, reading, name, err)
	}
	return data, nil
}

// read reads n bytes at off, to the end if n is negative. What breaks off is
// read again: clients repeat requests, but not what comes after the first byte.
func (b *Blobs) read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		r, err := b.Bucket.NewRangeReader(ctx, key, off, n, nil)
		if err != nil {
			return nil, err
		}
		// Checked before the allocation: n may come from a damaged file.
		size := r.Size()
		if off > size || n > size-off {
			return nil, errors.Join(shortOf(off, n, size), r.Close())
		}
		length := n
		if n < 0 {
			length = size - off
		}
		data := make([]byte, length)
		_, err = io.ReadFull(r, data)
		b.worked.Store(true)
		if err = errors.Join(err, r.Close()); err == nil || attempt == reads || ctx.Err() != nil {
			return data, err
		}
	}
}

func shortOf(off, n, size int64) error {
	return fmt.Errorf("%d bytes at %d of %d: %w", n, off, size, storage.ErrPastEnd)
}

// GetRange implements storage.Blobs.
func (b *Blobs) GetRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	key, err := b.key(ctx, name)
	if err != nil {
		return nil, err
	}
	var data []byte
	if off >= 0 && n > 0 {
		if data, err = b.read(ctx, key, off, n); err == nil {
			return data, nil
		}
	}
	// A range beyond the end is told in many ways, and an empty one is none.
	a, failed := b.Bucket.Attributes(ctx, key)
	switch {
	case failed != nil:
		err = failed
	case off < 0 || n < 0 || off > a.Size || n > a.Size-off:
		err = shortOf(off, n, a.Size)
	}
	if err != nil {
		return nil, b.failed(ctx, reading, name, err)
	}
	return []byte{}, nil
}

// List implements storage.Blobs. Not every server lists in order.
func (b *Blobs) List(ctx context.Context, prefix string, fn func(name string, size int64) error) error {
	dir := strings.TrimSuffix(prefix, "/")
	if dir != "" {
		if err := storage.CheckName(dir); err != nil {
			return err
		}
		dir += "/"
	}
	entries, err := b.entries(ctx, dir)
	if err != nil {
		return b.failed(ctx, "list", dir, err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(e.name, e.size); err != nil {
			return err
		}
	}
	return nil
}

type entry struct {
	name string
	size int64
}

func (b *Blobs) entries(ctx context.Context, dir string) ([]entry, error) {
	var all []entry
	it := b.Bucket.List(&blob.ListOptions{Prefix: b.below(dir)})
	for {
		o, err := it.Next(ctx)
		if err == io.EOF { //nolint:errorlint // what wraps it is a connection that broke off
			break
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(o.Key, b.below(""))
		if o.IsDir || storage.CheckName(name) != nil {
			continue // none of ours, as the marker of a directory
		}
		all = append(all, entry{name, o.Size})
	}
	slices.SortFunc(all, func(x, y entry) int { return strings.Compare(x.name, y.name) })
	return all, nil
}

// Delete implements storage.Blobs.
func (b *Blobs) Delete(ctx context.Context, name string) error {
	key, err := b.key(ctx, name)
	if err != nil {
		return err
	}
	err = b.Bucket.Delete(ctx, key)
	if err == nil {
		return nil
	}
	if kind, _ := b.Classify(err); kind == NotFound {
		return nil
	}
	return b.failed(ctx, "delete", name, err)
}

// RemoveStale aborts uploads below prefix that began before the given time and
// never ended, and returns how many.
func (b *Blobs) RemoveStale(ctx context.Context, prefix string, before time.Time) (int, error) {
	if b.Stale == nil {
		return 0, nil
	}
	n, err := b.Stale(ctx, b.below(prefix)+"/", before)
	if err != nil {
		err = b.failed(ctx, "look for unfinished uploads to", prefix, err)
	}
	return n, err
}
