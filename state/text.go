package state

import (
	"encoding/binary"
	"unsafe"

	"github.com/weirstream/weir/internal/memory"
)

// text is a string of bytes in state memory. Up to maxShort of them lie in
// the text itself, more in a block of the arena. The zero text is empty and
// owns nothing.
//
//	byte 0       the length, or isLong
//	bytes 1-23   the bytes, if short
//	bytes 4-7    the handle, if long
//	bytes 8-15   the length, if long
type text [textSize]byte

const (
	textSize = 24
	maxShort = textSize - 1
	isLong   = 0xFF
)

func textAt(p unsafe.Pointer) *text { return (*text)(p) }

func (t *text) long() bool            { return t[0] == isLong }
func (t *text) handle() memory.Handle { return memory.Handle(binary.NativeEndian.Uint32(t[4:])) }
func (t *text) len() int              { return int(binary.NativeEndian.Uint64(t[8:])) }

func (t *text) setLong(h memory.Handle, n int) {
	t[0] = isLong
	binary.NativeEndian.PutUint32(t[4:], uint32(h))
	binary.NativeEndian.PutUint64(t[8:], uint64(n))
}

// bytes returns a view of the bytes, good until the next change.
func (t *text) bytes(a *memory.Arena) []byte {
	if t.long() {
		return a.Bytes(t.handle(), t.len())
	}
	return t[1 : 1+t[0]]
}

// frozen is bytes for a snapshot.
func (t *text) frozen(v memory.View) []byte {
	if t.long() {
		return v.Bytes(t.handle(), t.len())
	}
	return t[1 : 1+t[0]]
}

// set replaces the bytes by a copy of b, which is no view of t.
func (t *text) set(a *memory.Arena, b []byte) {
	if t.long() {
		h := t.handle()
		if len(b) > maxShort && fits(len(b), a.Cap(h)) && a.Writable(h) {
			copy(a.Bytes(h, len(b)), b)
			t.setLong(h, len(b))
			return
		}
		a.Free(h)
	}
	t.init(a, b, len(b))
}

// fits tells whether n bytes go into a block and do not waste most of it.
func fits(n, block int) bool { return n <= block && block <= 4*n+64 }

// init stores a copy of b in a text that owns nothing, with room to grow to
// room bytes.
func (t *text) init(a *memory.Arena, b []byte, room int) {
	if len(b) <= maxShort {
		t[0] = byte(len(b))
		copy(t[1:], b)
		return
	}
	h := a.Alloc(max(room, len(b)))
	copy(a.Bytes(h, len(b)), b)
	t.setLong(h, len(b))
}

// open returns the bytes as a slice that may be changed, and appended to
// within its capacity; close must follow.
func (t *text) open(a *memory.Arena) []byte {
	if !t.long() {
		return t[1 : 1+t[0] : textSize]
	}
	h, n := t.handle(), t.len()
	if !a.Writable(h) {
		own := a.Alloc(a.Cap(h))
		copy(a.Bytes(own, n), a.Bytes(h, n))
		a.Free(h)
		t.setLong(own, n)
		h = own
	}
	return a.Bytes(h, n)
}

// close stores b, which has become of what open returned.
func (t *text) close(a *memory.Arena, b []byte) {
	switch {
	case !t.long() && sameStart(b, t[1:]):
		t[0] = byte(len(b))
	case t.long() && sameStart(b, a.Bytes(t.handle(), t.len())):
		t.setLong(t.handle(), len(b))
	default:
		// b may lie anywhere, in the old block too: copy before that goes.
		old, had := t.handle(), t.long()
		if len(b) <= maxShort {
			var short [maxShort]byte
			t[0] = byte(copy(short[:], b))
			copy(t[1:], short[:])
		} else {
			t.init(a, b, len(b)+len(b)/2)
		}
		if had {
			a.Free(old)
		}
	}
}

func sameStart(a, b []byte) bool {
	return cap(a) > 0 && unsafe.SliceData(a) == unsafe.SliceData(b)
}

// drop gives back what the text owns.
func (t *text) drop(a *memory.Arena) {
	if t.long() {
		a.Free(t.handle())
	}
}

// touch loads a word of the block, if there is one.
func (t *text) touch(v memory.View) byte {
	if t.long() {
		return v.Bytes(t.handle(), 1)[0]
	}
	return t[0]
}
