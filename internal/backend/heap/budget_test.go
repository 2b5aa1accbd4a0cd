package heap

import (
	"errors"
	"testing"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
)

// When memory runs out at the first write to a page that a pending snapshot
// reads, the snapshot can still be encoded: nobody waits for a page for ever.
func TestBudgetWhilePreserving(t *testing.T) {
	h, _ := keygroup.NewHasher[int64]()
	run := func(budget int64) (pool *memory.Pool, err error) {
		pool = memory.NewPool(budget)
		cur, n := &entry.Cursor{}, newNumber("n")
		s, err := New[int64](Options{Operator: "op", Fields: []*entry.Field{n.Field}, Cursor: cur,
			MaxParallelism: 1, Range: whole(1), Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		add := func() {
			for k := range int64(1000) {
				s.Bind([]int64{k}, []uint32{h.Hash(k)})
				s.Seek(0)
				n.set(cur, k)
			}
			s.Release()
		}
		add()
		f := s.Freeze()
		defer f.Release()
		func() {
			defer func() { err, _ = recover().(error) }()
			add()
		}()
		sections, encodeErr := encodeAll(f)
		if encodeErr != nil || len(sections) != 1 || sections[0].count != 1000 {
			t.Fatalf("snapshot: %v, error %v", sections, encodeErr)
		}
		return pool, err
	}
	pool, err := run(0)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	tight, err := run(pool.Reserved() - 64) // a pool in any case
	defer tight.Close()                     //nolint:staticcheck // the error is what is tested
	if !errors.Is(err, memory.ErrBudget) {
		t.Fatalf("error %v, want ErrBudget", err)
	}
}
