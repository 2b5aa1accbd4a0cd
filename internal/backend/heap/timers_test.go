package heap

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
)

// clockwork is a store of string keys with timers in both domains and a
// number, with a log of what fires.
type clockwork struct {
	t      *testing.T
	cur    *entry.Cursor
	n      number
	store  *Store[string]
	hash   func(string) uint32
	fired  []string
	onFire func(key string, at int64)
}

func newClockwork(t *testing.T, max int, groups keygroup.Range) *clockwork {
	t.Helper()
	pool := memory.NewPool(0)
	c := &clockwork{t: t, cur: &entry.Cursor{}, n: newNumber("n")}
	var err error
	c.store, err = New[string](Options{Operator: "op", Cursor: c.cur, MaxParallelism: max, Range: groups, Pool: pool,
		Fields: []*entry.Field{c.n.Field, NewTimerField(entry.EventTime), NewTimerField(entry.ProcessingTime)}})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := keygroup.NewHasher[string]()
	c.hash = h.Hash
	t.Cleanup(func() {
		c.store.Close()
		if n := pool.InUse(); n != 0 {
			t.Errorf("%d bytes in use after Close", n)
		}
		pool.Close()
	})
	return c
}

func whole(max int) keygroup.Range { return keygroup.Range{First: 0, Last: max - 1} }

// with runs fn in the context of a key.
func (c *clockwork) with(key string, fn func(entry.Timers)) {
	c.store.Bind([]string{key}, []uint32{c.hash(key)})
	c.store.Seek(0)
	fn(c.cur.Timers)
	c.store.Release()
}

func (c *clockwork) set(key string, at int64) {
	c.with(key, func(t entry.Timers) { t.Set(entry.EventTime, at) })
}

func (c *clockwork) onTimer(at int64) error {
	key := c.store.Key()
	c.fired = append(c.fired, fmt.Sprintf("%s@%d", key, at))
	if c.onFire != nil {
		c.onFire(key, at)
	}
	return nil
}

// watermark advances event time in chunks of max references.
func (c *clockwork) watermark(to int64, max int) {
	c.t.Helper()
	for more := true; more; {
		var err error
		if _, more, err = c.store.AdvanceEventTime(to, max, c.onTimer); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *clockwork) expect(want ...string) {
	c.t.Helper()
	slices.Sort(c.fired)
	slices.Sort(want)
	if !slices.Equal(c.fired, want) {
		c.t.Fatalf("fired %v, want %v", c.fired, want)
	}
	c.fired = nil
}

// restored returns a clockwork with the state of c as of now.
func (c *clockwork) restored() *clockwork {
	c.t.Helper()
	sections, err := encodeAll(freezeAndRelease(c.t, c.store))
	if err != nil {
		c.t.Fatal(err)
	}
	o := newClockwork(c.t, c.store.max, c.store.groups)
	o.onFire = c.onFire
	for _, s := range sections {
		if err := o.store.RestoreSection(s.group, s.st, s.count, s.data); err != nil {
			c.t.Fatal(err)
		}
	}
	return o
}

func TestT01SameTimerRegisteredSeveralTimes(t *testing.T) {
	for _, d := range []entry.Domain{entry.EventTime, entry.ProcessingTime} {
		c := newClockwork(t, 128, whole(128))
		for range 3 {
			c.with("a", func(tm entry.Timers) { tm.Set(d, 10) })
		}
		c.with("b", func(tm entry.Timers) { tm.Set(d, 10) })
		other, advance := c.store.AdvanceProcessingTime, c.store.AdvanceEventTime
		if d == entry.ProcessingTime {
			other, advance = advance, other
		}
		if n, _, _ := other(10, 100, c.onTimer); n != 0 {
			t.Fatalf("%d timers fired in the other domain", n)
		}
		n, more, err := advance(10, 100, c.onTimer)
		if n != 2 || more || err != nil {
			t.Fatalf("fired %d, more %v, error %v", n, more, err)
		}
		c.expect("a@10", "b@10")
		if c.store.Len() != 0 {
			t.Fatalf("%d entries left of keys without state", c.store.Len())
		}
	}
}

func TestT03TimerExactlyAtWatermark(t *testing.T) {
	c := newClockwork(t, 128, whole(128))
	c.set("a", 100)
	c.set("a", 1000)
	c.watermark(99, 10)
	c.expect()
	c.watermark(100, 10)
	c.expect("a@100")
	c.watermark(999, 10)
	c.expect()
	c.watermark(1000, 10)
	c.expect("a@1000")
}

func TestT05TimerAtMaximumTimestamp(t *testing.T) {
	c := newClockwork(t, 128, whole(128))
	c.set("a", math.MaxInt64)
	c.set("b", math.MinInt64)
	c.watermark(math.MinInt64, 10)
	c.expect("b@-9223372036854775808")
	for _, wm := range []int64{0, 1e18, 9e18, math.MaxInt64 - 1} {
		c.watermark(wm, 10)
	}
	c.expect()
	o := c.restored()
	for _, c := range []*clockwork{c, o} {
		c.watermark(9e18, 10)
		c.expect()
		c.watermark(math.MaxInt64, 10)
		c.expect("a@9223372036854775807")
		c.watermark(math.MaxInt64, 10)
		c.expect()
	}
}

func TestT06DeletingTimers(t *testing.T) {
	c := newClockwork(t, 128, whole(128))
	c.onFire = func(key string, at int64) {
		if key == "a" && at == 30 {
			c.cur.Timers.Delete(entry.EventTime, 40)
		}
	}
	c.set("a", 10)
	c.set("b", 10)
	c.with("a", func(tm entry.Timers) {
		tm.Delete(entry.EventTime, 10)
		tm.Delete(entry.EventTime, 12345) // never registered
		tm.Delete(entry.ProcessingTime, 20)
		tm.Set(entry.EventTime, 20)
		tm.Delete(entry.EventTime, 20)
		tm.Set(entry.EventTime, 20)
		tm.Set(entry.EventTime, 40)
		tm.Set(entry.EventTime, 30)
	})
	c.with("c", func(tm entry.Timers) { tm.Delete(entry.EventTime, 10) })
	if c.store.Len() != 2 {
		t.Fatalf("%d entries: deleting an absent timer leaves one", c.store.Len())
	}
	o := c.restored()
	c.watermark(50, 10)
	c.expect("b@10", "a@20", "a@30")
	c = o
	o.onFire = func(key string, at int64) {
		if at == 30 {
			o.cur.Timers.Delete(entry.EventTime, 40)
		}
	}
	o.watermark(50, 10)
	o.expect("b@10", "a@20", "a@30")
}

func TestT10TimersAfterRescaling(t *testing.T) {
	c := newClockwork(t, 128, whole(128))
	for i := range 100 {
		key := fmt.Sprint("key", i)
		c.with(key, func(tm entry.Timers) {
			c.n.set(c.cur, int64(i))
			tm.Set(entry.EventTime, 1000)
		})
	}
	sections, err := encodeAll(freezeAndRelease(t, c.store))
	if err != nil {
		t.Fatal(err)
	}
	for _, parallelism := range []int{3, 2} {
		seen := map[string]int{}
		var again []section
		for sub := range parallelism {
			o := newClockwork(t, 128, keygroup.RangeOf(sub, parallelism, 128))
			for _, s := range sections {
				if o.store.groups.Contains(s.group) {
					if err := o.store.RestoreSection(s.group, s.st, s.count, s.data); err != nil {
						t.Fatal(err)
					}
				}
			}
			part, err := encodeAll(freezeAndRelease(t, o.store))
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, part...)
			o.onFire = func(key string, at int64) {
				seen[key]++
				if v, ok := o.n.get(o.cur); !ok || fmt.Sprint("key", v) != key {
					t.Fatalf("state of %s in its timer: %d, %v", key, v, ok)
				}
			}
			o.watermark(1000, 7)
		}
		if len(seen) != 100 || slices.Max(slices.Collect(maps.Values(seen))) != 1 {
			t.Fatalf("at %d: %d keys fired", parallelism, len(seen))
		}
		sections = again
	}
}

// A timer that a callback sets up to the new time fires in the same pass, in
// order of time; one beyond it waits.
func TestTimersSetWhileFiring(t *testing.T) {
	c := newClockwork(t, 8, whole(8))
	var order []int64
	for _, at := range []int64{10, 40, 45} {
		c.set(fmt.Sprint("k", at), at)
	}
	c.onFire = func(key string, at int64) {
		order = append(order, at)
		if key == "k10" {
			c.cur.Timers.Set(entry.EventTime, at+9)
		}
	}
	c.watermark(50, 1)
	if want := []int64{10, 19, 28, 37, 40, 45, 46}; !slices.Equal(order, want) {
		t.Fatalf("fired at %v, want %v", order, want)
	}
	c.watermark(54, 1)
	c.watermark(55, 1)
	if order[len(order)-1] != 55 || len(order) != 8 {
		t.Fatalf("then at %v", order[7:])
	}
}

func TestProcessingTimers(t *testing.T) {
	c := newClockwork(t, 8, whole(8))
	if _, ok := c.store.NextProcessingTimer(); ok {
		t.Fatal("a timer where none is set")
	}
	c.with("a", func(tm entry.Timers) {
		tm.Set(entry.ProcessingTime, 5000)
		tm.Set(entry.ProcessingTime, 7000)
		tm.Set(entry.ProcessingTime, 90000)
	})
	c.with("b", func(tm entry.Timers) {
		c.n.set(c.cur, 1)
		tm.Set(entry.ProcessingTime, 6000)
	})
	// Waking up at each announced time must get to every timer, in few steps.
	for steps := 0; len(c.fired) < 3; steps++ {
		at, ok := c.store.NextProcessingTimer()
		if want := []int64{5000, 6000, 7000}[len(c.fired)]; !ok || at > want {
			t.Fatalf("next timer %d, %v; one is at %d", at, ok, want)
		}
		if _, _, err := c.store.AdvanceProcessingTime(at, 100, c.onTimer); err != nil {
			t.Fatal(err)
		}
		if steps > 40 {
			t.Fatal("waking up makes no progress")
		}
	}
	c.expect("a@5000", "b@6000", "a@7000")
	c.with("b", func(tm entry.Timers) { tm.Set(entry.ProcessingTime, 8000) })
	if n := c.store.DropProcessingTimers(); n != 2 {
		t.Fatalf("dropped %d timers, want 2", n)
	}
	if _, ok := c.store.NextProcessingTimer(); ok || c.store.Len() != 1 {
		t.Fatalf("after dropping: a timer %v, %d entries", ok, c.store.Len())
	}
	c.with("b", func(tm entry.Timers) { tm.Set(entry.ProcessingTime, 8000) })
	if n, _, _ := c.store.AdvanceProcessingTime(1e6, 100, c.onTimer); n != 1 {
		t.Fatalf("%d timers fired after dropping and setting one", n)
	}
}

// Timers that set the next one come to an end once they are sealed.
func TestSealedProcessingTimers(t *testing.T) {
	c := newClockwork(t, 8, whole(8))
	for i, k := range []string{"a", "b", "c"} {
		c.with(k, func(tm entry.Timers) { tm.Set(entry.ProcessingTime, int64(1000*i+1000)) })
	}
	c.store.SealProcessingTimers()
	c.with("d", func(tm entry.Timers) { tm.Set(entry.ProcessingTime, 1) })
	var fired []int64
	for more := true; more; {
		var err error
		_, more, err = c.store.AdvanceProcessingTime(math.MaxInt64, 1, func(at int64) error {
			if len(fired) == 3 {
				t.Fatalf("a sealed timer fires at %d", at)
			}
			fired = append(fired, at)
			c.cur.Timers.Set(entry.ProcessingTime, at+1)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(fired, []int64{1000, 2000, 3000}) {
		t.Errorf("fired at %v, want 1000, 2000 and 3000", fired)
	}
	c.set("d", 50)
	if n, _, _ := c.store.AdvanceEventTime(100, 100, c.onTimer); n != 1 {
		t.Errorf("%d event-time timers fired, want the one that was set", n)
	}
}

func TestTimerErrorEndsTheCall(t *testing.T) {
	c := newClockwork(t, 8, whole(8))
	c.set("a", 1)
	c.set("a", 2)
	boom := errors.New("boom")
	fired, more, err := c.store.AdvanceEventTime(10, 100, func(int64) error { return boom })
	if fired != 1 || !more || !errors.Is(err, boom) {
		t.Fatal(fired, more, err)
	}
	if c.cur.P != nil {
		t.Fatal("a key is current after the call")
	}
	c.watermark(10, 100)
	c.expect("a@2")
}

// Deleting a timer and setting a later one, over and over, leaves one
// reference per key.
func TestTimersPushedBackAddNoReferences(t *testing.T) {
	c := newClockwork(t, 8, whole(8))
	at := int64(1000)
	c.set("a", at)
	for range 1000 {
		c.with("a", func(tm entry.Timers) {
			tm.Delete(entry.EventTime, at)
			at++
			tm.Set(entry.EventTime, at)
		})
	}
	if n := c.store.domains[entry.EventTime].wheel.size; n != 1 {
		t.Fatalf("%d references", n)
	}
	c.watermark(at-1, 10)
	c.expect()
	c.watermark(at, 10)
	c.expect("a@2000")
}

// timerModel drives random timers against a plain model.
func timerModel(t *testing.T, seed uint64, hash func(string) uint32, keys int) {
	rng := rand.New(rand.NewPCG(seed, 5))
	c := newClockwork(t, 2, whole(2))
	if hash != nil {
		c.hash = hash
	}
	model := map[string]map[int64]bool{}
	now := int64(0)
	random := func() int64 {
		switch rng.IntN(4) {
		case 0:
			return now - rng.Int64N(50)
		case 1:
			return now + rng.Int64N(10)
		case 2:
			return now + rng.Int64N(2000)
		}
		return now + rng.Int64N(1<<uint(rng.IntN(40)))
	}
	change := func(key string) {
		if model[key] == nil {
			model[key] = map[int64]bool{}
		}
		for range rng.IntN(4) {
			at := random()
			if rng.IntN(3) == 0 {
				for old := range model[key] {
					at = old
					break
				}
				c.cur.Timers.Delete(entry.EventTime, at)
				delete(model[key], at)
				continue
			}
			c.cur.Timers.Set(entry.EventTime, at)
			model[key][at] = true
		}
	}
	checkSnapshot := func() func() {
		f := c.store.Freeze()
		want := map[string][]int64{}
		for k, set := range model {
			if len(set) > 0 {
				want[k] = slices.Sorted(maps.Keys(set))
			}
		}
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer f.Release()
			var sections []section
			if sections, err = encodeAll(f); err == nil {
				err = sameTimers(sections, want)
			}
		}()
		t.Cleanup(func() { <-done })
		return func() {
			if <-done; err != nil {
				t.Fatalf("seed %d: snapshot: %v", seed, err)
			}
		}
	}
	for range 300 {
		for range 20 {
			key := fmt.Sprint("key", rng.IntN(keys))
			c.with(key, func(entry.Timers) { change(key) })
		}
		wait := func() {}
		if rng.IntN(6) == 0 {
			wait = checkSnapshot()
		}
		now += rng.Int64N(1 << uint(rng.IntN(12)))
		for more := true; more; {
			var err error
			last := int64(math.MinInt64)
			_, more, err = c.store.AdvanceEventTime(now, 1+rng.IntN(300), func(at int64) error {
				key := c.store.Key()
				if !model[key][at] {
					return fmt.Errorf("%s@%d fired, but is not set", key, at)
				}
				if at > now || at < last {
					return fmt.Errorf("%s@%d fired at %d, after %d", key, at, now, last)
				}
				last = at
				delete(model[key], at)
				if rng.IntN(3) == 0 {
					change(key)
					last = math.MinInt64
				}
				return nil
			})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for key, set := range model {
			for at := range set {
				if at <= now {
					t.Fatalf("seed %d: %s@%d has not fired at %d", seed, key, at, now)
				}
			}
		}
		wait()
	}
}

func sameTimers(sections []section, want map[string][]int64) error {
	got, err := decodeTimers(sections)
	if err != nil {
		return err
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d keys with timers, want %d", len(got), len(want))
	}
	for k, w := range want {
		if !slices.Equal(got[k], w) {
			return fmt.Errorf("timers of %s: %v, want %v", k, got[k], w)
		}
	}
	return nil
}

func TestTimersModel(t *testing.T) {
	for seed := range uint64(6) {
		timerModel(t, seed, nil, 300)
	}
}

func TestTimersModelColliding(t *testing.T) {
	for seed := range uint64(3) {
		timerModel(t, seed, func(string) uint32 { return 0xABCD0000 }, 400)
	}
}
