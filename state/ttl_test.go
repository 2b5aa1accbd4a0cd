package state

import (
	"maps"
	"math"
	"testing"
	"time"
)

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

// Of a list what has expired goes once it is an eighth of it, so that a long list
// is not copied for each element; in the end all has gone.
func TestLongListExpiresInParts(t *testing.T) {
	const ttl, n = 1000, 2000
	s, h := newStore(t, 1, func(r *Registry) List[string] { return ListIn[string](r, "l", TTL(ttl*time.Millisecond)) })
	s.seek(0)
	written := s.cur.Now
	for i := range int64(n) {
		s.cur.Now = written + i/4
		ok(t, h.Add("element"))
	}
	copies := 0
	for at := int64(0); s.present(0) != 0; at++ {
		s.cur.Now = written + ttl + at
		before := h.c.slot(s.cur.P).count
		s.expire()
		if s.present(0) == 0 {
			break
		}
		live := uint32(n - 4*(at+1))
		left := h.c.slot(s.cur.P).count
		if left != before {
			copies++
		}
		if left < live || left > live*8/7+1 {
			t.Fatalf("%d elements are left, %d are young", left, live)
		}
		if at > n {
			t.Fatal("it does not end")
		}
	}
	if copies > 60 {
		t.Errorf("the list was copied %d times", copies)
	}
}
