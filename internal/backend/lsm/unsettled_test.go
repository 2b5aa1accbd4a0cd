package lsm

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

// bad is a state that cannot be encoded while fail is set: it panics, or
// returns an error.
type bad struct {
	*entry.Field
	fail, panics bool
}

var errBad = errors.New("no encoding")

func newBad() *bad {
	b := &bad{Field: &entry.Field{Name: "bad", Kind: entry.Value, Format: codec.Format{ID: "bad", Version: 1}, Size: 8}}
	b.Append = func(dst []byte, _ unsafe.Pointer, _ memory.View) ([]byte, error) {
		switch {
		case b.fail && b.panics:
			panic(errBad)
		case b.fail:
			return nil, errBad
		}
		return append(dst, 1), nil
	}
	b.Load = func(_ []byte, _ bool, p unsafe.Pointer, _ *memory.Arena, _ int64) error {
		*entry.Bits(p) |= b.Bit
		return nil
	}
	b.Clear = func(p unsafe.Pointer, _ *memory.Arena) { *entry.Bits(p) &^= b.Bit }
	return b
}

// A snapshot that fails while it settles holds nobody up: the stage may evict
// again, and the next snapshot has everything.
func TestFailedSettlingHoldsNobodyUp(t *testing.T) {
	for _, panics := range []bool{false, true} {
		pool, cur, state := memory.NewPool(0), &entry.Cursor{}, newBad()
		o := heap.Options{Operator: "op", Fields: []*entry.Field{state.Field}, Cursor: cur, MaxParallelism: 1,
			Range: keygroup.Range{}, Pool: pool}
		backend("tiny", 1000).Prepare(t, &o)
		s, err := heap.New[int64](o)
		if err != nil {
			t.Fatal(err)
		}
		write := func(from, n int64) {
			eachKey(s, from, n, func(int64) { *entry.Bits(cur.P) |= state.Bit })
		}
		write(0, 1000)
		f := s.Freeze()
		state.fail, state.panics = true, panics
		func() {
			defer func() {
				if p := recover(); p != nil && !panics {
					panic(p)
				}
			}()
			if err := f.Settle(false); !errors.Is(err, errBad) || errors.Is(err, heap.ErrTier) {
				t.Errorf("error %v", err)
			}
		}()
		state.fail = false
		f.Release()
		write(1000, 1000) // evicts: it would wait for ever
		f = s.Freeze()
		count := &counter{}
		if err := errors.Join(f.Settle(false), f.EncodeGroup(0, count)); err != nil {
			t.Fatal(err)
		}
		if count.n != 2000 {
			t.Errorf("the next snapshot has %d keys, want 2000", count.n)
		}
		f.Release()
		s.Close()
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}
}

// counter counts the entries of sections.
type counter struct{ n int }

func (c *counter) Section(_ snapshot.State, count int, _ []byte) error {
	c.n += count
	return nil
}
