package heap

import (
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
)

// Frozen is the state of a store as of a barrier. One goroutine at a time
// uses it, any goroutine; the store goes on meanwhile.
type Frozen struct {
	core *core
	seq  uint32
	// now is the TTL clock at the barrier: what has expired is not encoded.
	now  int64
	view memory.View
	// captures are the tables by group from the range's first; array is nil
	// where there is no key.
	captures []capture
	scratch  *scratch
	// floor is the oldest snapshot to which the changes are known, removed what
	// has been removed since; see increment.
	floor   uint32
	removed []*removals
	// touched is the number of snapshots taken before state was last in use.
	touched uint32
	bytes   int64
	// settling is nil if the tables hold all there is.
	settling *settling
	// released is set last by Release; ended guards against a second call.
	released, ended atomic.Bool
}

// capture is a table as part of a snapshot.
type capture struct {
	array *array
	// used and displaced count the entries.
	used, displaced uint32
	shift           uint8
	// read is the number of pages the encoder is done with.
	read atomic.Uint32
	// saved holds the copies of pages that the stage has changed before the
	// encoder came to them. The stage makes it with the first one; the encoder
	// looks only once a page's word says so.
	saved []unsafe.Pointer
}

// locked is the bit of a page's word that guards the page's contents.
const locked = 1

// snapshots is the stage's side of what is pending.
type snapshots struct {
	// seq numbers the snapshots; newest is the newest pending one, 0 if none.
	seq, newest uint32
	pending     []*Frozen
	copies      copies
	// perPage turns the distance of an entry from the begin of its table into
	// its page: the upper half of their product.
	perPage uint64

	// lives counts the store and the unreleased snapshots: the last one out gives the
	// memory back.
	lives atomic.Int32
	mu    sync.Mutex
	spare []*scratch
}

func (s *snapshots) init(size uintptr) {
	s.lives.Store(1)
	s.copies.bytes = int(size) * pagePositions
	s.perPage = reciprocal(uint64(s.copies.bytes))
}

// reciprocal returns the m for which the upper half of n*m is n/d, for all n
// below 2^64/d (Granlund, Montgomery: Division by Invariant Integers using
// Multiplication, 1994).
func reciprocal(d uint64) uint64 { return math.MaxUint64/d + 1 }

// Freeze captures the state as of now for a snapshot. Its cost depends on the
// number of key groups only. It ends the current batch. Every Frozen must be
// released.
func (c *core) Freeze() *Frozen {
	c.Release()
	c.readTime()
	c.seq++
	c.newest = c.seq
	c.lives.Add(1)
	f := &Frozen{core: c, seq: c.seq, now: c.cur.Now, view: c.arena.Freeze(), captures: make([]capture, len(c.tables))}
	if c.increment.on {
		f.removed, f.floor = c.endInterval()
		f.touched = c.increment.touched
		f.bytes = int64(c.Len())*int64(c.size) + int64(c.arena.Live())
	}
	for i := range c.tables {
		if t := &c.tables[i]; t.array != nil {
			t.array.refs++
			p := &f.captures[i]
			p.array, p.used, p.displaced, p.shift = t.array, t.used, t.displaced, t.shift
		}
	}
	if c.below.tier != nil {
		f.settling = c.startSettling()
	}
	c.pending = append(c.pending, f)
	return f
}

// Operator is the id of the operator.
func (f *Frozen) Operator() string { return f.core.operator }

// Groups returns the key groups of the snapshot.
func (f *Frozen) Groups() keygroup.Range { return f.core.groups }

// Release says that the snapshot is not needed any more, encoded or not. It
// may be called from any goroutine, but not while EncodeGroup runs; the store
// takes the memory back at its next Bind, Release or Freeze. Further calls do
// nothing.
func (f *Frozen) Release() {
	if !f.ended.CompareAndSwap(false, true) {
		return
	}
	c := f.core
	if s := f.settling; s != nil {
		if !s.begun {
			s.skip()
		}
		if s.snap != nil {
			s.snap.Close()
		}
		if s.files != nil {
			s.files.Close()
		}
	}
	if f.scratch != nil {
		c.mu.Lock()
		c.spare = append(c.spare, f.scratch)
		c.mu.Unlock()
		f.scratch = nil
	}
	f.released.Store(true)
	c.unref()
}

// unref ends the store's or a snapshot's hold on the memory.
func (c *core) unref() {
	if c.lives.Add(-1) > 0 {
		return
	}
	for _, f := range c.pending {
		c.thaw(f)
	}
	for i := range c.tables {
		if a := c.tables[i].array; a != nil {
			c.drop(a)
		}
	}
	for d := range c.domains {
		c.domains[d].wheel.close()
	}
	if c.below.tier != nil {
		c.below.tier.Close()
	}
	c.copies.close(c.pool)
	c.arena.Close()
}

// reclaim takes back what released snapshots held.
func (c *core) reclaim() {
	c.pending = slices.DeleteFunc(c.pending, func(f *Frozen) bool {
		settled := f.hasSettled()
		if !settled && !f.released.Load() {
			return false
		}
		if settled {
			c.noteSettled(f)
		}
		c.thaw(f)
		return true
	})
	c.findNewest()
}

func (c *core) findNewest() {
	c.newest = 0
	if n := len(c.pending); n > 0 {
		c.newest = c.pending[n-1].seq
	}
	if c.increment.on {
		c.newest = c.seq // pages tell when they were last written
	}
}

func (c *core) thaw(f *Frozen) {
	c.arena.Thaw(f.view)
	for i := range f.captures {
		p := &f.captures[i]
		if p.array == nil {
			continue
		}
		for _, b := range p.saved {
			if b != nil {
				c.copies.drop(b)
			}
		}
		c.drop(p.array)
	}
	f.captures = nil
}

// preserveBatch preserves the pages of all entries of the batch, whose groups
// are known. Most pages have been seen to: that is told without a division.
func (c *core) preserveBatch() {
	first, batch := c.groups.First, c.batch[:len(c.ptrs)]
	for i, p := range c.ptrs {
		g := int(batch[i]) - first
		t := &c.tables[g]
		page, _ := bits.Mul64(uint64(uintptr(p)-uintptr(t.base)), c.perPage)
		if t.array.pages[page].Load()>>1 < c.newest {
			c.preserve(g, t.array, uint32(page))
		}
	}
}

// preserveEntry preserves the page of an entry.
func (c *core) preserveEntry(p unsafe.Pointer) {
	e := c.placeOf(p)
	c.preserve(e.group, c.tables[e.group].array, e.pos>>pageShift)
}

// preserve must come before a write to a page while a snapshot is pending: it
// puts a copy aside for every snapshot that has yet to read the page.
func (c *core) preserve(group int, a *array, page uint32) {
	w := &a.pages[page]
	v := w.Load()
	for ; ; v = w.Load() {
		if v>>1 >= c.newest {
			return
		}
		c.copies.ready(c.pool)
		if v&locked == 0 && w.CompareAndSwap(v, v|locked) {
			break
		}
		runtime.Gosched() // an encoder is copying the page
	}
	var b unsafe.Pointer
	for _, f := range c.pending {
		p := &f.captures[group]
		if f.seq <= v>>1 || p.array != a || page < p.read.Load() {
			continue
		}
		if p.saved == nil {
			p.saved = make([]unsafe.Pointer, len(a.pages))
		}
		if b == nil {
			b = c.copies.take()
			from := unsafe.Add(a.base, uintptr(page)*pagePositions*c.size)
			copyEntry(b, from, uintptr(min(pagePositions, a.mask+1))*c.size)
		}
		c.copies.share(b)
		p.saved[page] = b
	}
	w.Store(c.newest << 1)
}

// copies recycles the buffers of preserved pages. A buffer is the page and,
// behind it, the number of snapshots that share it. It belongs to the stage.
type copies struct {
	// bytes is the size of a page.
	bytes int
	slabs [][]byte
	free  []unsafe.Pointer
}

// slabPages is the number of buffers that are allocated together, at first.
const slabPages = 8

// ready makes sure that take has a buffer. It may panic, for want of memory;
// so it comes before a page is locked, which an encoder would wait for.
func (s *copies) ready(pool *memory.Pool) {
	if len(s.free) == 0 {
		s.extend(pool)
	}
}

func (s *copies) take() unsafe.Pointer {
	last := len(s.free) - 1
	b := s.free[last]
	s.free = s.free[:last]
	*s.shares(b) = 0
	return b
}

// extend allocates as many buffers as there are.
func (s *copies) extend(pool *memory.Pool) {
	n := slabPages << min(len(s.slabs), 8)
	each := s.bytes + 8
	slab, err := pool.Alloc(n * each)
	if err != nil {
		panic(err)
	}
	s.slabs = append(s.slabs, slab)
	base := unsafe.Pointer(unsafe.SliceData(slab))
	for i := range n {
		s.free = append(s.free, unsafe.Add(base, i*each))
	}
}

func (s *copies) shares(b unsafe.Pointer) *uint64 { return (*uint64)(unsafe.Add(b, s.bytes)) }

func (s *copies) share(b unsafe.Pointer) { *s.shares(b)++ }

func (s *copies) drop(b unsafe.Pointer) {
	if *s.shares(b)--; *s.shares(b) == 0 {
		s.free = append(s.free, b)
	}
}

func (s *copies) close(pool *memory.Pool) {
	for _, slab := range s.slabs {
		pool.Free(slab)
	}
	s.slabs, s.free = nil, nil
}
