//go:build unix

package heap

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
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
	return newBenchWith(b, make1, keys, func(*Options) {}, fields...)
}

func newBenchWith[K comparable](b *testing.B, make1 func(i int) K, keys int, with func(*Options), fields ...*entry.Field) *bench[K] {
	b.Helper()
	x := &bench[K]{pool: memory.NewPool(0), cur: &entry.Cursor{}}
	o := Options{Operator: "bench", Fields: fields, Cursor: x.cur, MaxParallelism: 128,
		Range: keygroup.Range{First: 0, Last: 127}, Pool: x.pool, Clock: func() int64 { return 0 }}
	with(&o)
	s, err := New[K](o)
	if err != nil {
		b.Fatal(err)
	}
	x.store = s
	hasher, err := keygroup.NewHasher[K]()
	if err != nil {
		b.Fatal(err)
	}
	// Every key once, in random order; the bytes of strings lie in that order,
	// as those of a batch do.
	order := rand.New(rand.NewPCG(1, 2)).Perm(max(keys, benchBatch))
	all := make([]K, len(order))
	for i, k := range order {
		all[i] = make1(k % keys)
	}
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

func count[K comparable](b *testing.B, key func(int) K, keys int, with ...func(*Options)) {
	n := newNumber("count")
	x := newBenchWith(b, key, keys, func(o *Options) {
		for _, w := range with {
			w(o)
		}
	}, n.Field)
	x.each(0, len(x.keys), func() { n.add(x.cur) })
	b.ReportAllocs()
	b.ResetTimer()
	start := cpuTime(b)
	x.each(0, b.N, func() { n.add(x.cur) })
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
	if x.store.Len() != keys {
		b.Fatalf("%d keys", x.store.Len())
	}
	st := x.store.Stats()
	b.ReportMetric(float64(st.Bytes)/float64(st.Keys), "B/key")
	b.ReportMetric(st.MeanProbe, "probe")
}

// cpuTime is the CPU time of the process in nanoseconds: a steadier measure
// than time on a machine that does other things.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func BenchmarkEncode(b *testing.B) {
	const keys = 1_000_000
	n := newNumber("count")
	x := newBench(b, int64Key, keys, n.Field)
	x.each(0, keys, func() { n.add(x.cur) })
	b.ReportAllocs()
	b.ResetTimer()
	start := cpuTime(b)
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
	b.ReportMetric(float64(cpuTime(b)-start)/1e6/float64(b.N), "cpu-ms/Mkeys")
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

// BenchmarkTimers is one timer per record, the former one of the key deleted,
// with the watermark 10 s behind the records, as a session timeout has it.
func BenchmarkTimers(b *testing.B) {
	benchmarkTimers(b, 4, func(x *bench[int64], last number, now int64) {
		if at, ok := last.get(x.cur); ok {
			x.cur.Timers.Delete(entry.EventTime, at)
		}
		last.set(x.cur, now+10_000)
		x.cur.Timers.Set(entry.EventTime, now+10_000)
	})
}

// BenchmarkTimersFire sets one timer per record and fires it later.
func BenchmarkTimersFire(b *testing.B) {
	benchmarkTimers(b, 2, func(x *bench[int64], n number, now int64) {
		n.add(x.cur)
		x.cur.Timers.Set(entry.EventTime, now+1000)
	})
}

// benchmarkTimers runs fn for each record, after some rounds over all keys;
// event time goes on by 10 ms per batch.
func benchmarkTimers(b *testing.B, rounds int, fn func(x *bench[int64], n number, now int64)) {
	const keys = 1_000_000
	n := newNumber("n")
	x := newBench(b, int64Key, keys, n.Field, NewTimerField(entry.EventTime))
	now, fired := int64(0), 0
	onTimer := func(int64) error { fired++; return nil }
	work := func(from, count int) {
		for count > 0 {
			k := min(benchBatch, count)
			x.each(from, k, func() { fn(x, n, now) })
			now += 10
			for more := true; more; {
				_, more, _ = x.store.AdvanceEventTime(now, benchBatch, onTimer)
			}
			from, count = from+k, count-k
		}
	}
	work(0, rounds*keys)
	fired = 0
	b.ReportAllocs()
	b.ResetTimer()
	start := cpuTime(b)
	work(0, b.N)
	b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(fired)/float64(b.N), "fired/op")
}

// BenchmarkCountWhileSnapshot is BenchmarkCount with a snapshot every million
// records, encoded by another goroutine.
func BenchmarkCountWhileSnapshot(b *testing.B) {
	const keys = 1_000_000
	n := newNumber("count")
	x := newBench(b, int64Key, keys, n.Field)
	x.each(0, keys, func() { n.add(x.cur) })
	frozen := make(chan *Frozen)
	done := make(chan error, 1)
	go func() {
		var failed error
		for f := range frozen {
			if _, err := encodeTo(f, &discard{}); err != nil {
				failed = err
			}
			f.Release()
		}
		done <- failed
	}()
	b.ReportAllocs()
	b.ResetTimer()
	for from := 0; from < b.N; from += keys {
		f := x.store.Freeze()
		frozen <- f
		x.each(from, min(keys, b.N-from), func() { n.add(x.cur) })
	}
	b.StopTimer()
	close(frozen)
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

func encodeTo(f *Frozen, w GroupWriter) (int, error) {
	for g := f.Groups().First; g <= f.Groups().Last; g++ {
		if err := f.EncodeGroup(g, w); err != nil {
			return g, err
		}
	}
	return f.Groups().Len(), nil
}
