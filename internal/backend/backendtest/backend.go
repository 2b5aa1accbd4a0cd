package backendtest

import (
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
)

// Backend makes stores of one kind.
type Backend struct {
	Name string
	// Prepare completes the options of a store; what it opens ends with the
	// store, or with the test.
	Prepare func(t testing.TB, o *heap.Options)
	// Reopen is Prepare for a store that takes over what others have stored as
	// files, and Read reads that in the canonical form; nil if there is no such
	// form. If there is, Prepare and Reopen make every snapshot settle.
	Reopen func(t testing.TB, o *heap.Options, stored []*Stored)
	Read   func(t testing.TB, s *Stored, key codec.Format, fn func(group int, st snapshot.State, count int, data []byte) error)
}

// Stored is a snapshot in the form of its backend.
type Stored struct {
	Blobs  storage.Blobs
	Dir    string
	Native *snapshot.Native
	Files  map[string]snapshot.File
	Groups keygroup.Range
}

// Heap keeps everything in memory.
var Heap = Backend{Name: "heap", Prepare: func(testing.TB, *heap.Options) {}}

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
