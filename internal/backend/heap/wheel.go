package heap

import (
	"math/bits"
	"unsafe"

	"github.com/weirstream/weir/internal/memory"
)

// ref says that the entry with a hash may have a timer due at a time. It does
// not name the key: the entry is found by hash and its own note of the time
// (see timers).
type ref struct {
	at int64
	// hash is the entry's, or the secondary one if it is displaced.
	hash uint32
	// where is the group, from the range's first, and displacedRef.
	where uint32
}

const displacedRef = 1 << 31

// wheel orders references by time: a hierarchical timing wheel over all of
// int64. A level looks at one digit of digitBits bits; a reference lies at the level of
// the highest digit in which it differs from last, in the slot of that digit.
// So lower levels are earlier, and at the lowest level all references of a
// slot have the same time. A reference moves down at most once per level.
type wheel struct {
	// last is the time up to which all has been taken, biased to unsigned.
	last     uint64
	occupied [levels]uint64
	slots    [levels][slotsPerLevel]slot
	// overdue holds references at or before last, a binary heap by time.
	overdue []ref
	chunks  chunks
	size    int
	sieve   sieve
}

const (
	digitBits     = 6
	slotsPerLevel = 1 << digitBits
	levels        = (64 + digitBits - 1) / digitBits
)

// slot is a list of chunks: the first holds n references, the others are full.
type slot struct {
	head uint32
	n    uint32
}

// bias maps int64 to uint64 in order.
func bias(at int64) uint64 { return uint64(at) ^ 1<<63 }

func unbias(b uint64) int64 { return int64(b ^ 1<<63) }

func (w *wheel) add(r ref) {
	w.size++
	b := bias(r.at)
	if b <= w.last {
		w.pushOverdue(r)
		return
	}
	w.place(r, b)
}

func (w *wheel) place(r ref, b uint64) {
	level := 0
	if x := b ^ w.last; x != 0 {
		level = (bits.Len64(x) - 1) / digitBits
	}
	digit := b >> (level * digitBits) & (slotsPerLevel - 1)
	w.occupied[level] |= 1 << digit
	w.push(&w.slots[level][digit], r)
}

func (w *wheel) push(s *slot, r ref) {
	if s.head == 0 || s.n == chunkRefs {
		s.head = w.chunks.take(s.head)
		s.n = 0
	}
	*w.chunks.ref(s.head, s.n) = r
	s.n++
}

// take moves references due at or before to into out, in order of time, until
// it is full, and returns how many. overdue ones are not among them.
func (w *wheel) take(to int64, out []ref) (n int) {
	stop := bias(to)
	for n < len(out) {
		level, digit, start, ok := w.first()
		if !ok || start > stop {
			w.last = max(w.last, stop)
			break
		}
		w.last = start
		s := &w.slots[level][digit]
		if level == 0 {
			n += w.drain(s, out[n:])
			if s.head == 0 {
				w.occupied[0] &^= 1 << digit
			}
			continue
		}
		w.occupied[level] &^= 1 << digit
		w.spread(s)
		if w.isSifted(level, digit) {
			w.spread(&w.sieve.kept)
			w.sieve.active = false
		}
	}
	w.size -= n
	return n
}

// first returns the earliest slot and the first time it stands for.
func (w *wheel) first() (level int, digit uint, start uint64, ok bool) {
	for level := range w.occupied {
		if m := w.occupied[level]; m != 0 {
			digit := uint(bits.TrailingZeros64(m))
			shift := level * digitBits
			start := w.last>>shift&^(slotsPerLevel-1) | uint64(digit)
			return level, digit, start << shift, true
		}
	}
	return 0, 0, 0, false
}

// drain moves references from the slot to out.
func (w *wheel) drain(s *slot, out []ref) (n int) {
	for n < len(out) && s.head != 0 {
		s.n--
		out[n] = *w.chunks.ref(s.head, s.n)
		n++
		if s.n == 0 {
			if s.head = w.chunks.give(s.head); s.head != 0 {
				s.n = chunkRefs
			}
		}
	}
	return n
}

// spread moves the references of a slot that last has reached to lower levels.
func (w *wheel) spread(s *slot) {
	all := *s
	*s = slot{}
	for all.head != 0 {
		for i := range all.n {
			r := *w.chunks.ref(all.head, i)
			w.place(r, bias(r.at))
		}
		all.head, all.n = w.chunks.give(all.head), chunkRefs
	}
}

// earliest returns a time at or before that of the earliest reference.
func (w *wheel) earliest() (int64, bool) {
	if len(w.overdue) > 0 {
		return w.overdue[0].at, true
	}
	_, _, start, ok := w.first()
	return unbias(start), ok
}

func (w *wheel) pushOverdue(r ref) {
	h := append(w.overdue, r)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up].at <= h[i].at {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	w.overdue = h
}

func (w *wheel) popOverdue() ref {
	h := w.overdue
	r, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && h[down+1].at < h[down].at {
			down++
		}
		if h[i].at <= h[down].at {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	w.overdue = h
	w.size--
	return r
}

// clear forgets all references.
func (w *wheel) clear() {
	for level := range w.occupied {
		for digit := range w.slots[level] {
			w.empty(&w.slots[level][digit])
		}
		w.occupied[level] = 0
	}
	w.empty(&w.sieve.kept)
	w.sieve.active = false
	w.overdue, w.size = w.overdue[:0], 0
}

func (w *wheel) empty(s *slot) {
	for s.head != 0 {
		s.head = w.chunks.give(s.head)
	}
	*s = slot{}
}

// chunks recycles the pieces that slots are made of. A chunk is chunkRefs
// references; links says which chunk follows. Chunk 0 is none.
type chunks struct {
	pool  *memory.Pool
	bases []unsafe.Pointer
	links []uint32
	free  uint32
	slabs [][]byte
}

const (
	chunkRefs  = 64
	refBytes   = int(unsafe.Sizeof(ref{}))
	chunkBytes = chunkRefs * refBytes
	// slabChunks is the number of chunks allocated together, at first.
	slabChunks = 4
)

// take returns an empty chunk that links to next.
func (c *chunks) take(next uint32) uint32 {
	if c.free == 0 {
		c.extend()
	}
	k := c.free
	c.free, c.links[k] = c.links[k], next
	return k
}

// give takes a chunk back and returns the one it linked to.
func (c *chunks) give(k uint32) uint32 {
	next := c.links[k]
	c.links[k], c.free = c.free, k
	return next
}

func (c *chunks) ref(k, i uint32) *ref {
	return (*ref)(unsafe.Add(c.bases[k], int(i)*refBytes))
}

func (c *chunks) extend() {
	if len(c.bases) == 0 {
		c.bases, c.links = append(c.bases, nil), append(c.links, 0)
	}
	n := slabChunks << min(len(c.slabs), 8)
	slab, err := c.pool.Alloc(n * chunkBytes)
	if err != nil {
		panic(err)
	}
	c.slabs = append(c.slabs, slab)
	base := unsafe.Pointer(unsafe.SliceData(slab))
	for i := range n {
		c.bases = append(c.bases, unsafe.Add(base, i*chunkBytes))
		c.links = append(c.links, c.free)
		c.free = uint32(len(c.links) - 1)
	}
}

func (w *wheel) close() {
	for _, slab := range w.chunks.slabs {
		w.chunks.pool.Free(slab)
	}
	*w = wheel{}
}
