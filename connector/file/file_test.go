package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/weirstream/weir/connector/connectortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch is when the files of tests were written.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// tree is a file system in memory.
type tree = fstest.MapFS

// files makes a tree of names and contents in turn.
func files(namesAndContents ...string) tree {
	t := tree{}
	for i := 0; i < len(namesAndContents); i += 2 {
		put(t, namesAndContents[i], namesAndContents[i+1], epoch)
	}
	return t
}

func put(t tree, name, content string, at time.Time) {
	t[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o600, ModTime: at}
}

// shared is a tree that changes while it is read.
type shared struct {
	mu sync.Mutex
	tree
}

func (s *shared) Open(name string) (fs.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree.Open(name)
}

func (s *shared) change(fn func(tree)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s.tree)
}

// only hides what a tree can do beyond Open, which would not lock.
type only struct{ fs.FS }

type run[T any] struct {
	*connectortest.SourceRun[T, Split, Enumeration]
	t      testing.TB
	closed bool
}

// start starts a source; it is closed with the test.
func start[T any](t testing.TB, src *Files[T], parallelism int, from *connectortest.SourceSnapshot, c *connectortest.Context) *run[T] {
	t.Helper()
	r, err := connectortest.StartSource(src, parallelism, from, c)
	if err != nil {
		t.Fatal(err)
	}
	started := &run[T]{SourceRun: r, t: t}
	t.Cleanup(started.close)
	return started
}

func (r *run[T]) close() {
	if r.closed {
		return
	}
	r.closed = true
	if err := r.SourceRun.Close(); err != nil {
		r.t.Error(err)
	}
}

// toEnd runs to the end of the input and returns the values.
func (r *run[T]) toEnd() []T {
	r.t.Helper()
	if err := r.Run(deadline(r.t)); err != nil {
		r.t.Fatal(err)
	}
	return r.Values()
}

func (r *run[T]) snapshot(id int64) *connectortest.SourceSnapshot {
	r.t.Helper()
	s, err := r.Snapshot(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// read reads a source to its end.
func read[T any](t testing.TB, src *Files[T]) []T {
	t.Helper()
	r := start(t, src, 1, nil, nil)
	defer r.close()
	return r.toEnd()
}

// fails runs a source until it fails and returns the error.
func fails[T any](t testing.TB, src *Files[T]) error {
	t.Helper()
	r, err := connectortest.StartSource(src, 1, nil, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	err = r.Run(deadline(t))
	if err == nil {
		t.Fatalf("the source ended, with %v", r.Values())
	}
	return err
}

func want[T comparable](t testing.TB, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", show(got), show(want))
	}
}

func show[T any](vals []T) string {
	s := fmt.Sprintf("%+v", vals)
	return s[:min(len(s), 400)]
}

func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one about %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func gzipped(members ...string) string {
	var b bytes.Buffer
	for _, m := range members {
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, m)
		_ = w.Close()
	}
	return b.String()
}

func zstded(frames ...string) string {
	var b bytes.Buffer
	for _, f := range frames {
		w, _ := zstd.NewWriter(&b)
		_, _ = io.WriteString(w, f)
		_ = w.Close()
	}
	return b.String()
}

// chunked is a storage that gives at most n bytes at once.
type chunked struct {
	Storage
	n int
}

func (c chunked) Open(ctx context.Context, path string, offset int64) (io.ReadCloser, error) {
	f, err := c.Storage.Open(ctx, path, offset)
	if err != nil {
		return nil, err
	}
	return &chunks{f, c.n}, nil
}

type chunks struct {
	io.ReadCloser
	n int
}

func (c *chunks) Read(b []byte) (int, error) { return c.ReadCloser.Read(b[:min(len(b), c.n)]) }

// blockOf makes the blocks of lines small.
func blockOf(bytes int) LineOption { return func(c *lineConfig) { c.block = bytes } }

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
