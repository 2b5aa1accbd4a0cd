package heap

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/state"
)

// hoard puts keys with a large and a small value into a store with a budget
// until that is used up, and returns how many there are and the error.
func hoard(t *testing.T, pool *memory.Pool, operator string, most int) (n int, err error) {
	t.Helper()
	cur := &entry.Cursor{}
	declared := state.NewRegistry(operator)
	state.ValueIn[string](declared, "large")
	state.ValueIn[int64](declared, "small")
	r := declared.Bind(cur)
	large, small := state.ValueIn[string](r, "large"), state.ValueIn[int64](r, "small")
	s, err := New[int64](Options{Operator: operator, Fields: r.Fields(), Cursor: cur, MaxParallelism: 8, Range: whole(8), Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	h, _ := keygroup.NewHasher[int64]()
	defer func() {
		if p := recover(); p != nil {
			err = p.(error)
		}
	}()
	for ; n < most; n++ {
		k := int64(n)
		s.Bind([]int64{k}, []uint32{h.Hash(k)})
		s.Seek(0)
		if err := errors.Join(large.Set(strings.Repeat("x", 900)), small.Set(k)); err != nil {
			t.Fatal(err)
		}
		s.Release()
	}
	return n, nil
}

// When the budget is used up the error names the states, of all operators,
// with about what they take.
func TestBudgetNamesStates(t *testing.T) {
	pool := memory.NewPool(16 << 20)
	t.Cleanup(func() { pool.Close() })
	if _, err := hoard(t, pool, "other", 4000); err != nil {
		t.Fatal(err)
	}
	n, err := hoard(t, pool, "greedy", 1<<20)
	if !errors.Is(err, memory.ErrBudget) {
		t.Fatalf("%d keys: error %v", n, err)
	}
	told := map[string]int{}
	for _, m := range regexp.MustCompile(`operator ("\w+" (?:state "\w+"|keys)) (\d+)`).FindAllStringSubmatch(err.Error(), -1) {
		told[m[1]], _ = strconv.Atoi(m[2])
	}
	about := func(name string, want int) {
		if got := told[name]; got < want*3/4 || got > want*3/2 {
			t.Errorf("%s: told %d, want about %d: %v", name, got, want, err)
		}
	}
	about(`"other" state "large"`, 4000*900)
	about(`"greedy" state "large"`, n*900)
	if small := told[`"greedy" state "small"`]; small == 0 || small > n*100 {
		t.Errorf("small: told %d for %d keys", small, n)
	}
	if first := fmt.Sprintf("the largest, in bytes: operator %q state %q", "greedy", "large"); !strings.Contains(err.Error(), first) {
		t.Errorf("the first is another: %v", err)
	}
}

// A table that grows has its old and its new array for a moment: both count.
func TestBudgetCountsBothArraysOfAGrowth(t *testing.T) {
	h, _ := keygroup.NewHasher[int64]()
	keys := func(budget int64) (n int64, reserved int64) {
		pool := memory.NewPool(budget)
		defer pool.Close()
		cur, f := &entry.Cursor{}, newNumber("n")
		s, err := New[int64](Options{Operator: "op", Fields: []*entry.Field{f.Field}, Cursor: cur, MaxParallelism: 1, Range: whole(1), Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		defer func() { n, reserved = int64(s.Len()), pool.Reserved(); _ = recover() }()
		for k := range int64(100_000) {
			s.Bind([]int64{k}, []uint32{h.Hash(k)})
			s.Seek(0)
			f.set(cur, k)
			s.Release()
		}
		return 0, 0
	}
	_, peak := keys(0)
	n, reserved := keys(peak / 2)
	if reserved > peak/2 {
		t.Errorf("%d bytes were taken with a budget of %d", reserved, peak/2)
	}
	if n == 0 || n >= 100_000 {
		t.Errorf("%d keys with half the memory of 100,000", n)
	}
}
