package state

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
)

func newBroadcast[K comparable, V any](t testing.TB, opts ...Option) (*Registry, Broadcast[K, V]) {
	t.Helper()
	r := NewRegistry("op")
	b := BroadcastIn[K, V](r, "rules", opts...)
	ok(t, r.Err())
	r.AllowBroadcast(true)
	return r, b
}

// TestBroadcastModel does the same at random to broadcast state and to a map, with
// a list for the order, and restores both now and then.
func TestBroadcastModel(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		r, b := newBroadcast[string, []int](t)
		model, order := map[string][]int{}, []string(nil)
		remove := func(k string) {
			delete(model, k)
			order = slices.DeleteFunc(order, func(o string) bool { return o == k })
		}
		for step := range 3000 {
			k := fmt.Sprint("k", random.IntN(200))
			switch random.IntN(10) {
			case 0, 1, 2, 3:
				ok(t, b.Remove(k))
				remove(k)
			case 4:
				for k := range b.All() {
					if random.IntN(3) == 0 {
						ok(t, b.Remove(k))
						remove(k)
					}
				}
			case 5:
				if random.IntN(40) == 0 {
					ok(t, b.Clear())
					model, order = map[string][]int{}, nil
				}
			case 6:
				if random.IntN(10) == 0 {
					r, b = restored(t, r)
				}
			default:
				v := []int{step, random.IntN(5)}
				ok(t, b.Put(k, v))
				if _, has := model[k]; !has {
					order = append(order, k)
				}
				model[k] = v
			}
			v, has, err := b.Get(k)
			ok(t, err)
			want, wantHas := model[k]
			equals(t, "value", fmt.Sprint(v, has), fmt.Sprint(want, wantHas))
			equals(t, "length", b.Len(), len(model))
		}
		equals(t, "content", maps.Collect(b.All()), model)
		var keys []string
		for k := range b.All() {
			keys = append(keys, k)
		}
		equals(t, "order", keys, order)
	}
}

// restored returns what a snapshot of r restores to.
func restored(t *testing.T, r *Registry) (*Registry, Broadcast[string, []int]) {
	t.Helper()
	lists, err := r.SnapshotLists()
	ok(t, err)
	next, b := newBroadcast[string, []int](t)
	ok(t, next.RestoreLists(lists))
	return next, b
}

// What is put or removed during an iteration.
func TestBroadcastChangesDuringAnIteration(t *testing.T) {
	_, b := newBroadcast[int, int](t)
	for i := range 100 {
		ok(t, b.Put(i, i))
	}
	var seen []int
	for k := range b.All() {
		seen = append(seen, k)
		ok(t, b.Put(1000+k, 0))
		if k == 2 {
			for gone := range 95 {
				ok(t, b.Remove(gone))
			}
		}
		if k == 97 {
			ok(t, b.Clear())
		}
	}
	equals(t, "seen", seen, []int{0, 1, 2, 95, 96, 97})
	equals(t, "left", b.Len(), 0)
}

func TestBroadcastIsReadOnly(t *testing.T) {
	r, b := newBroadcast[string, int](t)
	ok(t, b.Put("a", 1))
	r.AllowBroadcast(false)
	for what, err := range map[string]error{"Put": b.Put("a", 2), "Remove": b.Remove("a"), "Clear": b.Clear()} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
		wants(t, err, `broadcast state "rules"`, "read-only")
	}
	v, has, err := b.Get("a")
	ok(t, err)
	equals(t, "a", fmt.Sprint(v, has), "1 true")
	has, err = b.Contains("b")
	ok(t, err)
	equals(t, "b", has, false)
}

func TestBroadcastKeysAreCanonical(t *testing.T) {
	r, b := newBroadcast[float64, string](t)
	ok(t, b.Put(math.NaN(), "a"))
	ok(t, b.Put(math.Float64frombits(0x7ff8000000000002), "b"))
	ok(t, b.Put(math.Copysign(0, -1), "c"))
	ok(t, b.Put(0, "d"))
	equals(t, "entries", b.Len(), 2)
	lists, err := r.SnapshotLists()
	ok(t, err)
	r, b = newBroadcast[float64, string](t)
	ok(t, r.RestoreLists(lists))
	v, _, err := b.Get(math.NaN())
	ok(t, err)
	equals(t, "NaN", v, "b")
	v, _, err = b.Get(0)
	ok(t, err)
	equals(t, "zero", v, "d")
}

// The stored form is fixed: see docs/format/metadata.md.
func TestBroadcastStoredForm(t *testing.T) {
	r, b := newBroadcast[string, int32](t)
	lists, err := r.SnapshotLists()
	ok(t, err)
	equals(t, "items of an empty map", len(lists[0].Items), 0)
	ok(t, b.Put("tea", 3))
	ok(t, b.Put("", -1))
	lists, err = r.SnapshotLists()
	ok(t, err)
	equals(t, "stored", lists, []snapshot.ListState{{
		Name: "rules", Kind: "broadcast", Format: codec.Format{ID: "int32", Version: 1, Size: 4}, Key: codec.Format{ID: "string", Version: 1},
		Items: [][]byte{[]byte("\x03tea\x03\x00\x00\x00\x00\xff\xff\xff\xff")},
	}})
}

func TestBroadcastRefusesNil(t *testing.T) {
	_, b := newBroadcast[string, *nested](t)
	err := b.Put("a", nil)
	if !errors.Is(err, ErrNil) {
		t.Errorf("a nil value: %v", err)
	}
	wants(t, err, `broadcast state "rules"`)
	equals(t, "entries", b.Len(), 0)
}

func TestBroadcastDamaged(t *testing.T) {
	item := func(words ...string) []byte {
		var b []byte
		for _, w := range words {
			b = snapshot.AppendItem(b, 0, []byte(w))
		}
		return b
	}
	for name, c := range map[string]struct {
		item []byte
		says string
	}{
		"key cut off":   {item("a", "1", "b")[:5], "entry 2: key"},
		"value missing": {item("a", "1", "b"), "entry 2: value of key b"},
		"twice":         {item("a", "1", "a", "2"), "key a comes twice"},
	} {
		r, b := newBroadcast[string, string](t)
		s := b.m.describe()
		s.Items = [][]byte{c.item}
		err := r.RestoreLists([]snapshot.ListState{s})
		wants(t, fmt.Errorf("%s: %w", name, err), `operator "op"`, `broadcast state "rules"`, c.says)
	}
}

func FuzzBroadcast(f *testing.F) {
	r, b := newBroadcast[string, int64](f)
	for i := range 5 {
		ok(f, b.Put(fmt.Sprint("key", i), int64(i)))
	}
	lists, err := r.SnapshotLists()
	ok(f, err)
	f.Add(lists[0].Items[0])
	f.Add([]byte{1, 'k'})
	f.Fuzz(func(t *testing.T, item []byte) {
		r, b := newBroadcast[string, int64](t)
		s := b.m.describe()
		s.Items = [][]byte{item}
		if r.RestoreLists([]snapshot.ListState{s}) != nil {
			return
		}
		again, err := r.SnapshotLists()
		ok(t, err)
		next, c := newBroadcast[string, int64](t)
		ok(t, next.RestoreLists(again))
		equals(t, "restored", maps.Collect(c.All()), maps.Collect(b.All()))
	})
}
