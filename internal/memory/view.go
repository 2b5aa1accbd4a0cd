package memory

import (
	"slices"
	"unsafe"
)

// View reads the blocks of an arena as of a moment.
type View struct {
	chunks []unsafe.Pointer
	seq    uint32
}

// Freeze starts a snapshot: until Thaw the blocks that exist now can be read
// through the view from any one goroutine. It copies nothing. It panics if an
// allocation has failed, even if that panic was recovered from: what was being
// written then is incomplete.
func (a *Arena) Freeze() View {
	if a.failed != nil {
		panic(a.failed)
	}
	v := View{a.chunks, a.epoch}
	a.pending = append(a.pending, a.epoch)
	a.newest = a.epoch
	a.epoch++
	return v
}

// Thaw ends the snapshot v, on the owner's goroutine. Snapshots may end in any
// order.
func (a *Arena) Thaw(v View) {
	i := slices.Index(a.pending, v.seq)
	if i < 0 {
		panic("memory: Thaw of a view that is not frozen")
	}
	a.pending = slices.Delete(a.pending, i, i+1)
	a.newest = 0
	if n := len(a.pending); n > 0 {
		a.newest = a.pending[n-1]
	}
	a.scan = len(a.deferred)
}

// reclaim looks at a few deferred blocks and frees those that no pending
// snapshot reads.
func (a *Arena) reclaim() {
	const few = 8
	for range min(few, a.scan) {
		a.scan--
		d := a.deferred[a.scan]
		if a.read(d.from, d.to) {
			continue
		}
		a.push(d.h)
		last := len(a.deferred) - 1
		a.deferred[a.scan] = a.deferred[last]
		a.deferred = a.deferred[:last]
	}
}

// read reports whether one of the snapshots from..to is pending.
func (a *Arena) read(from, to uint32) bool {
	for _, s := range a.pending {
		if from <= s && s <= to {
			return true
		}
	}
	return false
}

// View returns a view of now. It does not protect what it shows: use it on the
// owner's goroutine, before the next change.
func (a *Arena) View() View { return View{chunks: a.chunks} }

// Bytes returns the first n bytes of the block, which must not be changed. n
// is at most what was in use when the view was taken.
func (v View) Bytes(h Handle, n int) []byte {
	p := unsafe.Add(v.chunks[h>>chunkShift], uintptr(h&(chunkUnits-1))*unit+headerBytes)
	return unsafe.Slice((*byte)(p), n)
}
