package heap

import (
	"testing"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
)

// expiring is a store of keys that each live for ttl batches.
type expiring struct {
	t     *testing.T
	cur   *entry.Cursor
	s     text
	store *Store[int64]
	pool  *memory.Pool
	hash  func(int64) uint32
	now   int64
	next  int64
}

func newExpiring(t *testing.T, ttl int64) *expiring {
	return expiringField(t, newText("seen", ttl))
}

func expiringField(t *testing.T, f text) *expiring {
	x := &expiring{t: t, cur: &entry.Cursor{}, s: f, pool: memory.NewPool(0)}
	var err error
	x.store, err = New[int64](Options{Operator: "op", Fields: []*entry.Field{x.s.Field}, Cursor: x.cur,
		MaxParallelism: 16, Range: whole(16), Pool: x.pool, Clock: func() int64 { return x.now }})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := keygroup.NewHasher[int64]()
	x.hash = h.Hash
	t.Cleanup(func() {
		x.store.Close()
		if n := x.pool.InUse(); n != 0 {
			t.Errorf("%d bytes in use after Close", n)
		}
		x.pool.Close()
	})
	return x
}

// batch writes n new keys.
func (x *expiring) batch(n int) {
	keys, hashes := make([]int64, n), make([]uint32, n)
	for i := range keys {
		keys[i] = x.next
		hashes[i] = x.hash(x.next)
		x.next++
	}
	x.store.Bind(keys, hashes)
	for i := range keys {
		x.store.Seek(i)
		x.s.set(x.cur, "seen before")
	}
	x.store.Release()
	x.now++
}

// Insert and expire at full speed: keys, memory and probe lengths stay flat,
// with snapshots going on as well as without.
func TestInsertAndExpireStaysFlat(t *testing.T) {
	for _, snapshots := range []bool{false, true} {
		const ttl, perBatch = 20, 500
		x := newExpiring(t, ttl)
		run := func(batches int) (keys int) {
			for i := range batches {
				var f *Frozen
				if snapshots && i%7 == 0 {
					f = x.store.Freeze()
				}
				x.batch(perBatch)
				keys = max(keys, x.store.Len())
				if f != nil {
					if _, err := encodeAll(f); err != nil {
						t.Fatal(err)
					}
					f.Release()
				}
			}
			return keys
		}
		run(200)
		before, memory := x.store.Stats(), x.pool.InUse()
		keys := run(2000)
		after := x.store.Stats()
		if keys > 3*ttl*perBatch {
			t.Errorf("snapshots %v: up to %d keys, %d live", snapshots, keys, ttl*perBatch)
		}
		if after.Positions != before.Positions {
			t.Errorf("snapshots %v: %d positions, then %d", snapshots, before.Positions, after.Positions)
		}
		if got := x.pool.InUse(); got > memory+memory/8 {
			t.Errorf("snapshots %v: %d bytes, then %d", snapshots, memory, got)
		}
		if after.MeanProbe > 2 || after.MaxProbe > 64 {
			t.Errorf("snapshots %v: probes %v, before %v", snapshots, after, before)
		}
	}
}

// What the sweep drops while a snapshot is pending is in the snapshot.
func TestExpireWhileSnapshotPends(t *testing.T) {
	x := newExpiring(t, 1000)
	x.batch(2000)
	x.now += 5000
	f := x.store.Freeze()
	for range 80 {
		x.batch(50)
	}
	if got := x.store.Len(); got != 4000 {
		t.Fatalf("%d entries, want the 4000 young ones", got)
	}
	sections, err := encodeAll(f)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range sections {
		n += s.count
	}
	if n != 2000 {
		t.Fatalf("%d entries in the snapshot, want 2000", n)
	}
	f.Release()
}

// However many records a batch has, it looks at each entry once.
func TestSweepLooksAtAnEntryOncePerBatch(t *testing.T) {
	x := newExpiring(t, 1000)
	looks, expire := 0, x.s.Expire
	x.s.Expire = func(p unsafe.Pointer, a *memory.Arena, now int64) {
		looks++
		expire(p, a, now)
	}
	keys, hashes := make([]int64, 500), make([]uint32, 500)
	for i := range keys {
		keys[i] = int64(i % 3)
		hashes[i] = x.hash(keys[i])
	}
	for n := 1; n <= 10; n++ {
		x.store.Bind(keys, hashes)
		x.store.Seek(0)
		for i := range keys {
			x.store.Seek(i)
			x.s.set(x.cur, "here")
		}
		x.store.Release()
		if looks == 0 || looks > 4*n { // the table the sweep begins in comes twice
			t.Fatalf("3 entries were looked at %d times in %d batches", looks, n)
		}
	}
}

// What CleanupIncremental asks for is looked at per record, and nothing where
// the cleanup in the background is switched off.
func TestSweepLooksAtAsManyPositionsAsAskedFor(t *testing.T) {
	const keys = 4000
	for _, sweep := range []int{0, 1, 8, 64} {
		f := newText("seen", 1000)
		f.Sweep = sweep
		x := expiringField(t, f)
		x.batch(keys)
		positions := x.store.Stats().Positions
		x.now += 1000
		const records = 50
		for range records {
			x.store.Bind([]int64{-1}, []uint32{x.hash(-1)})
			x.store.Release()
		}
		// An expired entry is removed and another moves up, which is looked at, too.
		gone, looks := keys-x.store.Len(), records*sweep
		if want := keys * looks / positions; gone < want*3/4 || gone > want*3/2+sweep {
			t.Errorf("with %d positions per record %d keys are gone after %d records, want about %d", sweep, gone, records, want)
		}
	}
}
