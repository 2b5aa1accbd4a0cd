package storage_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/internal/storage/storagetest"
)

func replace(ctx context.Context, b storage.Blobs, name string, data []byte) error {
	return b.Put(ctx, name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Storages that break the promise of PutIfAbsent, each in its way.
type (
	ignores  struct{ storage.Blobs }
	oneByOne struct {
		storage.Blobs
		looked atomic.Int32
		all    chan struct{}
	}
	lies struct{ storage.Blobs }
)

func (b ignores) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return replace(ctx, b.Blobs, name, data)
}

// PutIfAbsent lets the first two callers look before either writes.
func (b *oneByOne) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	_, err := b.Get(ctx, name)
	switch n := b.looked.Add(1); {
	case n == 2:
		close(b.all)
	case n == 1:
		<-b.all
	}
	if err == nil {
		return storage.ErrExists
	}
	return replace(ctx, b.Blobs, name, data)
}

func (b lies) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if err := b.Blobs.PutIfAbsent(ctx, name, data); err != nil {
		return errors.Join(err, replace(ctx, b.Blobs, name, data))
	}
	return nil
}

func TestProbeRefusesWhatIsNotAtomic(t *testing.T) {
	for _, b := range []storage.Blobs{ignores{mem.New()}, &oneByOne{Blobs: mem.New(), all: make(chan struct{})}, lies{mem.New()}} {
		err := storage.Probe(t.Context(), b, "job")
		if !errors.Is(err, storage.ErrFatal) || !strings.Contains(err.Error(), "atomic conditional writes") {
			t.Errorf("%T: %v", b, err)
		}
		wantEmpty(t, b)
	}
}

func TestProbeLeavesNothing(t *testing.T) {
	b := mem.New()
	for range 3 {
		if err := storage.Probe(t.Context(), b, "job"); err != nil {
			t.Fatal(err)
		}
	}
	wantEmpty(t, b)
}

// A storage that fails is not one that breaks promises.
func TestProbeOfAStorageThatFails(t *testing.T) {
	broken := errors.New("reset by peer")
	for _, op := range []storagetest.Op{storagetest.PutIfAbsent, storagetest.Get, storagetest.Delete} {
		b := storagetest.NewFaulty(mem.New())
		b.Script(storagetest.Fault{Op: op, Err: broken})
		if err := storage.Probe(t.Context(), b, "job"); !errors.Is(err, broken) || errors.Is(err, storage.ErrFatal) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func wantEmpty(t *testing.T, b storage.Blobs) {
	t.Helper()
	err := b.List(t.Context(), "", func(name string, _ int64) error {
		t.Errorf("%s is left", name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
