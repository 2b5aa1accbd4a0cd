package state

import (
	"math"
	"slices"
	"testing"

	"github.com/weirstream/weir/codec"
)

// order puts keys in the order given, and again after all were removed and put
// the other way round, and wants them in another.
func order[K comparable](t *testing.T, put, want []K, opts ...Option) {
	t.Helper()
	s, m := newStore(t, 1, func(r *Registry) Map[K, int] { return MapIn[K, int](r, "m", opts...) })
	s.seek(0)
	for range 2 {
		for i, k := range put {
			ok(t, m.Put(k, i))
		}
		equals(t, "keys", slices.Collect(m.Keys()), want)
		for i, k := range want {
			equals(t, "keys from one on", collectKeys(m.From(k)), want[i:])
		}
		ok(t, m.Err())
		for _, k := range put {
			ok(t, m.Remove(k))
		}
		slices.Reverse(put)
	}
}

func collectKeys[K, V any](all func(func(K, V) bool)) (keys []K) {
	for k := range all {
		keys = append(keys, k)
	}
	return keys
}

type shape struct {
	Kind  string
	Sides int8
}

func TestMapIsVisitedInNaturalOrder(t *testing.T) {
	order(t, []int64{5, -1, 1 << 40, 0, -1 << 50, 256, 1}, []int64{-1 << 50, -1, 0, 1, 5, 256, 1 << 40})
	order(t, []int16{-1, 300, 2, -300}, []int16{-300, -1, 2, 300})
	order(t, []uint32{1 << 31, 3, 256}, []uint32{3, 256, 1 << 31})
	order(t, []bool{true, false}, []bool{false, true})
	order(t, []string{"b", "", "a longer one than eight bytes", "a longer one", "é", "z"},
		[]string{"", "a longer one", "a longer one than eight bytes", "b", "z", "é"})
	order(t, []float64{2, math.Inf(1), -2.5, 0, math.Inf(-1), 1e-300}, []float64{math.Inf(-1), -2.5, 0, 1e-300, 2, math.Inf(1)})
	order(t, []shape{{"square", 4}, {"hexagon", 6}, {"square", -4}, {"", 0}}, []shape{{"", 0}, {"hexagon", 6}, {"square", -4}, {"square", 4}})
	order(t, []oldKind{0, 1}, []oldKind{1, 0}) // by their names, AGE and PROVINCE
	order(t, []int64{10, 9, 1}, []int64{1, 10, 9}, KeyCodec(codec.JSON[int64]()))
}

// TestMapInTheWalk covers what a change does to iterations under way.
func TestMapInTheWalk(t *testing.T) {
	s, m := newStore(t, 1, func(r *Registry) Map[int, int] { return MapIn[int, int](r, "m") })
	s.seek(0)
	for k := range 40 {
		ok(t, m.Put(39-k, 0))
	}
	var visited []int
	for k, v := range m.All() {
		visited = append(visited, k)
		switch k {
		case 3:
			ok(t, m.Remove(10))
			ok(t, m.Put(10, 1)) // put again: not what was there
			ok(t, m.Put(5, 7))
			ok(t, m.Put(100, 1))
			ok(t, m.Put(-1, 1))
		case 5:
			equals(t, "value put meanwhile", v, 7)
		case 8:
			ok(t, m.Remove(8))
			ok(t, m.Remove(0))
			ok(t, m.Remove(9))
		case 30:
			ok(t, m.Clear())
			ok(t, m.Put(31, 1))
		}
	}
	equals(t, "visited", visited, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30})
	equals(t, "left", slices.Collect(m.Keys()), []int{31})
}

func TestIterationDoesNotAllocate(t *testing.T) {
	s, m := newStore(t, 1, func(r *Registry) Map[int64, int64] { return MapIn[int64, int64](r, "m") })
	s.seek(0)
	for i := range int64(300) {
		ok(t, m.Put(i*7919%301, i))
	}
	sum := int64(0)
	got := testing.AllocsPerRun(50, func() {
		for k, v := range m.All() {
			if sum += v; k%50 == 0 {
				ok(t, m.Remove(k))
				ok(t, m.Put(k, v))
			}
		}
		for v := range m.Values() {
			sum += v
		}
	})
	equals(t, "allocations", got, 0.0)
}
