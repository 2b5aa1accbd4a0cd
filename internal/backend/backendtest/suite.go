package backendtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
)

// Options of the suite.
type Options struct {
	// Seeds and Steps are how many runs there are and how long one is.
	Seeds, Steps int
	// Brief leaves out most types of keys.
	Brief bool
	// Others are the backends that snapshots are restored into besides the
	// one tested.
	Others []Backend
}

type pair struct {
	Name string
	N    int32
}

// Run runs the suite.
func Run(t *testing.T, b Backend, o Options) {
	t.Run("int64", func(t *testing.T) { model(t, b, o, func(r *rand.Rand) int64 { return r.Int64N(2000) - 1000 }) })
	t.Run("colliding", func(t *testing.T) { colliding(t, b, o) })
	t.Run("aging", func(t *testing.T) { aging(t, b) })
	t.Run("flat", func(t *testing.T) { flat(t, b) })
	if o.Brief {
		return
	}
	t.Run("int16", func(t *testing.T) { model(t, b, o, func(r *rand.Rand) int16 { return int16(r.IntN(500)) }) })
	t.Run("bytes", func(t *testing.T) {
		model(t, b, o, func(r *rand.Rand) [16]byte { return [16]byte{byte(r.IntN(40)), 15: byte(r.IntN(40))} })
	})
	t.Run("string", func(t *testing.T) {
		model(t, b, o, func(r *rand.Rand) string { return strings.Repeat("k", r.IntN(60)) + fmt.Sprint(r.IntN(10)) })
	})
	t.Run("struct", func(t *testing.T) {
		model(t, b, o, func(r *rand.Rand) pair { return pair{strings.Repeat("x", r.IntN(40)), r.Int32N(20)} })
	})
}

func whole() keygroup.Range { return keygroup.Range{First: 0, Last: groups - 1} }

func model[K comparable](t *testing.T, b Backend, o Options, key func(*rand.Rand) K) {
	for seed := range uint64(o.Seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := newRun[K](t, b, whole(), seed, key)
			for range o.Steps {
				r.step()
			}
			for _, m := range r.moments {
				r.finish(m)
			}
			r.moments = nil
			m := r.takeAs(seed%2 == 0)
			r.finish(m)
			if b.Reopen != nil && m.stored != nil {
				r.resize(b, m, 2, 3, 1)
			}
			for i, other := range append([]Backend{b}, o.Others...) {
				r.elsewhere(other, m, 1+(int(seed)+i)%4)
			}
			r.end()
		})
	}
}

// colliding has keys of few hashes, so that most entries lie at their
// secondary position. It cannot be restored, where the hashes are others.
func colliding(t *testing.T, b Backend, o Options) {
	for seed := range uint64(o.Seeds) {
		r := newRun[int64](t, b, whole(), seed, func(r *rand.Rand) int64 { return r.Int64N(3000) })
		r.finishes, r.rehashed = false, true
		r.hash = func(k int64) uint32 { return 0xFFFFFF00 | uint32(k)&3 }
		for range o.Steps {
			r.step()
		}
		r.end()
	}
}

func newRun[K comparable](t *testing.T, b Backend, groups keygroup.Range, seed uint64, key func(*rand.Rand) K) *run[K] {
	now := new(int64)
	*now = 1000
	return newRunOf(t, b, groups, seed, key, now, nil)
}

// newRunOf makes a run that takes over what is stored, if anything is.
func newRunOf[K comparable](t *testing.T, b Backend, groups keygroup.Range, seed uint64, key func(*rand.Rand) K, now *int64, stored []*Stored) *run[K] {
	return &run[K]{
		subject: newSubject[K](t, b, groups, now, stored), rng: rand.New(rand.NewPCG(seed, 7)), key: key, model: map[K]*content{}, finishes: groups == whole(),
		backend: b, shelf: newShelf(groups),
	}
}

// take begins a snapshot.
func (r *run[K]) take() *moment[K] { return r.takeAs(r.rng.IntN(3) > 0) }

// takeAs begins a snapshot that is stored as files, or encoded.
func (r *run[K]) takeAs(files bool) *moment[K] {
	m := &moment[K]{model: clone(r.model), wm: r.wm, now: *r.now, done: make(chan struct{})}
	f := r.store.Freeze()
	store := func() { m.sections, m.err = encode(f) }
	switch chain := r.store.Chain(); {
	case !files || r.backend.Reopen == nil:
	case f.HasFiles():
		store = r.shelf.store(f, m.keep)
	case chain != nil && f.IsInMemory() && !r.rehashed:
		store = r.shelf.chain(f, chain, r.store, m.keepSections)
	}
	go func() {
		defer close(m.done)
		store()
		f.Release()
	}()
	r.moments = append(r.moments, m)
	r.t.Cleanup(func() { <-m.done })
	return m
}

// finish compares a snapshot with the model of its moment.
func (r *run[K]) finish(m *moment[K]) {
	r.t.Helper()
	<-m.done
	r.check(m.err)
	o := newRun[K](r.t.(*testing.T), Heap, whole(), 1, r.key)
	defer o.close()
	*o.now = m.now
	o.wm = m.wm
	r.readStored(m)
	o.restore(m.sections, whole())
	o.model = clone(m.model)
	o.all()
	o.fireAll(entry.EventTime)
	o.fireAll(entry.ProcessingTime)
}

// end waits for the snapshots under way, and compares all that is left.
func (r *run[K]) end() {
	r.t.Helper()
	for _, m := range r.moments {
		<-m.done
		r.check(m.err)
	}
	r.all()
	r.fireAll(entry.EventTime)
	r.drop()
}

// all compares the state of all keys.
func (r *run[K]) all() {
	r.t.Helper()
	r.keys()
	keys := make([]K, 0, len(r.model))
	for k := range r.model {
		keys = append(keys, k)
	}
	for len(keys) > 0 {
		n := min(len(keys), 200)
		r.batch(keys[:n], nil)
		keys = keys[n:]
	}
}

// elsewhere restores a snapshot into another backend at another parallelism,
// and lets the job go on there.
func (r *run[K]) elsewhere(b Backend, m *moment[K], parallelism int) {
	r.t.Helper()
	for sub := range parallelism {
		o := r.part(b, []*moment[K]{m}, sub, parallelism)
		for range 30 {
			o.step()
		}
		o.end()
		o.close()
	}
}

// part restores a subtask's part of snapshots that lie side by side.
func (r *run[K]) part(b Backend, all []*moment[K], sub, parallelism int) *run[K] {
	r.t.Helper()
	mine := keygroup.RangeOf(sub, parallelism, groups)
	now := new(int64)
	var stored []*Stored
	asFiles := b.Reopen != nil
	for _, m := range all {
		*now = max(*now, m.now)
		if asFiles = asFiles && m.stored != nil; asFiles && m.stored.Groups.Intersect(mine).Len() > 0 {
			stored = append(stored, m.stored)
		}
	}
	if !asFiles {
		stored = nil
	}
	o := newRunOf(r.t.(*testing.T), b, mine, uint64(sub), r.key, now, stored)
	for _, m := range all {
		o.wm = max(o.wm, m.wm)
		for k, c := range m.model {
			if mine.Contains(keygroup.Group(r.hash(k), groups)) {
				o.model[k] = c.clone()
			}
		}
		if stored == nil {
			r.readStored(m)
			o.load(m.sections, mine)
		}
	}
	if stored == nil {
		o.check(o.store.Restored())
	}
	o.key = func(rng *rand.Rand) K {
		for {
			if k := r.key(rng); mine.Contains(keygroup.Group(r.hash(k), groups)) {
				return k
			}
		}
	}
	o.all()
	return o
}

// resize restores a snapshot that is stored as files at one parallelism after
// the other, each time from what the subtasks before have stored.
func (r *run[K]) resize(b Backend, m *moment[K], parallelisms ...int) {
	r.t.Helper()
	before := []*moment[K]{m}
	for _, p := range parallelisms {
		var after []*moment[K]
		for sub := range p {
			o := r.part(b, before, sub, p)
			for range 20 {
				o.step()
			}
			m := o.takeAs(true)
			<-m.done
			o.check(m.err)
			after = append(after, m)
			o.end()
			o.close()
		}
		before = after
	}
}
