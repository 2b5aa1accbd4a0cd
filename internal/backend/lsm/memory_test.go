package lsm

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/state"
)

// Tables and arena together stay within the memory given, but for what a
// table needs while it grows, whatever there is in state and however long a
// snapshot is written. All of it can be read back.
func TestMemoryIsKept(t *testing.T) {
	const given, keys = 8 << 20, 100_000
	pool := memory.NewPool(0)
	defer pool.Close()
	cur := &entry.Cursor{}
	reg := state.NewRegistry("op").Bind(cur)
	text := state.ValueIn[string](reg, "text")
	o := heap.Options{Operator: "op", Fields: reg.Fields(), Cursor: cur, MaxParallelism: 16,
		Range: keygroup.Range{First: 0, Last: 15}, Pool: pool}
	backend("some", given*4/3).Prepare(t, &o)
	s, err := heap.New[int64](o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, _ := keygroup.NewHasher[int64]()
	value := func(k, round int64) string { return strings.Repeat(string(rune('a'+(k+round)%26)), 100+int(k%50)) }
	batch, hashes := make([]int64, 1000), make([]uint32, 1000)
	each := func(fn func(k int64)) {
		for from := int64(0); from < keys; from += 1000 {
			for i := range batch {
				batch[i] = (from + int64(i)) * 7919 % keys
			}
			h.HashAll(batch, hashes)
			s.Bind(batch, hashes)
			for i, k := range batch {
				s.Seek(i)
				fn(k)
			}
			s.Release()
		}
	}
	most := int64(0)
	var last *heap.Frozen
	for round := range int64(3) {
		each(func(k int64) {
			if round > 0 {
				if got, err := text.Get(); got != value(k, round-1) || err != nil {
					t.Fatalf("round %d: key %d holds %.10q, want %.10q; error %v", round, k, got, value(k, round-1), err)
				}
			}
			if err := text.Set(value(k, round)); err != nil {
				t.Fatal(err)
			}
			most = max(most, pool.InUse())
		})
		if last != nil {
			last.Release()
		}
		last = s.Freeze()
		if err := last.Settle(false); err != nil {
			t.Fatal(err)
		}
	}
	last.Release()
	if most > given*3/2 {
		t.Errorf("%d bytes in use at most, %d given", most, given)
	}
	if most < given*3/4 {
		t.Errorf("only %d bytes in use of %d given", most, given)
	}
}
