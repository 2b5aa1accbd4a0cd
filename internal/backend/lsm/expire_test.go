package lsm

import (
	"testing"
	"time"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/state"
)

// Rows of keys that never come again go when they have expired; those with
// state that does not age, or a timer, stay.
func TestExpiredRowsGo(t *testing.T) {
	pool := memory.NewPool(0)
	defer pool.Close()
	cur, now := &entry.Cursor{}, int64(1000)
	reg := state.NewRegistry("op").Bind(cur)
	seen := state.ValueIn[string](reg, "seen", state.TTL(100*time.Millisecond))
	kept := state.ValueIn[int64](reg, "kept")
	o := heap.Options{Operator: "op", Cursor: cur, MaxParallelism: 4, Range: keygroup.Range{First: 0, Last: 3}, Pool: pool,
		Fields: append(reg.Fields(), heap.NewTimerField(entry.EventTime)), Clock: func() int64 { return now }}
	backend("tiny", 1000).Prepare(t, &o)
	tier := o.Tier.(*Tier)
	s, err := heap.New[int64](o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, _ := keygroup.NewHasher[int64]()
	write := func(from, n int64, set func(k int64) error) {
		eachKey(s, from, n, func(k int64) {
			if err := set(k); err != nil {
				t.Fatal(err)
			}
		})
	}
	rows := func() (n int) {
		if err := tier.Scan(nil, func([]byte, []byte) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	write(0, 3000, func(k int64) error {
		switch {
		case k%30 == 1:
			return kept.Set(k)
		case k%30 == 2:
			cur.Timers.Set(entry.EventTime, 5000+k)
		}
		return seen.Set("a value that does not fit into a slot")
	})
	if n := rows(); n < 2000 {
		t.Fatalf("%d rows on disk: the case tests nothing", n)
	}
	now += 1000
	write(10_000, 10_000, func(int64) error { return kept.Clear() })
	// A key in 30 has only state that stays, and one a timer beside what ages;
	// a few of them are in memory.
	if n := rows(); n < 150 || n > 200 {
		t.Fatalf("%d rows are left, want the 200 that do not age as a whole, less those in memory", n)
	}
	for k := int64(1); k < 3000; k += 30 {
		if !s.Lookup(k, h.Hash(k)) {
			t.Fatalf("key %d, whose state does not age, is gone", k)
		}
		if v, err := kept.Get(); v != k || err != nil {
			t.Fatalf("key %d holds %d, error %v", k, v, err)
		}
		s.Release()
	}
	fired, _, err := s.AdvanceEventTime(10_000, 1000, func(int64) error { return nil })
	if fired != 100 || err != nil {
		t.Fatalf("%d timers fire, want 100; error %v", fired, err)
	}
}
