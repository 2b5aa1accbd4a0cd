package storagetest

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"

	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

// Scheme serves URLs with storages in memory: test://bucket/path.
type Scheme struct {
	// Wrap, if set, comes between each bucket and who opens it.
	Wrap func(storage.Blobs) storage.Blobs
	// Err, if set, is what Open returns.
	Err error

	mu      sync.Mutex
	buckets map[string]storage.Blobs
	open    int
	queries []string
}

// Schemes implements storage.Scheme.
func (s *Scheme) Schemes() []string { return []string{"test"} }

// Open implements storage.Scheme.
func (s *Scheme) Open(_ context.Context, u *url.URL) (storage.Blobs, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Err != nil {
		return nil, s.Err
	}
	s.open++
	s.queries = append(s.queries, u.RawQuery)
	return &rooted{s.bucketLocked(u.Host), s, "test://" + u.Host + u.Path, strings.TrimPrefix(u.Path, "/")}, nil
}

// Bucket returns what lies in a bucket.
func (s *Scheme) Bucket(name string) storage.Blobs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bucketLocked(name)
}

func (s *Scheme) bucketLocked(name string) storage.Blobs {
	b := s.buckets[name]
	if b == nil {
		b = mem.New()
		if s.Wrap != nil {
			b = s.Wrap(b)
		}
		if s.buckets == nil {
			s.buckets = map[string]storage.Blobs{}
		}
		s.buckets[name] = b
	}
	return b
}

// Opened returns how many storages are open, and the parameters of all that
// were opened.
func (s *Scheme) Opened() (now int, queries []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open, s.queries
}

// rooted is the part of a bucket below a path.
type rooted struct {
	storage.Blobs
	scheme *Scheme
	name   string
	path   string
}

func (r *rooted) String() string { return r.name }

func (r *rooted) Close() error {
	r.scheme.mu.Lock()
	defer r.scheme.mu.Unlock()
	r.scheme.open--
	return nil
}

func (r *rooted) full(name string) string {
	if r.path == "" {
		return name
	}
	return r.path + "/" + name
}

func (r *rooted) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	return r.Blobs.Put(ctx, r.full(name), write)
}

func (r *rooted) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return r.Blobs.PutIfAbsent(ctx, r.full(name), data)
}

func (r *rooted) Get(ctx context.Context, name string) ([]byte, error) {
	return r.Blobs.Get(ctx, r.full(name))
}

func (r *rooted) GetRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	return r.Blobs.GetRange(ctx, r.full(name), off, n)
}

func (r *rooted) List(ctx context.Context, prefix string, fn func(string, int64) error) error {
	return r.Blobs.List(ctx, strings.TrimSuffix(r.full(prefix), "/"), func(name string, size int64) error {
		rest, ok := strings.CutPrefix(name, r.full(""))
		if !ok {
			return fmt.Errorf("%s is not below %s", name, r.name)
		}
		return fn(rest, size)
	})
}

func (r *rooted) Delete(ctx context.Context, name string) error {
	return r.Blobs.Delete(ctx, r.full(name))
}
