package streamtest

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"
)

type hidden struct{ secret int }

// String hides all there is.
func (hidden) String() string { return "hidden" }

type stamped struct {
	Name string
	when time.Time
	Tags []string
}

type stamp time.Time

type node struct {
	V    int
	Next *node
}

// ring is a cycle of n nodes; the last holds v.
func ring(n, v int) *node {
	last := &node{V: v}
	first := last
	for range n - 1 {
		first = &node{Next: first}
	}
	last.Next = first
	return first
}

func TestDifference(t *testing.T) {
	utc := time.Unix(1000, 5).UTC()
	zoned := utc.In(time.FixedZone("east", 3600))
	nan, other := math.NaN(), math.Float64frombits(0x7ff8000000000002)
	one, uno := 1, 1
	for _, c := range []struct {
		a, b any
		part string
		same bool
	}{
		{1, 1, "", true},
		{1, 2, "", false},
		{1, int64(1), "", false},
		{"a", "a", "", true},
		{true, false, "", false},
		{nil, nil, "", true},
		{nil, 1, "", false},
		{utc, zoned, "", true},
		{utc, zoned.Add(1), "", false},
		{stamp(utc), stamp(zoned), "", true},
		{stamped{when: utc}, stamped{when: zoned}, "", true},
		{stamped{when: utc}, stamped{when: utc.Add(1)}, ".when", false},
		{stamped{Tags: nil}, stamped{Tags: []string{}}, ".Tags", false},
		{stamped{Tags: []string{"a", "b"}}, stamped{Tags: []string{"a b"}}, ".Tags", false},
		{stamped{Tags: []string{"a", "b"}}, stamped{Tags: []string{"a", "c"}}, ".Tags[1]", false},
		{hidden{1}, hidden{1}, "", true},
		{hidden{1}, hidden{2}, ".secret", false},
		{nan, other, "", true},
		{float32(nan), float32(other), "", true},
		{0.0, math.Copysign(0, -1), "", true},
		{complex(nan, 1), complex(other, 1), "", true},
		{[2]float64{1, nan}, [2]float64{1, other}, "", true},
		{[2]float64{1, nan}, [2]float64{1, 2}, "[1]", false},
		{map[string]float64{"a": nan}, map[string]float64{"a": other}, "", true},
		{map[string]int{"a": 1}, map[string]int{"b": 1}, "[a]", false},
		{map[string]int{"a": 1}, map[string]int{"a": 2}, "[a]", false},
		{map[string]int{"a": 1}, map[string]int{"a": 1, "b": 2}, "", false},
		{map[time.Time]int{utc: 1}, map[time.Time]int{zoned: 1}, "", true},
		{map[float64]int{nan: 1}, map[float64]int{other: 1}, "", true},
		{map[float64]int{nan: 1}, map[float64]int{other: 2}, "[NaN]", false},
		{&one, &uno, "", true},
		{&one, (*int)(nil), "", false},
		{[]any{1, utc}, []any{1, zoned}, "", true},
		{[]any{1, "x"}, []any{1, 2}, "[1]", false},
		{ring(3, 1), ring(3, 1), "", true},
		{ring(3, 1), ring(3, 2), ".Next.Next.V", false},
		{struct{ F func() }{}, struct{ F func() }{}, "", true},
		{struct{ F func() }{t.FailNow}, struct{ F func() }{t.FailNow}, ".F", false},
	} {
		part, differ := difference(c.a, c.b)
		if part != c.part || differ == c.same {
			t.Errorf("%#v and %#v: differ %v in %q, want %v in %q", c.a, c.b, differ, part, !c.same, c.part)
		}
		if _, back := difference(c.b, c.a); back != differ {
			t.Errorf("%#v and %#v: not symmetric", c.a, c.b)
		}
		d := newDigester()
		a, b := d.digest(reflect.ValueOf(&c.a).Elem()), d.digest(reflect.ValueOf(&c.b).Elem())
		if c.same && a != b {
			t.Errorf("%#v and %#v are the same and have other digests", c.a, c.b)
		}
	}
}

// What reflect.DeepEqual tells apart in flat values, digests do.
func TestDigestsDiffer(t *testing.T) {
	d := newDigester()
	seen := map[uint64]any{}
	for _, v := range []any{
		1, -1, uint(7), "a", "b", "", 1.5, complex(1, 2), complex(2, 1), []int{1}, []int{1, 2}, []int{2, 1},
		[]string{"a", "b"}, []string{"ab", ""}, []bool{true, false}, []bool{false, true}, [2]int{3, 4}, struct{ A, B int }{5, 6},
		map[string]int{"a": 1, "b": 2}, map[string]int{"a": 2, "b": 1}, time.Unix(9, 9), &node{V: 8}, hidden{10},
	} {
		n := d.digest(reflect.ValueOf(&v).Elem())
		if other, ok := seen[n]; ok {
			t.Errorf("%#v has the digest of %#v", v, other)
		}
		seen[n] = v
	}
}

func TestCompareCounts(t *testing.T) {
	for _, c := range []struct{ want, got, lost, extra []string }{
		{[]string{"a", "b", "a"}, []string{"a", "a", "b"}, nil, nil},
		{[]string{"a", "b", "a"}, []string{"b", "a", "b"}, []string{"a"}, []string{"b"}},
		{[]string{"c", "b", "a"}, nil, []string{"c", "b", "a"}, nil},
	} {
		lost, extra := compare(c.want, c.got)
		if !reflect.DeepEqual(lost, c.lost) || !reflect.DeepEqual(extra, c.extra) {
			t.Errorf("%q and %q: lost %q, too many %q", c.want, c.got, lost, extra)
		}
	}
}

// Many records that are told apart by pointers alone are compared in no more
// than a moment.
func TestCompareManyPointers(t *testing.T) {
	many := func() []*stamped {
		all := make([]*stamped, 100_000)
		for i := range all {
			all[i] = &stamped{Name: fmt.Sprint(i)}
		}
		return all
	}
	want, got := many(), many()
	got[17].Tags = []string{}
	lost, extra := compare(want, got)
	if len(lost) != 1 || len(extra) != 1 || lost[0].Name != "17" || extra[0].Name != "17" {
		t.Errorf("%d lost, %d too many", len(lost), len(extra))
	}
}
