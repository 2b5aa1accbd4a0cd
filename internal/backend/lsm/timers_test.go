package lsm

import (
	"testing"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
)

// While references that count no more are thrown out of the wheel, those of
// entries that lie on disk stay.
func TestReferencesOfEvictedEntriesStay(t *testing.T) {
	pool := memory.NewPool(0)
	defer pool.Close()
	cur := &entry.Cursor{}
	o := heap.Options{Operator: "op", Fields: []*entry.Field{heap.NewTimerField(entry.EventTime)}, Cursor: cur,
		MaxParallelism: 4, Range: keygroup.Range{First: 0, Last: 3}, Pool: pool}
	backend("tiny", 1000).Prepare(t, &o)
	s, err := heap.New[int64](o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const live, stale = 1000, 6000
	advance := func(to int64) (fired int) {
		for more := true; more; {
			var n int
			if n, more, err = s.AdvanceEventTime(to, 100, func(int64) error { return nil }); err != nil {
				t.Fatal(err)
			}
			fired += n
		}
		return fired
	}
	advance(0)
	eachKey(s, 0, live, func(k int64) { cur.Timers.Set(entry.EventTime, 100+k) })
	if n := s.Len(); n > live/2 {
		t.Fatalf("%d of %d entries are in memory: the case tests nothing", n, live)
	}
	eachKey(s, live, stale, func(k int64) {
		cur.Timers.Set(entry.EventTime, 500_000+k)
		cur.Timers.Delete(entry.EventTime, 500_000+k)
	})
	if fired := advance(1_000_000); fired != live {
		t.Fatalf("%d timers fired, want %d", fired, live)
	}
}
