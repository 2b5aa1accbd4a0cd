// Package state benchmarks keyed state without a job around it: what a
// snapshot costs, and for how long a barrier holds up a stage.
package state

import (
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/state"
)

const (
	keys   = 1_000_000
	groups = 128
	batch  = 1024
)

// counter is a count per key, in the state of one subtask that owns all key
// groups.
type counter struct {
	store  *heap.Store[int64]
	count  state.Value[int64]
	keys   []int64
	hashes []uint32
	next   int
}

func newCounter(tb testing.TB) *counter {
	tb.Helper()
	c := &counter{keys: make([]int64, keys), hashes: make([]uint32, keys)}
	cur := &entry.Cursor{}
	declared := state.NewRegistry("count")
	state.ValueIn[int64](declared, "count")
	r := declared.Bind(cur)
	c.count = state.ValueIn[int64](r, "count")
	pool := memory.NewPool(0)
	s, err := heap.New[int64](heap.Options{
		Operator: "count", Fields: r.Fields(), Cursor: cur, MaxParallelism: groups,
		Range: keygroup.Range{First: 0, Last: groups - 1}, Pool: pool,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		s.Close()
		pool.Close()
	})
	c.store = s
	h, err := keygroup.NewHasher[int64]()
	if err != nil {
		tb.Fatal(err)
	}
	for i := range c.keys {
		c.keys[i] = int64(uint64(i) * 0x9e3779b97f4a7c15)
	}
	h.HashAll(c.keys, c.hashes)
	c.update(tb, keys)
	return c
}

// update counts n keys, batch by batch.
func (c *counter) update(tb testing.TB, n int) {
	for n > 0 {
		k := min(batch, n, keys-c.next)
		c.store.Bind(c.keys[c.next:c.next+k], c.hashes[c.next:c.next+k])
		for i := range k {
			c.store.Seek(i)
			v, err := c.count.Get()
			if err == nil {
				err = c.count.Set(v + 1)
			}
			if err != nil {
				tb.Fatal(err)
			}
		}
		c.store.Release()
		c.next = (c.next + k) % keys
		n -= k
	}
}

// write encodes a frozen store as a checkpoint does and returns its size.
func (c *counter) write(f *heap.Frozen) (int64, error) {
	defer f.Release()
	w := snapshot.NewFileWriter(io.Discard, snapshot.S2)
	for g := range groups {
		if err := w.BeginGroup(g); err != nil {
			return 0, err
		}
		if err := f.EncodeGroup(g, w.Operator("count", c.store.KeyFormat())); err != nil {
			return 0, err
		}
		if err := w.EndGroup(); err != nil {
			return 0, err
		}
	}
	size, _, err := w.Close()
	return size, err
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSnapshot writes a million keys with 8-byte keys and values.
func BenchmarkSnapshot(b *testing.B) {
	c := newCounter(b)
	b.ReportAllocs()
	b.ResetTimer()
	begin := cpu()
	var size int64
	for range b.N {
		n, err := c.write(c.store.Freeze())
		if err != nil {
			b.Fatal(err)
		}
		size = n
	}
	b.ReportMetric(float64((cpu()-begin).Microseconds())/1e3/float64(b.N), "cpu-ms/Mkeys")
	b.ReportMetric(float64(size)/keys, "bytes/key")
}

// BenchmarkBarrier takes 100 barriers at a million keys, each while all keys
// are updated and encoded beside, and reports the longest.
func BenchmarkBarrier(b *testing.B) {
	c := newCounter(b)
	b.ResetTimer()
	for range b.N {
		var longest time.Duration
		for range 100 {
			begin := time.Now()
			f := c.store.Freeze()
			longest = max(longest, time.Since(begin))
			done := make(chan error)
			go func() {
				_, err := c.write(f)
				done <- err
			}()
			c.update(b, keys)
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(longest.Nanoseconds())/1e3, "max-barrier-µs")
	}
}
