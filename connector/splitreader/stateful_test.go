package splitreader

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/connector"
)

// sums emits the running sum of a split's elements, twice for multiples of 10
// and not at all for negative ones; its position is the sum.
var sums = Hooks[int, string, split, int]{
	Initial: func(s split) int { return int(s.at) },
	Emit: func(elements []int, times []int64, sum *int, out *connector.Output[string]) error {
		for i, v := range elements {
			switch {
			case v == 666:
				return errors.New("no such element")
			case v < 0:
				continue
			}
			*sum += v
			out.EmitAt(strings.Repeat("+", *sum), times[i])
			if v%10 == 0 {
				out.Emit("ten")
			}
		}
		return nil
	},
	Split: func(id string, sum *int) split { return split{id, int64(*sum)} },
}

func TestStateMovesWithEmission(t *testing.T) {
	s := newScript()
	e := engine{ctx: t.Context(), wake: make(chan struct{}, 1)}
	r, err := NewStateful(e, func() (SplitReader[int, split], error) { return s, nil }, OneFetcher[split](), sums)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	out := connector.NewOutput[string](2)
	poll := func() (err error) {
		status := connector.Nothing
		for out.Reset(); status == connector.Nothing && err == nil; {
			if status, err = r.Poll(out); status == connector.Nothing && err == nil {
				<-e.wake
			}
		}
		return err
	}
	want := func(at int64, vals ...string) {
		t.Helper()
		if err := poll(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(out.Vals, vals) || len(out.Times) != len(vals) {
			t.Errorf("emitted %q with %d times, want %q", out.Vals, len(out.Times), vals)
		}
		splits, err := r.Snapshot(1)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(splits, []split{{"a", at}}) {
			t.Errorf("snapshot %v, want a at %d", splits, at)
		}
	}
	if err := r.AddSplits([]split{{"a", 1}}); err != nil {
		t.Fatal(err)
	}
	s.feed <- Batch[int]{Split: "a", Vals: []int{1, 2, 10, -1, -2, -3, 1}, Times: make([]int64, 7)}
	want(4, "++", "++++")
	want(14, strings.Repeat("+", 14), "ten") // 10, and -1
	want(14)                                 // -2 and -3
	want(15, strings.Repeat("+", 15))
	s.feed <- Batch[int]{Split: "a", Vals: []int{666}, Times: []int64{0}}
	if err := poll(); err == nil || err.Error() != "split a: no such element" {
		t.Errorf("a hook's error: %v", err)
	}
}

func TestHooksAreNeeded(t *testing.T) {
	h := sums
	h.Emit = nil
	if _, err := NewStateful(engine{}, nil, OneFetcher[split](), h); err == nil || !strings.Contains(err.Error(), "Emit") {
		t.Errorf("no hook Emit: %v", err)
	}
}
