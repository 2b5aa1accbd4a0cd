package heap

import (
	"math/bits"
	"unsafe"
)

// A timer that is deleted leaves its reference in the wheel, which would keep
// one for each of many timeouts that never happen. So while references that
// count no more are the greater part, each batch looks at some of them, slot
// by slot, and drops those that no entry notes.

const (
	// siftPerRecord is how many references are looked at per record: enough to
	// keep up with those that records leave behind.
	siftPerRecord = 2
	// staleRefs is how many references may always be stale.
	staleRefs = 256
)

// sieve is where the wheel is being sifted: a slot, above the lowest level,
// of which kept has been looked at.
type sieve struct {
	level, digit int
	active       bool
	kept         slot
}

// sift looks at about n references of each domain that has too many.
func (c *core) sift(n int) {
	for i := range c.domains {
		d := &c.domains[i]
		for left := n; left > 0 && d.wheel.size > 2*d.live+staleRefs; {
			k := c.siftChunk(d)
			if k == 0 {
				break
			}
			left -= k
		}
	}
}

// siftChunk looks at some references and returns their number.
func (c *core) siftChunk(d *domain) int {
	var buf [chunkRefs]ref
	refs := d.wheel.siftNext(buf[:])
	if len(refs) == 0 {
		return 0
	}
	var sum uint64
	for _, r := range refs {
		p := c.at(&c.tables[r.where&^displacedRef], c.start(r))
		sum += *(*uint64)(p) + *(*uint64)(unsafe.Add(p, d.field.Off))
	}
	c.sink = sum
	for _, r := range refs {
		if c.lookup(d, r, c.start(r)) != nil || c.below.tier != nil && !c.isAbsent(d, r) {
			d.wheel.push(&d.wheel.sieve.kept, r)
		} else {
			d.wheel.size--
		}
	}
	d.wheel.siftDone()
	return len(refs)
}

// siftNext takes references out of the wheel to be looked at.
func (w *wheel) siftNext(buf []ref) []ref {
	v := &w.sieve
	if !v.active && !w.siftSlot() {
		return nil
	}
	s := &w.slots[v.level][v.digit]
	refs := buf[:s.n]
	for i := range refs {
		refs[i] = *w.chunks.ref(s.head, uint32(i))
	}
	s.head, s.n = w.chunks.give(s.head), chunkRefs
	return refs
}

// siftSlot goes on to the next slot that holds references, if there is any.
func (w *wheel) siftSlot() bool {
	v := &w.sieve
	v.level = max(v.level, 1)
	for range levels {
		if m := w.occupied[v.level] >> v.digit << v.digit; m != 0 {
			v.digit, v.active = bits.TrailingZeros64(m), true
			return true
		}
		v.level, v.digit = v.level%(levels-1)+1, 0
	}
	return false
}

// siftDone puts what was kept of a slot back once all of it was looked at.
func (w *wheel) siftDone() {
	v := &w.sieve
	if s := &w.slots[v.level][v.digit]; s.head == 0 {
		*s, v.kept = v.kept, slot{}
		if s.head == 0 {
			w.occupied[v.level] &^= 1 << v.digit
		}
		v.active = false
		v.digit++
	}
}

// isSifted tells whether a slot is being sifted.
func (w *wheel) isSifted(level int, digit uint) bool {
	return w.sieve.active && w.sieve.level == level && w.sieve.digit == int(digit)
}
