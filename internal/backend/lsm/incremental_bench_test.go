//go:build unix

package lsm

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/state"
)

// BenchmarkIncremental takes a checkpoint in files of a store with two million
// keys of 100 bytes, which are all in memory, after a part of them has changed: the
// same each time, or others. cpu-ns/row is that of the whole process, with
// compactions and with making the changes.
func BenchmarkIncremental(b *testing.B) {
	for _, c := range []struct {
		changed int
		hot     bool
	}{{1, true}, {1, false}, {16, false}, {100, false}} {
		b.Run(fmt.Sprintf("changed=%d%%/same=%v", c.changed, c.hot), func(b *testing.B) { incrementalBench(b, c.changed, c.hot) })
	}
}

func incrementalBench(b *testing.B, percent int, hot bool) {
	const keys, batch = 2_000_000, 1000
	d, err := Open(Options{Dir: b.TempDir(), Memory: 1 << 30, Stores: 1, Incremental: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	pool, cur := memory.NewPool(0), &entry.Cursor{}
	reg := state.NewRegistry("op").Bind(cur)
	text := state.ValueIn[string](reg, "text")
	o := heap.Options{Operator: "op", Fields: reg.Fields(), Cursor: cur, MaxParallelism: 128,
		Range: keygroup.Range{First: 0, Last: 127}, Pool: pool, Share: d.Share(), Settle: true}
	if o.Tier, err = d.Tier("op"); err != nil {
		b.Fatal(err)
	}
	s, err := heap.New[int64](o)
	if err != nil {
		b.Fatal(err)
	}
	h, _ := keygroup.NewHasher[int64]()
	rng := rand.New(rand.NewPCG(1, 2))
	ks, hashes := make([]int64, batch), make([]uint32, batch)
	pad := strings.Repeat("x", 92)
	change := func(n int, key func(i int) int64) {
		for from := 0; from < n; from += batch {
			for i := range ks {
				ks[i] = key(from + i)
				hashes[i] = h.Hash(ks[i])
			}
			s.Bind(ks, hashes)
			for i := range ks {
				s.Seek(i)
				if err := text.Set(pad + fmt.Sprintf("%08d", rng.IntN(1e8))); err != nil {
					b.Fatal(err)
				}
			}
		}
		s.Release()
	}
	blobs := file.New(b.TempDir())
	uploads := snapshot.NewUploads(snapshot.Writer{Lineage: "l", Attempt: 1, Stage: "op"}, nil)
	id, bytes, old := int64(0), int64(0), map[string]bool{}
	checkpoint := func() {
		id++
		up := uploads.Begin(id, blobs, snapshot.CheckpointDir("job", id), true)
		f := s.Freeze()
		if _, err := f.StoreNative(context.Background(), up); err != nil {
			b.Fatal(err)
		}
		f.Release()
		up.Done()
		uploads.Complete(id)
		bytes += up.Bytes()
		now := map[string]bool{}
		for _, f := range up.Files() {
			now[f.Name] = true
		}
		for name := range old {
			if !now[name] {
				_ = blobs.Delete(context.Background(), snapshot.CheckpointDir("job", id)+"/"+name)
			}
		}
		old = now
	}
	change(keys, func(i int) int64 { return int64(i) })
	checkpoint()
	n := keys / 100 * percent
	b.ResetTimer()
	bytes = 0
	begin := cpu()
	for range b.N {
		change(n, func(i int) int64 {
			if hot {
				return int64(i) * 99
			}
			return rng.Int64N(keys)
		})
		checkpoint()
	}
	b.ReportMetric(float64(cpu()-begin)/float64(b.N)/float64(n), "cpu-ns/row")
	b.ReportMetric(float64(bytes)/float64(b.N)/float64(n), "B/row")
	b.StopTimer()
	m := o.Tier.(*Tier).db.Metrics()
	b.Logf("compactions %d, %s, L0 %d files %d sublevels", m.Compact.Count, m.Compact.Duration, m.Levels[0].TablesCount, m.Levels[0].Sublevels)
	s.Close()
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
}
