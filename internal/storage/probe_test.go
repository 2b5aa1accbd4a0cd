package storage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// That a storage does not answer is told although it cannot be cleaned up
// either, and cancelling the trial ends it.
func TestProbeOfAStorageThatIsAway(t *testing.T) {
	refused := errors.New("connection refused")
	for name, c := range map[string]struct {
		faults []storagetest.Fault
		want   error
	}{
		"away":   {[]storagetest.Fault{{Op: storagetest.PutIfAbsent, Times: -1, Err: refused}, {Op: storagetest.Delete, Times: -1, Wait: make(chan struct{})}}, refused},
		"hangs":  {[]storagetest.Fault{{Op: storagetest.Delete, Times: -1, Wait: make(chan struct{})}}, context.DeadlineExceeded},
		"slowly": {[]storagetest.Fault{{Op: storagetest.PutIfAbsent, Times: -1, Wait: make(chan struct{})}, {Op: storagetest.Delete, Times: -1, Wait: make(chan struct{})}}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := storagetest.NewFaulty(mem.New())
				for i := range c.faults {
					if c.faults[i].Wait != nil {
						c.faults[i].Wait = make(chan struct{}) // of the bubble
					}
				}
				b.Script(c.faults...)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Minute, cancel)
				if err := storage.Probe(ctx, b, "job"); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		})
	}
}

func TestUnreached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String()
	l.Close()
	plain, tls := httptest.NewServer(http.NotFoundHandler()), httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	tls.StartTLS()
	defer plain.Close()
	defer tls.Close()
	get := func(url string) error {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // by no proxy
		answer, err := client.Get(url)
		if err == nil {
			err = answer.Body.Close()
		}
		return fmt.Errorf("get %s: %w", url, err)
	}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nobody listens":       {get(nobody), true},
		"no such host":         {get("http://no-such-host.invalid"), true},
		"not encrypted":        {get(strings.Replace(plain.URL, "http:", "https:", 1)), true},
		"an unknown authority": {get(tls.URL), true},
		"an answer":            {errors.New("503 Service Unavailable"), false},
		"broken off":           {&net.OpError{Op: "read", Err: io.ErrUnexpectedEOF}, false},
	} {
		if got := storage.Unreached(c.err); got != c.want {
			t.Errorf("%s: %t (%v)", name, got, c.err)
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
