package state

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirstream/weir/internal/entry"
)

// FuzzLoad loads foreign bytes into every kind of state. What is accepted
// must be whole: it can be stored, loaded again and used.
func FuzzLoad(f *testing.F) {
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		for _, l := range []life{{}, {ttl: 50}} {
			f.Add(uint8(i), l.ttl != 0, l.ttl != 0, seedBytes(f, kinds[name], l))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, timed, ttl bool, src []byte) {
		l := life{}
		if ttl {
			l.ttl = 50
		}
		build := func(r *Registry) subject { return kinds[names[int(kind)%len(names)]](r, "state", l) }
		s, sub := newStore(t, 1, build)
		field := s.reg.Fields()[0]
		if err := field.Load(src, timed, s.ptr(0), s.cur.Arena, s.cur.Now); err != nil {
			if s.present(0) != 0 {
				t.Fatalf("present after %v", err)
			}
		}
		first := s.snapshot(t)
		again, _ := newStore(t, 1, build)
		again.cur.Now = s.cur.Now
		again.load(t, first)
		if b := again.snapshot(t).values[0]["state"]; string(b) != string(first.values[0]["state"]) {
			t.Fatalf("stored as %x, loaded and stored as %x", first.values[0]["state"], b)
		}
		s.seek(0)
		useAll(sub)
		if s.present(0) != 0 {
			field.Clear(s.ptr(0), s.cur.Arena)
		}
	})
}

// FuzzPrune: what is left of an encoded value is what a restore at that time
// leaves of it, and a value that does not load is not pruned to one that does.
func FuzzPrune(f *testing.F) {
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		for _, later := range []int64{0, 49, 50} {
			f.Add(uint8(i), later, seedBytes(f, kinds[name], life{ttl: 50}))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, later int64, src []byte) {
		s, _ := newStore(t, 1, func(r *Registry) subject { return kinds[names[int(kind)%len(names)]](r, "state", life{ttl: 50}) })
		field, now := s.reg.Fields()[0], s.cur.Now
		if later > 0 && later < 1000 {
			now += later
		}
		left, pruneErr := field.Prune([]byte("before"), src, now)
		if pruneErr == nil && string(left[:6]) != "before" {
			t.Fatalf("what was there has become %q", left[:6])
		}
		if field.Load(src, true, s.ptr(0), s.cur.Arena, now) != nil {
			return
		}
		if pruneErr != nil {
			t.Fatalf("%x loads, and cannot be pruned: %v", src, pruneErr)
		}
		want := s.snapshot(t).values[0]["state"]
		left = left[6:]
		if len(left) > 0 {
			if err := field.Load(left, true, s.ptr(0), s.cur.Arena, 0); err != nil {
				t.Fatalf("%x is left of %x and does not load: %v", left, src, err)
			}
			left = s.snapshot(t).values[0]["state"]
		}
		if string(left) != string(want) {
			t.Fatalf("pruned to %x, want %x", left, want)
		}
	})
}

func seedBytes(f *testing.F, declare declare, l life) []byte {
	s, sub := newStore(f, 1, func(r *Registry) subject { return declare(r, "state", l) })
	s.seek(0)
	r := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		fillOne(sub, r)
	}
	return s.snapshot(f).values[0]["state"]
}

// fillOne and useAll do without a model: bytes that no codec accepts are
// errors of Get, which is fine.
func fillOne(sub subject, r *rand.Rand) {
	if f, ok := sub.(interface{ fill(*rand.Rand) }); ok {
		f.fill(r)
	}
}

func useAll(sub subject) {
	if u, ok := sub.(interface{ use1() }); ok {
		u.use1()
	}
}

func (s *valueSubject[T]) fill(r *rand.Rand) {
	if s.reduce != nil {
		_ = s.red.Add(s.gen(r))
		return
	}
	_ = s.h.Set(s.gen(r))
}
func (s *valueSubject[T]) use1() { _, _, _ = s.lookup() }

func (s *listSubject[T]) fill(r *rand.Rand) { _ = s.h.Add(s.gen(r)) }
func (s *listSubject[T]) use1() {
	_, _ = s.h.Get()
	_ = s.h.Add(s.gen(rand.New(rand.NewPCG(1, 2))))
}

func (s *mapSubject[K, V]) fill(r *rand.Rand) { _ = s.h.Put(s.key(r), s.gen(r)) }
func (s *mapSubject[K, V]) use1() {
	r := rand.New(rand.NewPCG(1, 2))
	for k := range s.h.Keys() {
		_ = s.h.Remove(k)
		_ = s.h.Put(s.key(r), s.gen(r))
		if r.IntN(100) == 0 {
			break
		}
	}
}

func (s *aggSubject[Acc]) fill(r *rand.Rand) { _ = s.h.Add(uint16(r.Uint32())) }
func (s *aggSubject[Acc]) use1()             { _ = s.h.Add(1) }

func TestLoadReplacesWhatIsThere(t *testing.T) {
	s, m := newStore(t, 1, func(r *Registry) Map[string, string] { return MapIn[string, string](r, "m") })
	s.seek(0)
	ok(t, m.Put("a", "x"))
	saved := s.snapshot(t)
	ok(t, m.Put("b", "y"))
	s.load(t, saved)
	equals(t, "keys", slices.Collect(m.Keys()), []string{"a"})
	ok(t, s.reg.Fields()[0].Load([]byte{0}, false, s.ptr(0), s.cur.Arena, 0))
	equals(t, "presence after an empty map", *entry.Bits(s.ptr(0))&entry.Present, uint32(0))
}
