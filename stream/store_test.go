package stream

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/state"
)

// closingTier counts how often it is closed. It has one row, and fails behind it.
type closingTier struct {
	heap.Tier
	fail   func() error
	closed int
}

func (c *closingTier) Size([]byte) (int64, error)                         { return 0, nil }
func (c *closingTier) Walk([]byte, func(_, _ []byte) (bool, error)) error { return nil }
func (c *closingTier) Close()                                             { c.closed++ }

func (c *closingTier) Scan(group []byte, found func(key, row []byte) error) error {
	key := append(bytes.Clone(group), make([]byte, 4+8)...) // hash and key are 0
	if err := found(key, []byte{1, 1, 0, 0, 0, 'v'}); err != nil {
		return err
	}
	return c.fail()
}

// A restore that fails, or panics, as a codec may, leaves neither state memory
// nor a tier behind: the end of the attempt waits for the tier.
func TestStoreThatCannotBeRestoredIsClosed(t *testing.T) {
	broken := errors.New("broken")
	fails := map[string]func() error{
		"error": func() error { return broken },
		"panic": func() error { panic(broken) },
	}
	for name, fail := range fails {
		for _, filled := range []bool{false, true} {
			pool, cur, tier := memory.NewPool(0), &entry.Cursor{}, &closingTier{fail: fail}
			reg := state.NewRegistry("op").Bind(cur)
			state.ValueIn[string](reg, "text")
			key, err := heap.KeyFormat[int64]()
			if err != nil {
				t.Fatal(err)
			}
			c := &stage.Context{Operator: "op", Parallelism: 1, MaxParallelism: 4, Pool: pool, Restore: &stage.Restore{
				KeyFormat: key, States: heap.Layout(reg.Fields()),
				Keyed: func(_ keygroup.Range, _ func(int, snapshot.State, int, []byte) error) error { return fail() },
			}}
			c.Tier = func(o *heap.Options) error {
				o.Tier, o.Share, o.Filled = tier, memory.NewBudget(1<<20, 1).Share(), filled
				return nil
			}
			func() {
				defer func() { _ = recover() }()
				s, err := openStore[int64](c, cur, reg.Fields(), func([]snapshot.State) error { return nil }, nil)
				if !errors.Is(err, broken) {
					t.Errorf("%s, filled %v: error %v", name, filled, err)
				}
				if s != nil {
					s.Close() // as the operator does
				}
			}()
			if n := pool.InUse(); n != 0 || tier.closed != 1 {
				t.Errorf("%s, filled %v: %d bytes in use, closed %d times", name, filled, n, tier.closed)
			}
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
