package savepoint_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/savepoint"
	"github.com/weirstream/weir/state"
)

// differences are those of two snapshots, a line each.
func differences(t *testing.T, a, b *savepoint.Snapshot, o savepoint.DiffOptions) []string {
	t.Helper()
	var out []string
	check(t, savepoint.Diff(t.Context(), a, b, o, func(d savepoint.Difference) error {
		out = append(out, fmt.Sprintf("%s %s %s %v: %v -> %v", d.What, d.Operator, d.State, d.Key, d.Before, d.After))
		return nil
	}))
	slices.Sort(out)
	return out
}

func TestDiff(t *testing.T) {
	s := bootstrapped(t, 300)
	ignore := savepoint.DiffOptions{IgnoreAccess: true}
	if got := differences(t, s, s, savepoint.DiffOptions{}); len(got) > 0 {
		t.Fatalf("a snapshot differs from itself: %q", got)
	}
	w := savepoint.From(s)
	check(t, savepoint.Edit(w, "profiles", newProfile, func(key string, p *profile) error {
		switch key {
		case "user-7":
			return p.count.Clear()
		case "user-8": // the same entries, in another order
			return errors.Join(p.pages.Remove("home"), p.pages.Put("home", 8))
		case "user-9":
			return p.pages.Put("new", 1)
		}
		return p.count.Set(1)
	}, "user-7", "user-8", "user-9", "nobody"))
	check(t, savepoint.EditUnkeyed(w, "profiles", newProfile, func(_ int, p *profile) error {
		p.owned.Update([]string{"one", "2"})
		return p.rules.Put("block", false)
	}))
	check(t, w.DropState("profiles", "visits"))
	check(t, savepoint.BootstrapUnkeyed(w, "more", func(r *state.Registry) state.OperatorList[int64] { return state.OperatorListIn[int64](r, "x") },
		func(l state.OperatorList[int64]) error { l.Add(1); return nil }))
	changed := written(t, w)
	got := differences(t, s, changed, ignore)
	want := []string{
		"entry profiles count nobody: <nil> -> 1",
		"entry profiles count user-7: 7 -> <nil>",
		"entry profiles owned 1: two -> 2",
		"entry profiles owned 2: three -> <nil>",
		"entry profiles rules block: true -> false",
		"operator more  <nil>: <nil> -> process",
	}
	var rest []string
	for _, line := range got {
		if !slices.Contains(want, line) {
			rest = append(rest, line)
		}
	}
	if len(got) != len(want)+2 || len(rest) != 2 || !strings.HasPrefix(rest[0], "entry profiles pages user-9: [") || !strings.HasPrefix(rest[1], "state profiles visits <nil>: list of avro") {
		t.Errorf("%d differences, rest %.500q", len(got), rest)
	}
	if back := differences(t, changed, s, ignore); len(back) != len(got) {
		t.Errorf("the other way %d differences, %d this way", len(back), len(got))
	}
	stop := errors.New("enough")
	if err := savepoint.Diff(t.Context(), s, changed, ignore, func(savepoint.Difference) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}

func TestDiffOfSchemas(t *testing.T) {
	type oneOf[T any] struct{ v state.Value[T] }
	makeOne := func(n int, max int) *savepoint.Snapshot {
		w := savepoint.New("test", max)
		check(t, savepoint.Bootstrap(w, "op", func(r *state.Registry) *oneOf[int32] { return &oneOf[int32]{state.ValueIn[int32](r, "v")} },
			func(keys *savepoint.Keys[int64], o *oneOf[int32]) error {
				for i := range n {
					keys.Select(int64(i))
					check(t, o.v.Set(int32(i)))
				}
				return nil
			}))
		return written(t, w)
	}
	wide := savepoint.New("test", 16)
	check(t, savepoint.Bootstrap(wide, "op", func(r *state.Registry) *oneOf[int64] {
		return &oneOf[int64]{state.ValueIn[int64](r, "v", state.TTL(time.Hour))}
	}, func(keys *savepoint.Keys[int64], o *oneOf[int64]) error {
		for i := range 10 {
			keys.Select(int64(i))
			check(t, o.v.Set(int64(i)))
		}
		return nil
	}))
	a := makeOne(10, 16)
	got := differences(t, a, written(t, wide), savepoint.DiffOptions{IgnoreAccess: true})
	if want := []string{"schema op v <nil>: value of int32 -> value of int64, with a time to live"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	got = differences(t, a, makeOne(9, 32), savepoint.DiffOptions{})
	if want := []string{"max parallelism op  <nil>: 16 -> 32"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
