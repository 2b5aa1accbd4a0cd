package lsm

import (
	"flag"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/internal/backend/backendtest"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/keygroup"
)

// seeds is how many random runs there are of each kind.
var seeds = flag.Int("seeds", 1, "random runs of each kind")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is lsm with an amount of memory per store.
func backend(name string, bytes int64) backendtest.Backend {
	return backendtest.Backend{Name: name, Prepare: func(t testing.TB, o *heap.Options) {
		d, err := Open(Options{Dir: t.TempDir(), Memory: bytes, Stores: 1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		if o.Tier, err = d.Tier(o.Operator); err != nil {
			t.Fatal(err)
		}
		o.Share = d.Share()
	}}
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
	for _, b := range []backendtest.Backend{backend("tiny", 1000), backend("small", 400<<10), backend("ample", 64<<20)} {
		t.Run(b.Name, func(t *testing.T) {
			backendtest.Run(t, b, backendtest.Options{Seeds: *seeds, Steps: 120, Brief: b.Name != "tiny", Others: []backendtest.Backend{backendtest.Heap, backend("other", 20<<10)}})
		})
	}
}
