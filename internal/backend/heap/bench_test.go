package heap

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

const benchBatch = 1024

type bench[K comparable] struct {
	pool   *memory.Pool
	cur    *entry.Cursor
	store  *Store[K]
	keys   []K
	hashes []uint32
}

func newBench[K comparable](b *testing.B, make1 func(i int) K, keys int, fields ...*entry.Field) *bench[K] {
	b.Helper()
	x := &bench[K]{pool: memory.NewPool(0), cur: &entry.Cursor{}}
	s, err := New[K](Options{Operator: "bench", Fields: fields, Cursor: x.cur, MaxParallelism: 128,
		Range: keygroup.Range{First: 0, Last: 127}, Pool: x.pool, Clock: func() int64 { return 0 }})
	if err != nil {
		b.Fatal(err)
	}
	x.store = s
	hasher, err := keygroup.NewHasher[K]()
	if err != nil {
		b.Fatal(err)
	}
	// A million records, uniform over the keys, after every key once.
	rng := rand.New(rand.NewPCG(1, 2))
	all := make([]K, max(keys, benchBatch))
	for i := range all {
		all[i] = make1(i % keys)
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	x.keys = all
	x.hashes = make([]uint32, len(all))
	hasher.HashAll(all, x.hashes)
	b.Cleanup(func() {
		s.Close()
		if n := x.pool.InUse(); n != 0 {
			b.Errorf("%d bytes in use after Close", n)
		}
		x.pool.Close()
	})
	return x
}

// each calls fn for n records in batches, going round the keys.
func (x *bench[K]) each(from, n int, fn func()) {
	for n > 0 {
		at := from % len(x.keys)
		k := min(benchBatch, n, len(x.keys)-at)
		x.store.Bind(x.keys[at:at+k], x.hashes[at:at+k])
		for i := range k {
			x.store.Seek(i)
			fn()
		}
		x.store.Release()
		from, n = from+k, n-k
	}
}

func int64Key(i int) int64 { return int64(i) * 7919 }

func stringKey(i int) string {
	return fmt.Sprintf("%08x-%04x-4000-8000-%012x", uint32(i)*2654435761, i&0xffff, i)
}

func BenchmarkCount(b *testing.B) {
	for _, keys := range []int{1000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("int64/keys=%d", keys), func(b *testing.B) { count(b, int64Key, keys) })
	}
	for _, keys := range []int{1000, 1_000_000, 10_000_000} {
		if keys > 1_000_000 && testing.Short() {
			continue
		}
		b.Run(fmt.Sprintf("string36/keys=%d", keys), func(b *testing.B) { count(b, stringKey, keys) })
	}
}

func count[K comparable](b *testing.B, key func(int) K, keys int) {
	n := newNumber("count")
	x := newBench(b, key, keys, n.Field)
	x.each(0, len(x.keys), func() { n.add(x.cur) })
	b.ReportAllocs()
	b.ResetTimer()
	x.each(0, b.N, func() { n.add(x.cur) })
	b.StopTimer()
	if x.store.Len() != keys {
		b.Fatalf("%d keys", x.store.Len())
	}
	st := x.store.Stats()
	b.ReportMetric(float64(st.Bytes)/float64(st.Keys), "B/key")
	b.ReportMetric(st.MeanProbe, "probe")
}

type discard struct{ bytes, count int }

func (d *discard) Section(_ snapshot.State, count int, data []byte) error {
	d.bytes += len(data)
	d.count += count
	return nil
}

func BenchmarkEncode(b *testing.B) {
	const keys = 1_000_000
	n := newNumber("count")
	x := newBench(b, int64Key, keys, n.Field)
	x.each(0, keys, func() { n.add(x.cur) })
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		var d discard
		f := x.store.Freeze()
		for g := range 128 {
			if err := f.EncodeGroup(g, &d); err != nil {
				b.Fatal(err)
			}
		}
		f.Release()
		if d.count != keys || d.bytes != 16*keys {
			b.Fatal(d)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/Mkeys")
}

// BenchmarkFreeze is the time in the barrier alone.
func BenchmarkFreeze(b *testing.B) {
	const keys = 1_000_000
	n := newNumber("count")
	x := newBench(b, int64Key, keys, n.Field)
	x.each(0, keys, func() { n.add(x.cur) })
	var worst int64
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		start := b.Elapsed()
		f := x.store.Freeze()
		worst = max(worst, int64(b.Elapsed()-start))
		f.Release()
	}
	b.ReportMetric(float64(worst), "max-ns")
}
