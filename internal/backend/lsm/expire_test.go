package lsm

import (
	"errors"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/state"
)

// Of a row what has expired goes, too: elements, entries, and values beside
// state that stays.
func TestExpiredPartsOfRowsGo(t *testing.T) {
	const keys = 1500
	x := newExpiring(t)
	x.write(0, keys, func(k int64) error {
		return errors.Join(x.kept.Set(k), x.seen.Set("a value that does not fit into a slot"), x.list.AddAll(k, k+1, k+2), x.table.Put(k, "old"))
	})
	x.now += 60
	x.write(0, keys, func(k int64) error {
		if k%3 == 0 {
			return errors.Join(x.list.Add(-k), x.table.Put(-k-1, "new"))
		}
		return nil
	})
	before := x.bytes()
	x.now += 60
	x.write(10_000, 20_000, func(int64) error { return x.kept.Clear() })
	if after := x.bytes(); after > before*2/3 {
		t.Errorf("rows of %d bytes are left of %d; at most half has not expired", after, before)
	}
	x.now -= 60 // what is still there shows
	bare := 0
	for k := range int64(keys) {
		if !x.s.Lookup(k, x.hash(k)) {
			t.Fatalf("key %d is gone", k)
		}
		if v, err := x.kept.Get(); v != k || err != nil {
			t.Fatalf("key %d holds %d, error %v", k, v, err)
		}
		list, err := x.list.Get()
		if k%3 == 0 && (len(list) == 0 || list[len(list)-1] != -k) || err != nil {
			t.Fatalf("key %d: the young element is gone: %v, error %v", k, list, err)
		}
		if _, found, err := x.table.Get(-k - 1); found != (k%3 == 0) || err != nil {
			t.Fatalf("key %d: the young entry is there %v, error %v", k, found, err)
		}
		if _, seen, _ := x.seen.Lookup(); !seen && len(list) <= 1 {
			bare++
		}
		x.s.Release()
	}
	if bare < keys*9/10 {
		t.Errorf("of %d keys only %d have lost what has expired", keys, bare)
	}
}

// expiring is a store of next to no memory, most of whose state ages.
type expiring struct {
	t     *testing.T
	s     *heap.Store[int64]
	tier  *Tier
	cur   *entry.Cursor
	now   int64
	hash  func(int64) uint32
	seen  state.Value[string]
	list  state.List[int64]
	table state.Map[int64, string]
	kept  state.Value[int64]
}

func newExpiring(t *testing.T) *expiring {
	pool := memory.NewPool(0)
	x := &expiring{t: t, cur: &entry.Cursor{}, now: 1000}
	reg := state.NewRegistry("op").Bind(x.cur)
	ttl := state.TTL(100 * time.Millisecond)
	x.seen, x.list = state.ValueIn[string](reg, "seen", ttl), state.ListIn[int64](reg, "list", ttl)
	x.table, x.kept = state.MapIn[int64, string](reg, "table", ttl), state.ValueIn[int64](reg, "kept")
	o := heap.Options{Operator: "op", Cursor: x.cur, MaxParallelism: 4, Range: keygroup.Range{First: 0, Last: 3}, Pool: pool,
		Fields: append(reg.Fields(), heap.NewTimerField(entry.EventTime)), Clock: func() int64 { return x.now }}
	backend("tiny", 1000).Prepare(t, &o)
	x.tier = o.Tier.(*Tier)
	var err error
	if x.s, err = heap.New[int64](o); err != nil {
		t.Fatal(err)
	}
	h, _ := keygroup.NewHasher[int64]()
	x.hash = h.Hash
	t.Cleanup(func() {
		x.s.Close()
		_ = pool.Close()
	})
	return x
}

func (x *expiring) write(from, n int64, set func(k int64) error) {
	eachKey(x.s, from, n, func(k int64) {
		if err := set(k); err != nil {
			x.t.Fatal(err)
		}
	})
}

// rows returns how many rows there are, and bytes how long they are together.
func (x *expiring) rows() (n int) {
	x.scan(func([]byte) { n++ })
	return n
}

func (x *expiring) bytes() (n int) {
	x.scan(func(row []byte) { n += len(row) })
	return n
}

func (x *expiring) scan(fn func(row []byte)) {
	if err := x.tier.Scan(nil, func(_, row []byte) error { fn(row); return nil }); err != nil {
		x.t.Fatal(err)
	}
}

// Rows of keys that never come again go when they have expired; those with
// state that does not age, or a timer, stay.
func TestExpiredRowsGo(t *testing.T) {
	x := newExpiring(t)
	x.write(0, 3000, func(k int64) error {
		switch {
		case k%30 == 1:
			return x.kept.Set(k)
		case k%30 == 2:
			x.cur.Timers.Set(entry.EventTime, 5000+k)
		}
		return x.seen.Set("a value that does not fit into a slot")
	})
	if n := x.rows(); n < 2000 {
		t.Fatalf("%d rows on disk: the case tests nothing", n)
	}
	x.now += 1000
	x.write(10_000, 10_000, func(int64) error { return x.kept.Clear() })
	// A key in 30 has only state that stays, and one a timer beside what ages;
	// a few of them are in memory.
	if n := x.rows(); n < 150 || n > 200 {
		t.Fatalf("%d rows are left, want the 200 that do not age as a whole, less those in memory", n)
	}
	for k := int64(1); k < 3000; k += 30 {
		if !x.s.Lookup(k, x.hash(k)) {
			t.Fatalf("key %d, whose state does not age, is gone", k)
		}
		if v, err := x.kept.Get(); v != k || err != nil {
			t.Fatalf("key %d holds %d, error %v", k, v, err)
		}
		x.s.Release()
	}
	fired, _, err := x.s.AdvanceEventTime(10_000, 1000, func(int64) error { return nil })
	if fired != 100 || err != nil {
		t.Fatalf("%d timers fire, want 100; error %v", fired, err)
	}
}
