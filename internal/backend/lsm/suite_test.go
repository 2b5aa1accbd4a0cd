package lsm

import (
	"flag"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/internal/backend/backendtest"
	"github.com/weirstream/weir/internal/backend/heap"
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

// The suite runs with next to no memory, so that nearly everything is read
// from disk and evicted again; with some; and with enough for all.
func TestSuite(t *testing.T) {
	for _, b := range []backendtest.Backend{backend("tiny", 1000), backend("small", 400<<10), backend("ample", 64<<20)} {
		t.Run(b.Name, func(t *testing.T) {
			backendtest.Run(t, b, backendtest.Options{Seeds: *seeds, Steps: 120, Brief: b.Name != "tiny", Others: []backendtest.Backend{backendtest.Heap, backend("other", 20<<10)}})
		})
	}
}
