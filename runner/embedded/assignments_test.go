package embedded

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Random assignments, snapshots, completions and failures, beside a model that
// forgets nothing: what comes back is what was assigned to the reader since the
// snapshot that it goes on from.
func TestAssignments(t *testing.T) {
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var a assignments
		var next, completed, last int64
		since := map[int64]map[int][]string{0: {}} // by snapshot, by subtask
		for range 60 {
			subtask := rnd.IntN(3)
			switch rnd.IntN(6) {
			case 0, 1, 2:
				var splits [][]byte
				for range rnd.IntN(3) {
					next++
					splits = append(splits, fmt.Append(nil, next))
					for _, m := range since {
						m[subtask] = append(m[subtask], fmt.Sprint(next))
					}
				}
				a.add(subtask, splits)
			case 3:
				last++ // many of them are never completed
				a.snapshot(last)
				since[last] = map[int][]string{}
			case 4:
				if last > completed {
					completed += 1 + rnd.Int64N(last-completed)
					a.complete(completed)
				}
			case 5:
				var got []string
				for _, s := range a.takeBack(subtask, completed, nil) {
					got = append(got, string(s))
				}
				if want := since[completed][subtask]; !slices.Equal(got, want) {
					t.Fatalf("seed %d: from snapshot %d reader %d lost %v, and %v come back", seed, completed, subtask, want, got)
				}
				for _, m := range since { // a new life, that of that snapshot
					m[subtask] = nil
				}
			}
		}
		for range 3 {
			last++
			a.snapshot(last)
		}
		if a.complete(last); len(a.list) != 0 {
			t.Fatalf("seed %d: all is held by a checkpoint, and %v are kept", seed, a.list)
		}
	}
}

// Splits that a checkpoint holds come back with the first restart from it. After
// that they are whose they were assigned to.
func TestAssignmentsHeldByTheCheckpoint(t *testing.T) {
	var a assignments
	bytes := func(names ...string) (splits [][]byte) {
		for _, n := range names {
			splits = append(splits, []byte(n))
		}
		return splits
	}
	back := func(what string, subtask int, checkpoint int64, held [][]byte, want ...string) {
		t.Helper()
		if got := fmt.Sprintf("%s", a.takeBack(subtask, checkpoint, held)); got != fmt.Sprintf("%s", bytes(want...)) {
			t.Errorf("%s: %s come back, want %s", what, got, want)
		}
	}
	a.add(0, bytes("a", "b"))
	a.add(1, bytes("c"))
	a.snapshot(1)
	a.complete(1)
	back("first restart", 0, 1, bytes("a", "b"), "a", "b")
	a.add(0, bytes("b"))
	a.add(1, bytes("a"))
	back("the other one, which has a now", 1, 1, bytes("c"), "c", "a")
	a.add(1, bytes("c"))
	back("second restart from the same checkpoint", 0, 1, bytes("a", "b"), "b")
	a.add(1, bytes("a", "b"))
	back("third one, with nothing", 0, 1, bytes("a", "b"))
	a.snapshot(2)
	a.complete(2)
	back("from another checkpoint", 1, 2, bytes("c", "a", "b"), "c", "a", "b")
}
