package state

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestS01NilElement(t *testing.T) {
	s, l := newStore(t, 1, func(r *Registry) List[*nested] { return ListIn[*nested](r, "l") })
	s.seek(0)
	none := []string{}
	a, b, c := &nested{Name: "1", Tags: none}, &nested{Name: "2", Tags: none}, &nested{Name: "3"}
	ok(t, l.AddAll(a, b))
	for what, err := range map[string]error{
		"Add":    l.Add(nil),
		"AddAll": l.AddAll(c, nil),
		"Update": l.Update([]*nested{c, nil}),
	} {
		if !errors.Is(err, ErrNil) {
			t.Errorf("%s of nil: %v, want ErrNil", what, err)
		}
	}
	got, err := l.Get()
	ok(t, err)
	equals(t, "list", got, []*nested{a, b})
}

func TestNilValuesLeaveStateAsItWas(t *testing.T) {
	type handles struct {
		v Value[*nested]
		m Map[string, *nested]
	}
	s, h := newStore(t, 1, func(r *Registry) handles {
		return handles{ValueIn[*nested](r, "v"), MapIn[string, *nested](r, "m")}
	})
	s.seek(0)
	if err := h.v.Set(nil); !errors.Is(err, ErrNil) {
		t.Errorf("Set(nil): %v, want ErrNil", err)
	}
	if err := h.m.Put("a", nil); !errors.Is(err, ErrNil) {
		t.Errorf("Put(nil): %v, want ErrNil", err)
	}
	equals(t, "presence", s.present(0), uint32(0))
	x := &nested{Name: "x", Tags: []string{}}
	ok(t, h.m.Put("a", x))
	if err := h.m.Put("a", nil); !errors.Is(err, ErrNil) {
		t.Errorf("Put(nil) over a value: %v, want ErrNil", err)
	}
	v, _, err := h.m.Get("a")
	ok(t, err)
	equals(t, "value", v, x)
}

func TestS04RemoveWhileIterating(t *testing.T) {
	s, m := newStore(t, 1, func(r *Registry) Map[int, int] { return MapIn[int, int](r, "m") })
	s.seek(0)
	for _, n := range []int{1, 2, 16, 17, 32, 128, 256, 300} {
		ok(t, m.Clear())
		for i := range n {
			ok(t, m.Put(i, -i))
		}
		visits := map[int]int{}
		for k, v := range m.All() {
			equals(t, "value", v, -k)
			visits[k]++
			if k%2 == 0 {
				ok(t, m.Remove(k))
				ok(t, m.Remove(k)) // twice is no error
			}
		}
		ok(t, m.Err())
		equals(t, "entries visited", len(visits), n)
		for k, times := range visits {
			if times != 1 {
				t.Errorf("of %d: %d visited %d times", n, k, times)
			}
		}
		left := slices.Sorted(m.Keys())
		equals(t, "entries left", len(left), n/2)
		for i, k := range left {
			equals(t, "key", k, 2*i+1)
		}
	}
}

func TestRemoveOthersInNestedIterations(t *testing.T) {
	s, m := newStore(t, 1, func(r *Registry) Map[int, int] { return MapIn[int, int](r, "m") })
	s.seek(0)
	for i := range 100 {
		ok(t, m.Put(i, i))
	}
	outer, removed := map[int]bool{}, map[int]bool{}
	for k := range m.All() {
		if outer[k] || removed[k] {
			t.Fatalf("%d visited again, or after it was removed", k)
		}
		outer[k] = true
		inner := map[int]bool{}
		for j := range m.Keys() {
			if inner[j] {
				t.Fatalf("%d visited twice by an inner iteration", j)
			}
			inner[j] = true
			if j != k && j%7 == k%7 && j%3 == 0 {
				ok(t, m.Remove(j))
				removed[j] = true
			}
		}
	}
	for i := range 100 {
		if !outer[i] && !removed[i] {
			t.Errorf("%d not visited", i)
		}
	}
}

func TestS05MapNeverWritten(t *testing.T) {
	s, m := newStore(t, 1, func(r *Registry) Map[string, int] { return MapIn[string, int](r, "m") })
	s.seek(0)
	empty := func() {
		t.Helper()
		isEmpty, err := m.IsEmpty()
		ok(t, err)
		equals(t, "IsEmpty", isEmpty, true)
		equals(t, "entries", maps.Collect(m.All()), map[string]int{})
		equals(t, "keys", slices.Collect(m.Keys()), []string(nil))
		equals(t, "values", slices.Collect(m.Values()), []int(nil))
		ok(t, m.Remove("a"))
		equals(t, "presence", s.present(0), uint32(0))
		equals(t, "snapshot", s.snapshot(t).values[0], map[string][]byte{})
	}
	empty()
	ok(t, m.PutAll(nil))
	empty()
	ok(t, m.Put("a", 1))
	ok(t, m.Remove("a"))
	empty()
}

// TestS07SnapshotLeavesStateAlone freezes at every step; TestModel encodes
// beside running operations.
func TestS07SnapshotLeavesStateAlone(t *testing.T) {
	build := func(r *Registry) Map[string, bool] { return MapIn[string, bool](r, "names") }
	for snapshots := range 11 {
		s, names := newStore(t, 1, build)
		s.seek(0)
		ok(t, names.Put("a", true))
		ok(t, names.Put("b", true))
		var last *stored
		for range snapshots {
			last = s.snapshot(t)
		}
		n, err := names.Len()
		ok(t, err)
		equals(t, "distinct names", n, 2)
		if last != nil {
			s, names = newStore(t, 1, build)
			s.load(t, last)
			s.seek(0)
			equals(t, "restored", maps.Collect(names.All()), map[string]bool{"a": true, "b": true})
		}
	}
}

// oldKind and newKind are one enumeration, before and after a constant was
// put in front.
type (
	oldKind int
	newKind int
)

func (k oldKind) MarshalText() ([]byte, error) { return []byte([]string{"PROVINCE", "AGE"}[k]), nil }
func (k *oldKind) UnmarshalText(b []byte) error {
	*k = oldKind(slices.Index([]string{"PROVINCE", "AGE"}, string(b)))
	return nil
}
func (k newKind) MarshalText() ([]byte, error) {
	return []byte([]string{"COUNTRY", "PROVINCE", "AGE"}[k]), nil
}
func (k *newKind) UnmarshalText(b []byte) error {
	*k = newKind(slices.Index([]string{"COUNTRY", "PROVINCE", "AGE"}, string(b)))
	return nil
}

func TestS12EnumerationStoredByName(t *testing.T) {
	const province, age, newProvince, newAge = oldKind(0), oldKind(1), newKind(1), newKind(2)
	s, m := newStore(t, 1, func(r *Registry) Map[oldKind, int] { return MapIn[oldKind, int](r, "m") })
	s.seek(0)
	ok(t, m.PutAll(map[oldKind]int{province: 1, age: 2}))
	saved := s.snapshot(t)
	later, n := newStore(t, 1, func(r *Registry) Map[newKind, int] { return MapIn[newKind, int](r, "m") })
	later.load(t, saved)
	later.seek(0)
	equals(t, "map", maps.Collect(n.All()), map[newKind]int{newProvince: 1, newAge: 2})

	s, last := newStore(t, 1, func(r *Registry) Value[oldKind] { return ValueIn[oldKind](r, "v") })
	s.seek(0)
	ok(t, last.Set(age))
	saved = s.snapshot(t)
	later, next := newStore(t, 1, func(r *Registry) Value[newKind] { return ValueIn[newKind](r, "v") })
	later.load(t, saved)
	later.seek(0)
	got, err := next.Get()
	ok(t, err)
	equals(t, "value", got, newAge)
}

func TestS13TTLBoundary(t *testing.T) {
	build := func(opts ...TTLOption) func(*Registry) Value[int] {
		return func(r *Registry) Value[int] { return ValueIn[int](r, "v", TTL(100*ms, opts...)) }
	}
	at := func(s *store, v *Value[int], now int64, want bool) {
		t.Helper()
		s.cur.Now = now
		_, found, err := v.Lookup()
		ok(t, err)
		if found != want {
			t.Errorf("at %d found is %v, want %v", now, found, want)
		}
	}
	set := func(s *store, v *Value[int], now int64) {
		s.seek(0)
		s.cur.Now = now
		ok(t, v.Set(1))
	}
	s, v := newStore(t, 1, build())
	set(s, &v, 0)
	at(s, &v, 99, true)
	at(s, &v, 100, false)
	equals(t, "presence after an expired read", s.present(0), uint32(0))

	s, v = newStore(t, 1, build(OnReadAndWrite))
	set(s, &v, 0)
	at(s, &v, 60, true)
	at(s, &v, 159, true)
	set(s, &v, 0)
	at(s, &v, 60, true)
	at(s, &v, 160, false)

	s, v = newStore(t, 1, func(r *Registry) Value[int] {
		return ValueIn[int](r, "v", func(o *options) { o.ttl.millis = math.MaxInt64 })
	})
	set(s, &v, 5)
	at(s, &v, math.MaxInt64, true)
}

func TestReturnExpiredIfNotCleanedUp(t *testing.T) {
	type handles struct {
		v Value[string]
		l List[int]
		m Map[int, int]
	}
	ttl := TTL(100*ms, ReturnExpiredIfNotCleanedUp)
	s, h := newStore(t, 1, func(r *Registry) handles {
		return handles{ValueIn[string](r, "v", ttl), ListIn[int](r, "l", ttl), MapIn[int, int](r, "m", ttl)}
	})
	write := func() {
		s.seek(0)
		s.cur.Now = 0
		ok(t, h.v.Set("a"))
		ok(t, h.l.Add(1))
		ok(t, h.m.Put(1, 10))
		s.cur.Now = 100
	}
	write()
	for _, want := range []bool{true, false} { // once, then it is gone
		_, found, err := h.v.Lookup()
		ok(t, err)
		equals(t, "value found", found, want)
		list, err := h.l.Get()
		ok(t, err)
		equals(t, "list found", list != nil, want)
		_, found, err = h.m.Get(1)
		ok(t, err)
		equals(t, "map entry found", found, want)
	}
	equals(t, "presence", s.present(0), uint32(0))
	write()
	s.expire()
	equals(t, "presence once cleaned up", s.present(0), uint32(0))
	if _, found, _ := h.v.Lookup(); found {
		t.Error("a cleaned up value is returned")
	}
}

func TestS14StoppedLongerThanTTL(t *testing.T) {
	build := func(r *Registry) Value[int] { return ValueIn[int](r, "v", TTL(10*time.Minute)) }
	s, v := newStore(t, 1, build)
	s.seek(0)
	written := s.cur.Now
	ok(t, v.Set(7))
	saved := s.snapshot(t)
	restore := func(after time.Duration) {
		s, v = newStore(t, 1, build)
		s.cur.Now = written + after.Milliseconds()
		s.load(t, saved)
		s.seek(0)
	}
	restore(11 * time.Minute)
	if _, found, _ := v.Lookup(); found {
		t.Error("present though it has expired while the job was down")
	}
	equals(t, "presence", s.present(0), uint32(0))
	restore(9 * time.Minute)
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{9 * time.Minute, true}, {10*time.Minute - ms, true}, {10 * time.Minute, false}} {
		s.cur.Now = written + step.after.Milliseconds()
		_, found, err := v.Lookup()
		ok(t, err)
		equals(t, "found", found, step.want)
	}
}

func TestS16TTLPerEntryAndElement(t *testing.T) {
	type handles struct {
		m Map[string, int]
		l List[int]
	}
	s, h := newStore(t, 1, func(r *Registry) handles {
		return handles{MapIn[string, int](r, "m", TTL(100*ms)), ListIn[int](r, "l", TTL(100*ms))}
	})
	s.seek(0)
	s.cur.Now = 0
	ok(t, h.m.Put("x", 1))
	ok(t, h.l.Add(1))
	s.cur.Now = 60
	ok(t, h.m.Put("y", 2))
	ok(t, h.l.Add(2))

	s.cur.Now = 120
	isEmpty, err := h.m.IsEmpty()
	ok(t, err)
	equals(t, "IsEmpty", isEmpty, false)
	_, found, err := h.m.Get("x")
	ok(t, err)
	equals(t, "x found", found, false)
	equals(t, "entries", maps.Collect(h.m.All()), map[string]int{"y": 2})
	list, err := h.l.Get()
	ok(t, err)
	equals(t, "list", list, []int{2})

	s.cur.Now = 160
	isEmpty, err = h.m.IsEmpty()
	ok(t, err)
	equals(t, "IsEmpty", isEmpty, true)
	equals(t, "entries", maps.Collect(h.m.All()), map[string]int{})
	list, err = h.l.Get()
	ok(t, err)
	equals(t, "list", list, []int(nil))
	equals(t, "presence", s.present(0), uint32(0))
}

// TestTTLSwitchedAtRestore: switched on, what is there counts from the
// restore; switched off, stored times are dropped.
func TestTTLSwitchedAtRestore(t *testing.T) {
	type handles struct {
		v Value[string]
		n Value[int64]
		l List[int32]
		s List[string]
		m Map[string, int]
		i Map[int64, int64]
	}
	build := func(opts ...Option) func(r *Registry) handles {
		return func(r *Registry) handles {
			return handles{ValueIn[string](r, "v", opts...), ValueIn[int64](r, "n", opts...),
				ListIn[int32](r, "l", opts...), ListIn[string](r, "s", opts...),
				MapIn[string, int](r, "m", opts...), MapIn[int64, int64](r, "i", opts...)}
		}
	}
	fill := func(s *store, h handles) {
		s.seek(0)
		ok(t, h.v.Set("a"))
		ok(t, h.n.Set(5))
		ok(t, h.l.AddAll(1, 2))
		ok(t, h.s.AddAll("p", "q"))
		ok(t, h.m.Put("k", 3))
		ok(t, h.i.Put(8, 9))
	}
	see := func(h handles) []any {
		v, _ := h.v.Get()
		n, _ := h.n.Get()
		l, _ := h.l.Get()
		s, _ := h.s.Get()
		return []any{v, n, l, s, maps.Collect(h.m.All()), maps.Collect(h.i.All())}
	}
	full := []any{"a", int64(5), []int32{1, 2}, []string{"p", "q"}, map[string]int{"k": 3}, map[int64]int64{8: 9}}
	none := []any{"", int64(0), []int32(nil), []string(nil), map[string]int{}, map[int64]int64{}}

	without, h := newStore(t, 1, build())
	fill(without, h)
	with, h := newStore(t, 1, build(TTL(100*ms)))
	with.cur.Now = 0
	fill(with, h)

	s, h := newStore(t, 1, build(TTL(100*ms)))
	s.cur.Now = 5000
	s.load(t, without.snapshot(t))
	s.seek(0)
	s.cur.Now = 5099
	equals(t, "switched on, before", see(h), full)
	s.cur.Now = 5100
	equals(t, "switched on, after", see(h), none)

	s, h = newStore(t, 1, build())
	s.cur.Now = 1 << 40
	s.load(t, with.snapshot(t))
	s.seek(0)
	equals(t, "switched off", see(h), full)
}

// level is a number with names, as an accumulator of its own.
type level int

func (l level) MarshalText() ([]byte, error)  { return []byte{byte('0' + l)}, nil }
func (l *level) UnmarshalText(b []byte) error { *l = level(b[0] - '0'); return nil }

type highest struct{}

func (highest) Init(acc *level)                 { *acc = 0 }
func (highest) Add(acc *level, in level) error  { *acc = max(*acc, in); return nil }
func (highest) Merge(acc, other *level) error   { *acc = max(*acc, *other); return nil }
func (highest) Result(acc *level) (level, bool) { return *acc, true }
func (highest) Kind() string                    { return "highest" }

func TestAccumulatorWithNames(t *testing.T) {
	build := func(r *Registry) Aggregating[level, level, level] {
		return AggregatingIn(r, "level", highest{})
	}
	s, h := newStore(t, 1, build)
	s.seek(0)
	for _, l := range []level{3, 7, 5} {
		ok(t, h.Add(l))
	}
	o, restored := newStore(t, 1, build)
	o.load(t, s.snapshot(t))
	o.seek(0)
	got, has, err := restored.Get()
	ok(t, err)
	equals(t, "found", has, true)
	equals(t, "result", got, level(7))
}

// The index of a map is at most half full at any size, whatever the arena
// rounds its block up to.
func TestMapIndexIsAtMostHalfFull(t *testing.T) {
	s, h := newStore(t, 1, func(r *Registry) Map[int64, int64] { return MapIn[int64, int64](r, "m") })
	s.seek(0)
	for k := range int64(70_000) {
		ok(t, h.Put(k, k))
		m := h.c.slot(s.cur.P)
		if m.index == 0 {
			continue
		}
		if cells := len(indexOf(m, s.cur.Arena).cells); 2*int(m.count) > cells {
			t.Fatalf("%d entries in %d cells", m.count, cells)
		}
	}
}

// Of a large map a part is looked at each time; in the end all that has
// expired is gone, and nothing else.
func TestLargeMapExpiresInParts(t *testing.T) {
	const ttl, n, young = 100, 50_000, 1000
	s, h := newStore(t, 1, func(r *Registry) Map[int64, int64] {
		return MapIn[int64, int64](r, "m", TTL(ttl*time.Millisecond))
	})
	s.seek(0)
	for k := range int64(n) {
		if k == n-young {
			s.cur.Now += ttl
		}
		ok(t, h.Put(k*7919%n, k))
	}
	visits := 0
	for m := h.c.slot(s.cur.P); m.count != young; visits++ {
		before := int(m.count)
		s.expire()
		if gone := before - int(m.count); gone > n/16 {
			t.Fatalf("visit %d removed %d entries at once", visits, gone)
		}
		if visits > 100 {
			t.Fatalf("%d entries are left, want %d", m.count, young)
		}
	}
	for k, v := range h.All() {
		if v < n-young || k != v*7919%n {
			t.Fatalf("%d is %d", k, v)
		}
	}
	s.cur.Now += ttl
	for range 100 {
		if s.present(0) == 0 {
			return
		}
		s.expire()
	}
	t.Fatal("the map is left when all of it has expired")
}
