package state

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/internal/keygroup"
)

// subject is a state beside a plain model of it. Keys of a model without a
// value are left out.
type subject interface {
	// op does something to the current key and compares what it returns.
	op(t *testing.T, r *rand.Rand, key int, now int64)
	// check compares all of the current key.
	check(t *testing.T, key int, now int64)
	// save returns a copy of the model, which use puts in place.
	save() any
	use(model any)
}

// life is a time to live as a model knows it; 0 is none.
type life struct {
	ttl    int64
	onRead bool
}

func (l life) dead(at, now int64) bool { return l.ttl != 0 && at+l.ttl <= now }

type timed[T any] struct {
	v  T
	at int64
}

func equals(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s is %#v, want %#v", what, got, want)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// valueSubject covers Value, and Reducing where reduce is set.
type valueSubject[T any] struct {
	life
	h      Value[T]
	red    Reducing[T]
	reduce func(a, b T) T
	gen    func(*rand.Rand) T
	model  map[int]timed[T]
}

func (s *valueSubject[T]) lookup() (T, bool, error) {
	if s.reduce != nil {
		return s.red.Lookup()
	}
	return s.h.Lookup()
}

func (s *valueSubject[T]) read(t *testing.T, key int, now int64) {
	t.Helper()
	m, has := s.model[key]
	if has && s.dead(m.at, now) {
		delete(s.model, key)
		m, has = timed[T]{}, false
	}
	got, found, err := s.lookup()
	ok(t, err)
	equals(t, "found", found, has)
	equals(t, "value", got, m.v)
	if has && s.onRead {
		s.model[key] = timed[T]{m.v, now}
	}
}

func (s *valueSubject[T]) op(t *testing.T, r *rand.Rand, key int, now int64) {
	v := s.gen(r)
	switch r.IntN(6) {
	case 0:
		delete(s.model, key)
		if s.reduce != nil {
			ok(t, s.red.Clear())
		} else {
			ok(t, s.h.Clear())
		}
	case 1, 2:
		s.read(t, key, now)
	default:
		if s.reduce == nil {
			ok(t, s.h.Set(v))
			s.model[key] = timed[T]{v, now}
			return
		}
		ok(t, s.red.Add(v))
		if m, has := s.model[key]; has && !s.dead(m.at, now) {
			v = s.reduce(m.v, v)
		}
		s.model[key] = timed[T]{v, now}
	}
}

func (s *valueSubject[T]) check(t *testing.T, key int, now int64) { s.read(t, key, now) }
func (s *valueSubject[T]) save() any                              { return maps.Clone(s.model) }
func (s *valueSubject[T]) use(m any)                              { s.model = m.(map[int]timed[T]) }

type listSubject[T any] struct {
	life
	h     List[T]
	gen   func(*rand.Rand) T
	model map[int][]timed[T]
}

func (s *listSubject[T]) some(r *rand.Rand, most int) []T {
	vs := []T{}
	for range r.IntN(most + 1) {
		vs = append(vs, s.gen(r))
	}
	return vs
}

func (s *listSubject[T]) live(key int, now int64) (live []timed[T]) {
	for _, e := range s.model[key] {
		if !s.dead(e.at, now) {
			live = append(live, e)
		}
	}
	return live
}

func (s *listSubject[T]) op(t *testing.T, r *rand.Rand, key int, now int64) {
	add := func(vs ...T) {
		for _, v := range vs {
			s.model[key] = append(slices.Clip(s.model[key]), timed[T]{v, now})
		}
	}
	switch r.IntN(12) {
	case 0:
		ok(t, s.h.Clear())
		delete(s.model, key)
	case 1:
		vs := s.some(r, 20)
		ok(t, s.h.Update(vs))
		delete(s.model, key)
		add(vs...)
	case 2:
		vs := s.some(r, 5)
		ok(t, s.h.AddAll(vs...))
		add(vs...)
	case 3:
		s.check(t, key, now)
	case 4:
		n, err := s.h.Len()
		ok(t, err)
		equals(t, "length", n, len(s.live(key, now)))
	default:
		v := s.gen(r)
		ok(t, s.h.Add(v))
		add(v)
	}
}

func (s *listSubject[T]) check(t *testing.T, key int, now int64) {
	t.Helper()
	var want []T
	live := s.live(key, now)
	for i, e := range live {
		want = append(want, e.v)
		if s.onRead {
			live[i].at = now
		}
	}
	s.model[key] = live
	got, err := s.h.Get()
	ok(t, err)
	equals(t, "list", got, want)
	equals(t, "iterated list", slices.Collect(s.h.All()), want)
	ok(t, s.h.Err())
}

func (s *listSubject[T]) save() any {
	c := maps.Clone(s.model)
	for k, l := range c {
		c[k] = slices.Clone(l)
	}
	return c
}
func (s *listSubject[T]) use(m any) { s.model = m.(map[int][]timed[T]) }

type mapSubject[K comparable, V any] struct {
	life
	h     Map[K, V]
	key   func(*rand.Rand) K
	gen   func(*rand.Rand) V
	model map[int]map[K]timed[V]
}

func (s *mapSubject[K, V]) op(t *testing.T, r *rand.Rand, key int, now int64) {
	k, v := s.key(r), s.gen(r)
	m := s.model[key]
	if m == nil {
		m = map[K]timed[V]{}
		s.model[key] = m
	}
	e, has := m[k]
	if has && s.dead(e.at, now) {
		e, has = timed[V]{}, false
	}
	switch n := r.IntN(100); {
	case n < 2:
		ok(t, s.h.Clear())
		clear(m)
	case n < 30:
		ok(t, s.h.Remove(k))
		delete(m, k)
	case n < 32:
		s.check(t, key, now)
	case n < 34:
		s.sweep(t, r, m, now)
	case n < 50:
		got, found, err := s.h.Get(k)
		ok(t, err)
		equals(t, "found", found, has)
		equals(t, "value", got, e.v)
		if has && s.onRead {
			m[k] = timed[V]{e.v, now}
		}
	case n < 55:
		found, err := s.h.Contains(k)
		ok(t, err)
		equals(t, "contains", found, has)
		if has && s.onRead {
			m[k] = timed[V]{e.v, now}
		}
	default:
		ok(t, s.h.Put(k, v))
		m[k] = timed[V]{v, now}
	}
}

// sweep removes, changes and puts entries during an iteration, of all or of a
// part. What was there is visited in order, unless it is removed before.
func (s *mapSubject[K, V]) sweep(t *testing.T, r *rand.Rand, m map[K]timed[V], now int64) {
	want, all := s.sorted(t, m, now), s.h.All()
	if from := s.key(r); r.IntN(2) == 0 {
		i, _ := slices.BinarySearchFunc(want, from, s.compare(t))
		want, all = want[i:], s.h.From(from)
	}
	removed, stop := map[K]bool{}, r.IntN(200)
	for k, v := range all {
		for len(want) > 0 && removed[want[0]] {
			want = want[1:]
		}
		if len(want) == 0 {
			t.Fatalf("%v is visited, which was removed or was not there at the start", k)
		}
		equals(t, "key", k, want[0])
		equals(t, "value", v, m[k].v)
		want = want[1:]
		if s.onRead {
			m[k] = timed[V]{m[k].v, now}
		}
		if stop--; stop == 0 {
			return
		}
		for range r.IntN(3) { // remove any, the current one now and then
			key := k
			if r.IntN(2) == 0 {
				key = s.key(r)
			}
			ok(t, s.h.Remove(key))
			delete(m, key)
			removed[key] = true
		}
		if k := s.key(r); r.IntN(2) == 0 {
			if e, has := m[k]; !has || s.dead(e.at, now) {
				removed[k] = true // what is new is not visited
			}
			v := s.gen(r)
			ok(t, s.h.Put(k, v))
			m[k] = timed[V]{v, now}
		}
	}
	ok(t, s.h.Err())
	for _, k := range want {
		if !removed[k] {
			t.Fatalf("%v not visited", k)
		}
	}
}

// compare is the order of the keys; that it is the natural one is tested where
// it is made.
func (s *mapSubject[K, V]) compare(t *testing.T) func(a, b K) int {
	e, err := keygroup.NewEncoding[K]()
	ok(t, err)
	o := keygroup.OrderOf[K]()
	return func(a, b K) int { return o.Compare(e.Append(nil, a), e.Append(nil, b)) }
}

func (s *mapSubject[K, V]) sorted(t *testing.T, m map[K]timed[V], now int64) (keys []K) {
	for k, e := range m {
		if !s.dead(e.at, now) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, s.compare(t))
	return keys
}

func (s *mapSubject[K, V]) check(t *testing.T, key int, now int64) {
	t.Helper()
	want := map[K]V{}
	for k, e := range s.model[key] {
		if s.dead(e.at, now) {
			delete(s.model[key], k)
			continue
		}
		want[k] = e.v
		if s.onRead {
			s.model[key][k] = timed[V]{e.v, now}
		}
	}
	n, err := s.h.Len()
	ok(t, err)
	equals(t, "length", n, len(want))
	got := map[K]V{}
	var keys []K
	for k, v := range s.h.All() {
		got[k] = v
		keys = append(keys, k)
	}
	ok(t, s.h.Err())
	equals(t, "map", got, want)
	equals(t, "order", keys, s.sorted(t, s.model[key], now))
	for k, v := range want {
		got, found, err := s.h.Get(k)
		ok(t, err)
		equals(t, "found", found, true)
		equals(t, "value", got, v)
	}
}

func (s *mapSubject[K, V]) save() any {
	c := maps.Clone(s.model)
	for k, l := range c {
		c[k] = maps.Clone(l)
	}
	return c
}
func (s *mapSubject[K, V]) use(m any) { s.model = m.(map[int]map[K]timed[V]) }

// aggSubject collects the numbers added.
type aggSubject[Acc any] struct {
	life
	h     Aggregating[uint16, Acc, []uint16]
	model map[int]timed[[]uint16]
	most  int
}

func (s *aggSubject[Acc]) op(t *testing.T, r *rand.Rand, key int, now int64) {
	switch r.IntN(12) {
	case 0:
		ok(t, s.h.Clear())
		delete(s.model, key)
	case 1:
		s.check(t, key, now)
	default:
		v := uint16(r.Uint32())
		ok(t, s.h.Add(v))
		m := s.model[key]
		if s.dead(m.at, now) {
			m.v = nil
		}
		vs := append(slices.Clip(m.v), v)
		s.model[key] = timed[[]uint16]{vs[max(0, len(vs)-s.most):], now}
	}
}

func (s *aggSubject[Acc]) check(t *testing.T, key int, now int64) {
	t.Helper()
	m, has := s.model[key]
	if has && s.dead(m.at, now) {
		delete(s.model, key)
		m, has = timed[[]uint16]{}, false
	}
	got, found, err := s.h.Get()
	ok(t, err)
	equals(t, "found", found, has)
	equals(t, "result", got, m.v)
	if has && s.onRead {
		s.model[key] = timed[[]uint16]{m.v, now}
	}
}

func (s *aggSubject[Acc]) save() any { return maps.Clone(s.model) }
func (s *aggSubject[Acc]) use(m any) { s.model = m.(map[int]timed[[]uint16]) }

// lastFlat keeps the last 40 numbers in a byte slice, newest first, so that
// each Add changes all bytes.
type lastFlat struct{}

const lastCount = 40

func (lastFlat) Init(acc *[]byte) { *acc = (*acc)[:0] }
func (lastFlat) Add(acc *[]byte, v uint16) error {
	b := append(*acc, 0, 0)
	copy(b[2:], b)
	b[0], b[1] = byte(v), byte(v>>8)
	*acc = b[:min(len(b), 2*lastCount)]
	return nil
}
func (lastFlat) Merge(_, _ *[]byte) error { return nil }
func (lastFlat) Result(acc *[]byte) (out []uint16, ok bool) {
	for i := len(*acc) - 2; i >= 0; i -= 2 {
		out = append(out, uint16((*acc)[i])|uint16((*acc)[i+1])<<8)
	}
	return out, true
}
func (lastFlat) Kind() string { return "last-flat" }

// lastFixed keeps them in a struct, which is inline or not by its size.
type smallAcc struct {
	N  uint8
	Of [10]uint16
}
type largeAcc struct {
	N  uint8
	Of [lastCount]uint16
}
type lastFixed[Acc any] struct {
	parts func(*Acc) (*uint8, []uint16)
}

func (l lastFixed[Acc]) Init(*Acc) {}
func (l lastFixed[Acc]) Add(acc *Acc, v uint16) error {
	n, of := l.parts(acc)
	copy(of[1:], of)
	of[0] = v
	*n = min(*n+1, uint8(len(of)))
	return nil
}
func (l lastFixed[Acc]) Merge(_, _ *Acc) error { return nil }
func (l lastFixed[Acc]) Result(acc *Acc) (out []uint16, ok bool) {
	n, of := l.parts(acc)
	for i := int(*n) - 1; i >= 0; i-- {
		out = append(out, of[i])
	}
	return out, true
}
func (l lastFixed[Acc]) Kind() string { return "last-fixed" }

var (
	_         agg.Aggregator[uint16, []byte, []uint16] = lastFlat{}
	lastSmall                                          = lastFixed[smallAcc]{func(a *smallAcc) (*uint8, []uint16) { return &a.N, a.Of[:] }}
	lastLarge                                          = lastFixed[largeAcc]{func(a *largeAcc) (*uint8, []uint16) { return &a.N, a.Of[:] }}
)
