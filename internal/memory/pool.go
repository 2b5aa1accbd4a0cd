package memory

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"unsafe"
)

// ErrBudget is wrapped by the error of an allocation that would exceed the
// pool's budget.
var ErrBudget = errors.New("state memory budget exceeded")

const (
	// align is the alignment and granularity of runs.
	align = 64
	// minRegion is the smallest region and the alignment of all of them: the
	// size of a huge page.
	minRegion = 2 << 20
	// maxGrowth bounds the region that is mapped ahead of need.
	maxGrowth = 64 << 20
)

// Pool allocates runs of state memory. It is safe for concurrent use; it is
// meant to be called rarely, so one lock guards it.
type Pool struct {
	budget int64

	mu      sync.Mutex
	regions []*region
	// carved counts the bytes ever handed out of fresh memory: all of them stay
	// with the process.
	carved   int64
	inUse    int64
	closed   bool
	accounts []*Account
}

// region is one large piece of memory: fresh beyond bump, before it in use or
// in free, which is sorted by offset and has no two adjacent runs.
type region struct {
	mem  mapping
	base unsafe.Pointer
	size int
	bump int
	free []run
}

type run struct{ off, n int }

// NewPool returns an empty pool. budget is the most bytes it takes from the
// system for runs; 0 means no limit.
func NewPool(budget int64) *Pool { return &Pool{budget: budget} }

// Alloc returns n zero bytes, aligned to 64. The error wraps ErrBudget when
// the budget is used up. The run is valid until Free or Close.
func (p *Pool) Alloc(n int) ([]byte, error) {
	b, fresh, err := p.alloc(n)
	if err == nil && !fresh {
		clear(b)
	}
	return b, err
}

// alloc is Alloc without clearing; fresh tells that the bytes are zero.
func (p *Pool) alloc(n int) (b []byte, fresh bool, err error) {
	if n <= 0 {
		return nil, true, nil
	}
	size := (n + align - 1) &^ (align - 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false, errors.New("memory pool is closed")
	}
	r, off := p.recycled(size)
	if r == nil {
		fresh = true
		if r, off, err = p.carve(size); err != nil {
			return nil, false, err
		}
	}
	p.inUse += int64(size)
	return unsafe.Slice((*byte)(unsafe.Add(r.base, off)), size)[:n], fresh, nil
}

// recycled takes size bytes from the freed run that fits best.
func (p *Pool) recycled(size int) (*region, int) {
	var best *region
	at := 0
	for _, r := range p.regions {
		for i, f := range r.free {
			if f.n >= size && (best == nil || f.n < best.free[at].n) {
				best, at = r, i
			}
		}
	}
	if best == nil {
		return nil, 0
	}
	f := &best.free[at]
	off := f.off
	if f.off, f.n = f.off+size, f.n-size; f.n == 0 {
		best.free = append(best.free[:at], best.free[at+1:]...)
	}
	return best, off
}

// carve takes size bytes of fresh memory, mapping a region if need be.
func (p *Pool) carve(size int) (*region, int, error) {
	if p.budget > 0 && p.carved+int64(size) > p.budget {
		return nil, 0, p.exceeded(size)
	}
	var r *region
	for _, c := range p.regions {
		if c.size-c.bump >= size {
			r = c
			break
		}
	}
	if r == nil {
		var err error
		if r, err = p.grow(size); err != nil {
			return nil, 0, err
		}
	}
	off := r.bump
	r.bump += size
	p.carved += int64(size)
	return r, off, nil
}

// grow maps a region of at least size bytes, larger the more there is already.
func (p *Pool) grow(size int) (*region, error) {
	total := 0
	for _, r := range p.regions {
		total += r.size
	}
	want := max(size, min(total/2, maxGrowth))
	want = (want + minRegion - 1) &^ (minRegion - 1)
	mem, base, err := mapRegion(want)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of state memory: %w", want, err)
	}
	r := &region{mem: mem, base: base, size: want}
	p.regions = append(p.regions, r)
	return r, nil
}

// Free gives a run back for reuse; b must be what Alloc returned. Its bytes
// must not be used afterwards. Freeing nil does nothing.
func (p *Pool) Free(b []byte) {
	if cap(b) == 0 {
		return
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	size := cap(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	for _, r := range p.regions {
		if base := uintptr(r.base); at >= base && at < base+uintptr(r.size) {
			p.inUse -= int64(size)
			r.insert(run{int(at - base), size})
			return
		}
	}
	panic("memory: Free of bytes that are not the pool's")
}

// insert adds a freed run and joins it with its neighbours.
func (r *region) insert(f run) {
	i := sort.Search(len(r.free), func(i int) bool { return r.free[i].off > f.off })
	joinsPrev := i > 0 && r.free[i-1].off+r.free[i-1].n == f.off
	joinsNext := i < len(r.free) && f.off+f.n == r.free[i].off
	switch {
	case joinsPrev && joinsNext:
		r.free[i-1].n += f.n + r.free[i].n
		r.free = append(r.free[:i], r.free[i+1:]...)
	case joinsPrev:
		r.free[i-1].n += f.n
	case joinsNext:
		r.free[i].off, r.free[i].n = f.off, r.free[i].n+f.n
	default:
		r.free = append(r.free, run{})
		copy(r.free[i+1:], r.free[i:])
		r.free[i] = f
	}
}

// InUse returns the bytes allocated and not freed.
func (p *Pool) InUse() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUse
}

// Reserved returns the bytes the pool has handed out at its peak and keeps for
// reuse: what the budget limits.
func (p *Pool) Reserved() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.carved
}

// Close unmaps everything. No run of the pool may be used afterwards; further
// allocations fail.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, r := range p.regions {
		errs = append(errs, r.mem.unmap())
	}
	p.regions, p.inUse = nil, 0
	return errors.Join(errs...)
}
