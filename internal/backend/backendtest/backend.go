package backendtest

import (
	"testing"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/memory"
)

// Backend makes stores of one kind.
type Backend struct {
	Name string
	// Prepare completes the options of a store; what it opens ends with the
	// store, or with the test.
	Prepare func(t testing.TB, o *heap.Options)
}

// Heap keeps everything in memory.
var Heap = Backend{"heap", func(testing.TB, *heap.Options) {}}

// pool returns a pool that must be empty in the end.
func pool(t testing.TB) *memory.Pool {
	p := memory.NewPool(0)
	t.Cleanup(func() {
		if n := p.InUse(); n != 0 {
			t.Errorf("%d bytes of state memory in use in the end", n)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}
