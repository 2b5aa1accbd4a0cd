package heap

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirstream/weir/internal/memory"
)

// The wheel gives references back in order of time, none too early, none left.
func TestWheelOrder(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		pool := memory.NewPool(0)
		w := &wheel{}
		w.chunks.pool = pool
		var want []ref
		now := int64(rng.Uint64()) >> rng.IntN(64)
		for id := uint32(0); id < 5000; id++ {
			r := ref{now + int64(rng.Uint64()>>(1+rng.IntN(63))), id, 0}
			if r.at < now { // overflow
				r.at = now
			}
			w.add(r)
			want = append(want, r)
			if rng.IntN(50) == 0 {
				now += min(int64(rng.Uint64()>>(30+rng.IntN(34))), 1<<62)
				got := drainTo(w, now, rng)
				slices.SortStableFunc(want, func(a, b ref) int { return cmp.Compare(a.at, b.at) })
				n := 0
				for n < len(want) && want[n].at <= now {
					n++
				}
				equalRefs(t, got, want[:n])
				want = want[n:]
				if first, ok := w.earliest(); ok != (len(want) > 0) || ok && (first > want[0].at || first < now) {
					t.Fatalf("seed %d: earliest %d, %v at %d, want at most %v", seed, first, ok, now, want[:min(1, len(want))])
				}
			}
		}
		got := drainTo(w, 1<<63-1, rng)
		slices.SortStableFunc(want, func(a, b ref) int { return cmp.Compare(a.at, b.at) })
		equalRefs(t, got, want)
		if w.size != 0 {
			t.Fatalf("%d references left", w.size)
		}
		w.close()
		if pool.InUse() != 0 {
			t.Fatal("memory left")
		}
		pool.Close()
	}
}

// drainTo takes all references up to to, overdue ones first.
func drainTo(w *wheel, to int64, rng *rand.Rand) (all []ref) {
	for len(w.overdue) > 0 && w.overdue[0].at <= to {
		all = append(all, w.popOverdue())
	}
	for {
		out := make([]ref, 1+rng.IntN(100))
		n := w.take(to, out)
		if n == 0 {
			return all
		}
		all = append(all, out[:n]...)
	}
}

// equalRefs compares times in order and references as a set.
func equalRefs(t *testing.T, got, want []ref) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d references, want %d", len(got), len(want))
	}
	seen := map[ref]bool{}
	for i, g := range got {
		if g.at != want[i].at {
			t.Fatalf("reference %d is at %d, want %d", i, g.at, want[i].at)
		}
		seen[g] = true
	}
	for _, w := range want {
		if !seen[w] {
			t.Fatalf("reference %v is missing", w)
		}
	}
}

func TestWheelRecyclesChunks(t *testing.T) {
	pool := memory.NewPool(0)
	defer pool.Close()
	w := &wheel{}
	w.chunks.pool = pool
	out := make([]ref, 256)
	var peak int64
	for now := int64(0); now < 200_000; now++ {
		w.add(ref{at: now + 1 + now*7919%5000})
		w.take(now, out)
		if now == 20_000 {
			peak = pool.InUse()
		}
	}
	if got := pool.InUse(); got > peak {
		t.Fatalf("%d bytes after 200,000 steps, %d after 20,000", got, peak)
	}
	w.clear()
	if _, ok := w.earliest(); ok || w.size != 0 {
		t.Fatal("references left after clear")
	}
	w.close()
}
