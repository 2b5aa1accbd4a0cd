package lsm

import (
	"errors"
	"flag"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/backend/backendtest"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

// seeds is how many random runs there are of each kind.
var seeds = flag.Int("seeds", 1, "random runs of each kind")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is lsm with an amount of memory per store.
func backend(name string, bytes int64) backendtest.Backend {
	disk := func(t testing.TB) *Disk {
		d, err := Open(Options{Dir: t.TempDir(), Memory: bytes, Stores: 1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	return backendtest.Backend{Name: name, Prepare: func(t testing.TB, o *heap.Options) {
		d := disk(t)
		var err error
		if o.Tier, err = d.Tier(o.Operator); err != nil {
			t.Fatal(err)
		}
		o.Share = d.Share()
	}}
}

// incremental is a backend whose snapshots are stored as files.
func incremental(name string, bytes int64) backendtest.Backend {
	b := backend(name, bytes)
	prepare := b.Prepare
	b.Prepare = func(t testing.TB, o *heap.Options) {
		prepare(t, o)
		o.Settle = true
	}
	stored := func(t testing.TB, s *backendtest.Stored) *Stored {
		n, err := NewStored(s.Blobs, s.Dir, s.Native, s.Files, s.Groups)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	b.Reopen = func(t testing.TB, o *heap.Options, all []*backendtest.Stored) {
		prepare(t, o)
		d := o.Tier.(*Tier).disk
		o.Tier.Close()
		var from []*Stored
		for _, s := range all {
			from = append(from, stored(t, s))
		}
		tier, err := d.Reopen(t.Context(), o.Operator, o.Range, from)
		if err != nil {
			t.Fatal(err)
		}
		o.Tier, o.Stored, o.Filled, o.Settle = tier, tier.Stored(), true, true
	}
	b.Read = func(t testing.TB, s *backendtest.Stored, key codec.Format, fn func(int, snapshot.State, int, []byte) error) {
		v, err := OpenSnapshot(t.Context(), stored(t, s))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(v.Sections(s.Groups, key, s.Native.States, fn), v.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// both is a backend whose snapshots are stored as changes while all is in
// memory, and then as files.
func both(name string, bytes int64) backendtest.Backend {
	b := incremental(name, bytes)
	prepare := b.Prepare
	b.Prepare = func(t testing.TB, o *heap.Options) {
		prepare(t, o)
		o.Incremental = true
	}
	return b
}

// eachKey makes n keys, from the first on, current one after the other.
func eachKey(s *heap.Store[int64], first, n int64, fn func(k int64)) {
	h, _ := keygroup.NewHasher[int64]()
	for k := first; k < first+n; k++ {
		s.Bind([]int64{k}, []uint32{h.Hash(k)})
		s.Seek(0)
		fn(k)
		s.Release()
	}
}

// The suite runs with next to no memory, so that nearly everything is read
// from disk and evicted again; with some; and with enough for all.
func TestSuite(t *testing.T) {
	for _, b := range []backendtest.Backend{backend("tiny", 1000), backend("small", 400<<10), backend("ample", 64<<20),
		incremental("tiny and incremental", 1000), incremental("small and incremental", 400<<10), incremental("ample and incremental", 64<<20),
		both("small at last", 400<<10), both("less at last", 100<<10), both("ample at last", 64<<20)} {
		t.Run(b.Name, func(t *testing.T) {
			backendtest.Run(t, b, backendtest.Options{Seeds: *seeds, Steps: 120, Brief: !strings.HasPrefix(b.Name, "tiny"), Others: []backendtest.Backend{backendtest.Heap, backend("other", 20<<10)}})
		})
	}
}

// While all state is in memory, snapshots are those of the heap.
func TestIncrementsInMemory(t *testing.T) {
	backendtest.RunIncrements(t, both("ample at last", 64<<20), backendtest.Options{Seeds: *seeds, Steps: 150})
}
