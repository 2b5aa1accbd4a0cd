package state

import (
	"errors"
	"maps"
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

// Parts of values and of map keys are stored by name, too.
func TestS12EnumerationWithinAnotherType(t *testing.T) {
	type oldPart struct {
		Kind oldKind
		N    int32
	}
	type newPart struct {
		Kind newKind
		N    int32
	}
	type oldOuter struct{ In [1]oldPart }
	type newOuter struct{ In [1]newPart }
	const age, newAge = oldKind(1), newKind(2)
	renamed(t, oldPart{age, 7}, newPart{newAge, 7})
	renamed(t, [2]oldKind{age, age}, [2]newKind{newAge, newAge})
	renamed(t, oldOuter{[1]oldPart{{age, 7}}}, newOuter{[1]newPart{{newAge, 7}}})
	renamed(t, [2]oldByte{1, 0}, [2]newByte{2, 1})

	evolve(t, [][]oldByte{{1, 0}}, [][]newByte{{2, 1}})
	type oldList struct{ Kinds []oldByte }
	type newList struct{ Kinds []newByte }
	evolve(t, []oldList{{[]oldByte{1}}}, []newList{{[]newByte{2}}})

	type wider struct { // is encoded, and finds what was not
		Kind newKind
		N    int64
		Text string
	}
	evolve(t, []oldPart{{age, 7}}, []wider{{newAge, 7, ""}})
}

// renamed stores a value, also as the key of a map, and restores another.
func renamed[Old, New comparable](t *testing.T, was Old, is New) {
	t.Helper()
	evolve(t, []Old{was}, []New{is})
	s, m := newStore(t, 1, func(r *Registry) Map[Old, int] { return MapIn[Old, int](r, "m") })
	s.seek(0)
	ok(t, m.Put(was, 1))
	saved := s.snapshot(t)
	later, n := newStore(t, 1, func(r *Registry) Map[New, int] { return MapIn[New, int](r, "m") })
	later.load(t, saved)
	later.seek(0)
	equals(t, "map", maps.Collect(n.All()), map[New]int{is: 1})
}

// oldByte and newByte are the same as numbers of one byte.
type (
	oldByte uint8
	newByte uint8
)

func (k oldByte) MarshalText() ([]byte, error) { return oldKind(k).MarshalText() }
func (k newByte) MarshalText() ([]byte, error) { return newKind(k).MarshalText() }
func (k *oldByte) UnmarshalText(b []byte) error {
	var v oldKind
	err := v.UnmarshalText(b)
	*k = oldByte(v)
	return err
}
func (k *newByte) UnmarshalText(b []byte) error {
	var v newKind
	err := v.UnmarshalText(b)
	*k = newByte(v)
	return err
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
