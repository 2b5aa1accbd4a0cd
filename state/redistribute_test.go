package state

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/snapshot"
)

func TestO01Redistribution(t *testing.T) {
	lists := func(parts ...string) (old [][]snapshot.ListState) {
		for _, p := range parts {
			l := snapshot.ListState{Name: "l"}
			for _, c := range p {
				l.Items = append(l.Items, []byte(string(c)))
			}
			old = append(old, []snapshot.ListState{l})
		}
		return old
	}
	for _, c := range []struct {
		old, want []string
	}{
		{[]string{"abc", "de"}, []string{"ab", "cd", "e"}},
		{[]string{"ab", "cd", "e"}, []string{"abcde"}},
		{[]string{"abc", "de"}, []string{"abcde"}},
		{[]string{"a", "b", "c", "d"}, []string{"ab", "c", "d"}},
		{[]string{"abcdefg"}, []string{"abc", "de", "fg"}},
		{[]string{"abc", ""}, []string{"abc", ""}}, // equal parallelism
		{[]string{"a"}, []string{"a", "", ""}},
	} {
		var got []string
		for _, ls := range Redistribute(lists(c.old...), len(c.want)) {
			text := ""
			for _, item := range ls[0].Items {
				text += string(item)
			}
			got = append(got, text)
		}
		equals(t, "redistribution", got, c.want)
	}
}

func TestO03UnionListGoesToAll(t *testing.T) {
	list := func(name string, kind snapshot.ListKind, items string) snapshot.ListState {
		l := snapshot.ListState{Name: name, Kind: kind}
		for _, c := range items {
			l.Items = append(l.Items, []byte(string(c)))
		}
		return l
	}
	stored := func(union, even, broadcast string) []snapshot.ListState {
		return []snapshot.ListState{
			list("union", snapshot.UnionList, union), list("even", snapshot.EvenSplit, even), list("all", snapshot.BroadcastMap, broadcast),
		}
	}
	old := [][]snapshot.ListState{stored("ab", "12", "x"), stored("c", "3", "y")}
	for parallelism, want := range map[int][]string{
		1: {"abc 123 x"},
		2: {"abc 12 x", "abc 3 y"},
		3: {"abc 1 x", "abc 2 y", "abc 3 x"},
		5: {"abc 1 x", "abc 2 y", "abc 3 x", "abc  y", "abc  x"},
	} {
		var got []string
		for _, lists := range Redistribute(old, parallelism) {
			var of []string
			for _, l := range lists {
				of = append(of, string(bytes.Join(l.Items, nil)))
			}
			got = append(got, strings.Join(of, " "))
		}
		equals(t, fmt.Sprintf("at %d", parallelism), got, want)
	}
	equals(t, "from nothing", Redistribute(nil, 2), make([][]snapshot.ListState, 2))
}

// TestRedistributionRotates: where one list's longer runs end, those of the
// next begin.
func TestRedistributionRotates(t *testing.T) {
	var old []snapshot.ListState
	for _, name := range []string{"a", "b", "c"} {
		old = append(old, snapshot.ListState{Name: name, Items: [][]byte{[]byte(name + "1"), []byte(name + "2")}})
	}
	var got [][]string
	for _, lists := range Redistribute([][]snapshot.ListState{old}, 3) {
		var of []string
		for _, l := range lists {
			for _, item := range l.Items {
				of = append(of, string(item))
			}
		}
		got = append(got, of)
	}
	equals(t, "dealt", got, [][]string{{"a1", "b2"}, {"a2", "c1"}, {"b1", "c2"}})
}
