package backendtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
)

// run drives a subject and its model.
type run[K comparable] struct {
	*subject[K]
	rng   *rand.Rand
	key   func(*rand.Rand) K
	model map[K]*content
	wm    int64
	// finishes says that snapshots can be compared, rehashed that nobody can restore
	// them, as hashes are not those of the keys.
	finishes, rehashed bool
	backend            Backend
	shelf              *shelf
	// moments are the snapshots under way.
	moments []*moment[K]
}

// moment is a snapshot with what the model held when it was taken.
type moment[K comparable] struct {
	model    map[K]*content
	wm, now  int64
	sections []section
	// stored is the snapshot in place of sections, as files.
	stored *Stored
	id     int64
	err    error
	done   chan struct{}
}

func clone[K comparable](model map[K]*content) map[K]*content {
	m := make(map[K]*content, len(model))
	for k, c := range model {
		m[k] = c.clone()
	}
	return m
}

// step does something at random.
func (r *run[K]) step() {
	r.t.Helper()
	*r.now += r.rng.Int64N(3)
	switch r.rng.IntN(12) {
	case 0:
		r.advance(entry.EventTime)
	case 1:
		r.advance(entry.ProcessingTime)
	case 2:
		r.take()
	case 3:
		if len(r.moments) > 2 {
			i := r.rng.IntN(len(r.moments))
			m := r.moments[i]
			if <-m.done; r.finishes {
				r.finish(m)
			}
			r.check(m.err)
			if m.id != 0 && r.rng.IntN(2) == 0 {
				r.shelf.uploads.Complete(m.id)
			}
			r.moments = slices.Delete(r.moments, i, i+1)
		}
		r.store.Freeze().Release() // abandoned
	case 4:
		r.lookup()
		if r.rng.IntN(4) == 0 {
			r.keys()
		}
	default:
		keys := make([]K, 1+r.rng.IntN(100))
		for i := range keys {
			keys[i] = r.key(r.rng)
		}
		r.batch(keys, r.mutate)
	}
}

// batch binds the keys and checks and changes the state of each.
func (r *run[K]) batch(keys []K, change func(k K, c *content)) {
	r.t.Helper()
	hashes := make([]uint32, len(keys))
	for i, k := range keys {
		hashes[i] = r.hash(k)
	}
	r.store.Bind(keys, hashes)
	for i, k := range keys {
		r.store.Seek(i)
		if got := r.store.Key(); got != k {
			r.t.Fatalf("Key is %v, want %v", got, k)
		}
		r.compare(k, r.model)
		if change == nil {
			continue
		}
		c := r.model[k]
		if c == nil {
			c = &content{}
			r.model[k] = c
		}
		for range 1 + r.rng.IntN(3) {
			change(k, c)
		}
	}
	r.store.Release()
}

// compare compares the state of the current key with a model.
func (r *run[K]) compare(k K, model map[K]*content) {
	r.t.Helper()
	want := model[k].expected(*r.now).String()
	if got := r.read().String(); got != want {
		r.t.Fatalf("key %v holds\n%s, want\n%s", k, got, want)
	}
	if c := model[k]; c != nil {
		c.used(*r.now)
	}
}

// used counts a read of all that a key holds.
func (c *content) used(now int64) {
	for k, at := range c.usedAt {
		if at+lifetime <= now {
			delete(c.Recent, k)
			delete(c.usedAt, k)
			continue
		}
		c.usedAt[k] = now
	}
}

func (r *run[K]) lookup() {
	k := r.key(r.rng)
	if !r.store.Lookup(k, r.hash(k)) {
		if want := r.model[k].expected(*r.now).String(); want != (&content{}).String() {
			r.t.Fatalf("key %v is not found, it holds %s", k, want)
		}
		return
	}
	r.compare(k, r.model)
	r.store.Release()
}

// keys compares what keys there are: all that hold something, each once, in
// its group. Those whose state has expired may be there still.
func (r *run[K]) keys() {
	r.t.Helper()
	found := map[K]bool{}
	mine := r.groups
	for g := mine.First; g <= mine.Last; g++ {
		keys, hashes := r.store.Keys(g)
		for i, k := range keys {
			if found[k] || r.model[k] == nil || hashes[i] != r.hash(k) || keygroup.Group(hashes[i], groups) != g {
				r.t.Fatalf("key %v of hash %d is listed in group %d: twice %v, known %v", k, hashes[i], g, found[k], r.model[k] != nil)
			}
			found[k] = true
		}
	}
	for k, c := range r.model {
		timers := len(c.timers[0]) + len(c.timers[1])
		if !found[k] && (timers > 0 || c.expected(*r.now).String() != (&content{}).String()) {
			r.t.Fatalf("key %v is not listed, it holds %s and %d timers", k, c.expected(*r.now), timers)
		}
	}
}

func letters(rng *rand.Rand, most int) string {
	return strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(most))
}

// mutate changes one thing of the current key.
func (r *run[K]) mutate(_ K, c *content) {
	rng, v := r.rng, r.rng.Int64N(1000)
	switch rng.IntN(21) {
	case 0:
		r.check(r.number.Set(v))
		c.Number = &v
	case 1:
		s := letters(rng, 200)
		r.check(r.text.Set(s))
		c.Text = &s
	case 2:
		s := letters(rng, 40)
		r.check(r.aging.Set(s))
		c.Aging, c.agedAt = &s, *r.now
	case 3:
		s := letters(rng, 50)
		r.check(r.list.Add(s))
		c.List = append(c.List, s)
	case 4, 5:
		if c.Members == nil {
			c.Members = map[string]int64{}
		}
		m := fmt.Sprint("m", rng.IntN(30))
		r.check(r.members.Put(m, v))
		c.Members[m] = v
	case 6:
		m := fmt.Sprint("m", rng.IntN(30))
		r.check(r.members.Remove(m))
		if delete(c.Members, m); len(c.Members) == 0 {
			c.Members = nil
		}
	case 7:
		r.check(r.reduced.Add(v))
		if c.Reduced != nil {
			v += *c.Reduced * 31
		}
		c.Reduced = &v
	case 8:
		r.check(r.sum.Add(v))
		if c.Sum != nil {
			v += *c.Sum
		}
		c.Sum = &v
	case 9:
		r.window(c, v)
	case 10, 11, 12:
		d, at := entry.Domain(rng.IntN(2)), r.wm+rng.Int64N(60)-5
		if c.timers[d] == nil {
			c.timers[d] = map[int64]bool{}
		}
		if rng.IntN(4) == 0 && len(c.timers[d]) > 0 {
			at = slices.Min(slices.Collect(maps.Keys(c.timers[d])))
			r.cur.Timers.Delete(d, at)
			delete(c.timers[d], at)
			return
		}
		r.cur.Timers.Set(d, at)
		c.timers[d][at] = true
	case 13:
		r.check(r.number.Clear())
		r.check(r.text.Clear())
		c.Number, c.Text = nil, nil
	case 14:
		r.check(r.list.Clear())
		r.check(r.members.Clear())
		c.List, c.Members = nil, nil
	case 15:
		r.clear(c)
	case 16, 17, 18:
		r.age(c)
	}
}

// age changes a list or a map whose elements expire.
func (r *run[K]) age(c *content) {
	s, k := letters(r.rng, 40), r.rng.Int64N(40)
	switch r.rng.IntN(5) {
	case 0, 1:
		r.check(r.stamps.Add(s))
		c.Stamps, c.stampedAt = append(c.Stamps, s), append(c.stampedAt, *r.now)
	case 2:
		r.check(r.recent.Remove(k))
		delete(c.Recent, k)
		delete(c.usedAt, k)
	default:
		if c.usedAt == nil {
			c.Recent, c.usedAt = map[int64]string{}, map[int64]int64{}
		}
		r.check(r.recent.Put(k, s))
		c.Recent[k], c.usedAt[k] = s, *r.now
	}
}

func (r *run[K]) window(c *content, v int64) {
	start := v % 5 * slide
	*r.panes.At(start) += v
	r.panes.Keep()
	if c.Panes == nil {
		c.Panes = map[int64]int64{}
	}
	c.Panes[start] += v
}

// clear clears all but timers, windows and what ages.
func (r *run[K]) clear(c *content) {
	r.check(r.number.Clear())
	r.check(r.text.Clear())
	r.check(r.aging.Clear())
	r.check(r.list.Clear())
	r.check(r.members.Clear())
	r.check(r.stamps.Clear())
	r.check(r.recent.Clear())
	r.check(r.reduced.Clear())
	r.check(r.sum.Clear())
	r.panes.Expire(1 << 40)
	c.Number, c.Text, c.Aging, c.List, c.Members, c.Reduced, c.Sum, c.Panes = nil, nil, nil, nil, nil, nil, nil, nil
	c.Stamps, c.stampedAt, c.Recent, c.usedAt = nil, nil, nil, nil
}
