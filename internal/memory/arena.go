package memory

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"
)

// Handle names a block of an arena; 0 is no block.
type Handle uint32

const (
	// unit is what a handle counts in.
	unit = 16
	// chunkUnits is the number of units of a chunk, 64 KiB.
	chunkUnits = 1 << chunkShift
	chunkShift = 12
	chunkBytes = chunkUnits * unit
	// maxChunks is as many as a handle can tell apart.
	maxChunks = 1 << (32 - chunkShift)
	// maxSmall is the largest block, in units, that shares a chunk.
	maxSmall = chunkUnits / 2
	// headerBytes is the size of the header before the bytes of a block.
	headerBytes = 8
	// classes is enough for blocks of 2^32 units.
	classes = 4 * 32
)

// header of a block. Only the arena's owner reads or writes it.
type header struct {
	// epoch is the arena's when the block was allocated.
	epoch uint32
	// units is the size of the block, header included.
	units uint32
}

// Arena cuts pool memory into blocks behind handles. One goroutine owns it;
// a View may be read from others.
//
// Snapshots: Freeze starts one, Thaw ends it; any number may be pending. What
// a pending snapshot may read is never changed or reused by the arena, and
// must not be changed by its user: see Writable.
type Arena struct {
	pool *Pool
	// chunks maps the upper bits of a handle to memory. It only grows, so that a
	// View keeps a copy of the slice.
	chunks []unsafe.Pointer
	runs   [][]byte

	// free holds the freed blocks of each size class, linked through their
	// first bytes.
	free [classes]Handle
	// next and left are the unused rest of the chunk being cut up.
	next, left uint32

	// epoch counts the barriers; a block is part of the snapshots taken
	// since its own epoch.
	epoch uint32
	// newest is the newest pending snapshot, 0 if none.
	newest  uint32
	pending []uint32
	// deferred are freed blocks that a pending snapshot may still read. Those
	// below scan have to be looked at since a snapshot has ended; that is done a
	// few at a time, for there may be millions.
	deferred []deferral
	scan     int

	// failed is the error of an allocation, after which the contents may be
	// incomplete.
	failed error
	// live is the number of units in blocks that are not freed.
	live uint64
	// exhausted is called before the pool is asked for the last time.
	exhausted func()
}

// deferral is a freed block that the snapshots from..to contain.
type deferral struct {
	h        Handle
	from, to uint32
}

// NewArena returns an empty arena that takes its memory from p.
func NewArena(p *Pool) *Arena { return &Arena{pool: p, epoch: 1} }

// OnExhausted has f called when the pool has nothing more to give. It must not
// use the arena's blocks: one may be half written.
func (a *Arena) OnExhausted(f func()) { a.exhausted = f }

// Alloc returns a block of at least n bytes, whose content is undefined and
// whose first byte is aligned to 8. It panics with an error that wraps
// ErrBudget when the pool's budget is used up: the stage turns that into the
// task's failure.
func (a *Arena) Alloc(n int) Handle {
	if a.scan > 0 {
		a.reclaim()
	}
	want := uint64(max(n, 1)+headerBytes+unit-1) / unit
	if want > maxSmall {
		return a.allocLarge(want)
	}
	class, units := sizeClass(uint32(want))
	if h := a.pop(class); h != 0 {
		return h
	}
	if a.left < units {
		a.refill(units)
	}
	h := Handle(a.next)
	a.next, a.left = a.next+units, a.left-units
	*a.header(h) = header{a.epoch, units}
	a.live += uint64(units)
	return h
}

// pop takes a freed block of the class.
func (a *Arena) pop(class int) Handle {
	h := a.free[class]
	if h == 0 {
		return 0
	}
	a.free[class] = *(*Handle)(a.data(h))
	p := a.header(h)
	p.epoch = a.epoch
	a.live += uint64(p.units)
	return h
}

// allocLarge allocates a block of whole chunks.
func (a *Arena) allocLarge(want uint64) Handle {
	chunks := (want + chunkUnits - 1) / chunkUnits
	if chunks > maxChunks/2 {
		panic(fmt.Errorf("memory: a block of %d bytes is larger than the 32 GiB an arena can hold in one", want*unit))
	}
	class, units := sizeClass(uint32(chunks * chunkUnits))
	if h := a.pop(class); h != 0 {
		return h
	}
	if len(a.chunks) == 0 {
		a.refill(1) // so that the block does not start at unit 0
	}
	h := a.extend(int(units) >> chunkShift)
	*a.header(h) = header{a.epoch, units}
	a.live += uint64(units)
	return h
}

// refill makes room for a small block: the rest of the current chunk goes to
// the free lists, and a freed large block or a new chunk takes its place.
func (a *Arena) refill(units uint32) {
	for a.left > 0 {
		h, piece := Handle(a.next), classBelow(a.left)
		a.header(h).units = piece
		a.next, a.left = a.next+piece, a.left-piece
		a.push(h)
	}
	first, _ := sizeClass(chunkUnits)
	for class := first; class < classes; class++ {
		if h := a.pop(class); h != 0 {
			a.next, a.left = uint32(h), a.header(h).units
			a.live -= uint64(a.left)
			return
		}
	}
	h := a.extend(1)
	a.next, a.left = uint32(h), chunkUnits
	if h == 0 {
		a.next, a.left = 1, chunkUnits-1
	}
}

// extend appends n adjacent chunks and returns the handle of their first unit.
func (a *Arena) extend(n int) Handle {
	if len(a.chunks)+n > maxChunks {
		panic(errors.New("memory: an arena is full at 64 GiB; raise the parallelism"))
	}
	b, _, err := a.pool.alloc(n * chunkBytes)
	if err != nil && a.exhausted != nil {
		a.exhausted()
		b, _, err = a.pool.alloc(n * chunkBytes)
	}
	if err != nil {
		a.failed = err
		panic(err)
	}
	h := Handle(len(a.chunks) << chunkShift)
	base := unsafe.Pointer(unsafe.SliceData(b))
	for i := range n {
		a.chunks = append(a.chunks, unsafe.Add(base, i*chunkBytes))
	}
	a.runs = append(a.runs, b)
	return h
}

// Bytes returns the first n bytes of the block; the capacity of the slice is
// Cap(h). It is valid until the block is freed.
func (a *Arena) Bytes(h Handle, n int) []byte {
	p := a.header(h)
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(p), headerBytes)), int(p.units)*unit-headerBytes)[:n]
}

// At returns the first byte of the block, as Bytes does, without a look at its
// header.
func (a *Arena) At(h Handle) unsafe.Pointer { return a.data(h) }

// Cap returns the usable bytes of the block.
func (a *Arena) Cap(h Handle) int { return int(a.header(h).units)*unit - headerBytes }

// Free gives the block back. It is reused at once unless a pending snapshot
// may still read it. Freeing 0 does nothing.
func (a *Arena) Free(h Handle) {
	if h == 0 {
		return
	}
	if a.scan > 0 {
		a.reclaim()
	}
	p := a.header(h)
	a.live -= uint64(p.units)
	if e := p.epoch; e <= a.newest {
		a.deferred = append(a.deferred, deferral{h, e, a.newest})
		return
	}
	a.push(h)
}

func (a *Arena) push(h Handle) {
	class, _ := sizeClass(a.header(h).units)
	*(*Handle)(a.data(h)) = a.free[class]
	a.free[class] = h
}

// Writable reports whether the bytes of the block may be changed in place. If
// not, a pending snapshot may read them: allocate a new block, copy, free the
// old one. Appending behind what was in use at the barrier is always allowed.
func (a *Arena) Writable(h Handle) bool { return a.header(h).epoch > a.newest }

// header returns the header of a block.
func (a *Arena) header(h Handle) *header {
	return (*header)(unsafe.Add(a.chunks[h>>chunkShift], uintptr(h&(chunkUnits-1))*unit))
}

func (a *Arena) data(h Handle) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(a.header(h)), headerBytes)
}

// Extent returns the bytes that the arena has taken from the pool.
func (a *Arena) Extent() int { return len(a.chunks) * chunkBytes }

// Live returns the bytes in blocks that are not freed; what a pending snapshot
// still reads of freed ones is not counted.
func (a *Arena) Live() int { return int(a.live) * unit }

// Close gives all memory back to the pool. No snapshot may be pending.
func (a *Arena) Close() {
	for _, r := range a.runs {
		a.pool.Free(r)
	}
	*a = Arena{pool: a.pool, epoch: 1}
}

// sizeClass returns the smallest class that holds n units, and its size: every
// size up to 8, then four per doubling.
func sizeClass(n uint32) (class int, units uint32) {
	if n <= 8 {
		return int(n), n
	}
	shift := bits.Len32(n-1) - 3
	steps := (n + 1<<shift - 1) >> shift // 5..8
	return 4*shift + int(steps), steps << shift
}

// classBelow returns the largest size of a class that is at most n.
func classBelow(n uint32) uint32 {
	if n <= 8 {
		return n
	}
	shift := bits.Len32(n) - 3
	return n >> shift << shift
}
