package backendtest

import (
	"fmt"

	"github.com/weirstream/weir/internal/entry"
)

// advance moves time on in one domain and compares what fires with the model.
// The callback reads the key's state, changes it, and now and then sets
// another timer.
func (r *run[K]) advance(d entry.Domain) {
	r.t.Helper()
	r.wm += r.rng.Int64N(15)
	want := map[string]int{}
	for k, c := range r.model {
		for at := range c.timers[d] {
			if at <= r.wm {
				want[fmt.Sprint(k, "@", at)]++
				delete(c.timers[d], at)
			}
		}
	}
	fired := map[string]int{}
	last := int64(-1 << 62)
	fn := func(at int64) error {
		k := r.store.Key()
		if at < last {
			r.t.Fatalf("a timer of %d fires after one of %d", at, last)
		}
		last = at
		fired[fmt.Sprint(k, "@", at)]++
		r.compare(k, r.model)
		c := r.model[k]
		v := r.rng.Int64N(1000)
		switch r.rng.IntN(4) {
		case 0:
			r.check(r.number.Set(v))
			c.Number = &v
		case 1:
			r.clear(c)
		case 2:
			next := r.wm + 1 + r.rng.Int64N(30)
			r.cur.Timers.Set(d, next)
			if c.timers[d] == nil {
				c.timers[d] = map[int64]bool{}
			}
			c.timers[d][next] = true
		}
		return nil
	}
	r.fire(d, r.wm, fn)
	for name, n := range want {
		if fired[name] != n {
			r.t.Fatalf("timer %s fired %d times, want %d", name, fired[name], n)
		}
	}
	if len(fired) != len(want) {
		r.t.Fatalf("%d timers fired, want %d: %v, want %v", len(fired), len(want), fired, want)
	}
}

// fireAll fires all timers of a domain that are set: none is farther away.
func (r *run[K]) fireAll(d entry.Domain) {
	r.t.Helper()
	r.wm += 100
	r.advance(d)
}

func (r *run[K]) fire(d entry.Domain, to int64, fn func(int64) error) {
	advance := r.store.AdvanceEventTime
	if d == entry.ProcessingTime {
		advance = r.store.AdvanceProcessingTime
	}
	for more := true; more; {
		var err error
		_, more, err = advance(to, 1+r.rng.IntN(50), fn)
		r.check(err)
	}
}

// drop drops the timers of processing time and compares their number.
func (r *run[K]) drop() {
	want := 0
	for _, c := range r.model {
		want += len(c.timers[entry.ProcessingTime])
		c.timers[entry.ProcessingTime] = nil
	}
	if got := r.store.DropProcessingTimers(); got != want {
		r.t.Fatalf("%d timers of processing time dropped, want %d", got, want)
	}
	r.fire(entry.ProcessingTime, 1<<60, func(at int64) error {
		r.t.Fatalf("a timer that was dropped fires at %d", at)
		return nil
	})
}
