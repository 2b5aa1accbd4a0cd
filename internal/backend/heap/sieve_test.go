package heap

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirstream/weir/internal/entry"
)

// A deleted timer's reference goes with those of the others.
func TestSetAfterDropWhereOneWasDeleted(t *testing.T) {
	c := newClockwork(t, 1, whole(1))
	c.with("a", func(tm entry.Timers) {
		c.n.set(c.cur, 1)
		tm.Set(entry.ProcessingTime, 5)
		tm.Delete(entry.ProcessingTime, 5)
	})
	if n := c.store.DropProcessingTimers(); n != 0 {
		t.Fatalf("%d timers dropped", n)
	}
	c.with("a", func(tm entry.Timers) { tm.Set(entry.ProcessingTime, 7) })
	if _, _, err := c.store.AdvanceProcessingTime(10, 10, c.onTimer); err != nil {
		t.Fatal(err)
	}
	c.expect("a@7")
}

// Timeouts that never happen cost memory while they are set only, be their
// keys new ones or the same again; those that are left fire.
func TestDeletedTimersAreForgotten(t *testing.T) {
	for _, distinct := range []bool{true, false} {
		c := newClockwork(t, 4, whole(4))
		var want []string
		rng := rand.New(rand.NewPCG(7, 7))
		peak := int64(0)
		for i := range int64(60_000) {
			key := fmt.Sprint("k", i%50)
			if distinct {
				key = fmt.Sprint("k", i)
			}
			at := i + 3_600_000
			c.with(key, func(tm entry.Timers) {
				tm.Set(entry.EventTime, at)
			})
			if i%100 == 0 {
				c.set("stays", at)
				want = append(want, fmt.Sprint("stays@", at))
			}
			c.with(key, func(tm entry.Timers) { tm.Delete(entry.EventTime, at) })
			if i%1000 == 0 && rng.IntN(2) == 0 {
				c.watermark(i, 10)
			}
			w := &c.store.domains[entry.EventTime].wheel
			if w.size > 3*staleRefs {
				t.Fatalf("distinct %v: %d references after %d records", distinct, w.size, i)
			}
			if i == 30_000 {
				peak = c.store.pool.Reserved()
			}
		}
		if now := c.store.pool.Reserved(); now > peak {
			t.Errorf("memory grew from %d to %d bytes", peak, now)
		}
		if d := &c.store.domains[entry.EventTime]; d.live != 1 || c.store.Len() != 1 {
			t.Errorf("%d entries note a reference, there are %d", d.live, c.store.Len())
		}
		c.watermark(math.MaxInt64, 100)
		c.expect(want...)
	}
}
