package state

import (
	"unsafe"

	"github.com/weirstream/weir/internal/memory"
)

// The entries of a large map lie in pages instead of one block, so that a change
// while a snapshot is pending copies a page, and growing copies nothing. The
// block of entries is then a directory: a word with the number of pages, and the
// handle of each. A snapshot reads only the handles of pages that its count
// reaches.

const (
	// pageBytes is the most that a page takes, unless a few entries take more.
	pageBytes = 8<<10 - 8
	// mostBlock is the size up to which entries lie in one block.
	mostBlock = 64 << 10
	// pagedBit marks a slot whose entries lie in pages.
	pagedBit   = 1 << 31
	handleSize = unsafe.Sizeof(memory.Handle(0))
)

func (s *slot) paged() bool { return s.sweep&pagedBit != 0 }

// layOutPages settles how many entries a page has.
func (t *table) layOutPages() {
	for t.pageShift = 3; t.stride<<(t.pageShift+1) <= pageBytes; t.pageShift++ {
	}
}

// perPage is the number of entries of a page, a power of 2.
func (t *table) perPage() int { return 1 << t.pageShift }

func (t *table) pageSize() int { return int(t.stride) << t.pageShift }

// pageCount returns the place of the number of pages in a directory, page that of the
// k-th handle.
func pageCount(directory unsafe.Pointer) *uint32 { return (*uint32)(directory) }

func page(directory unsafe.Pointer, k int) *memory.Handle {
	return (*memory.Handle)(unsafe.Add(directory, uintptr(k+1)*handleSize))
}

// inPages returns the i-th entry of the map with a directory.
func (t *table) inPages(directory unsafe.Pointer, a *memory.Arena, i int) unsafe.Pointer {
	h := *page(directory, i>>t.pageShift)
	return unsafe.Add(a.At(h), uintptr(i&(t.perPage()-1))*t.stride)
}

// ownPage makes the page of the i-th entry, e, writable and returns the entry.
func (t *table) ownPage(s *slot, a *memory.Arena, i int, e unsafe.Pointer) unsafe.Pointer {
	k := i >> t.pageShift
	h := *page(base(s, a), k)
	if a.Writable(h) {
		return e
	}
	t.ownDirectory(s, a, 0)
	own := a.Alloc(t.pageSize())
	copy(a.Bytes(own, t.pageSize()), a.Bytes(h, t.pageSize()))
	a.Free(h)
	*page(base(s, a), k) = own
	return t.inPages(base(s, a), a, i)
}

// ownDirectory makes the directory writable, with room for more pages.
func (t *table) ownDirectory(s *slot, a *memory.Arena, more int) {
	used := int(handleSize) * (1 + int(*pageCount(base(s, a))))
	size := used + int(handleSize)*more
	if a.Writable(s.entries) && size <= a.Cap(s.entries) {
		return
	}
	if more > 0 {
		size += size / 2
	}
	own := a.Alloc(size)
	copy(a.Bytes(own, used), a.Bytes(s.entries, used))
	a.Free(s.entries)
	s.entries = own
}

// toPages moves the entries of a block to pages.
func (t *table) toPages(s *slot, a *memory.Arena) {
	old := s.entries
	s.entries = a.Alloc(8 * int(handleSize))
	s.sweep |= pagedBit
	*pageCount(base(s, a)) = 0
	b := start(a.Bytes(old, 1))
	for i := 0; i < int(s.count); i += t.perPage() {
		t.addPage(s, a)
		n := min(t.perPage(), int(s.count)-i) * int(t.stride)
		copy(unsafe.Slice((*byte)(t.at(s, a, i)), n), unsafe.Slice((*byte)(t.entry(b, i)), n))
	}
	a.Free(old)
}

// toBlock moves the entries of pages to a block for n of them.
func (t *table) toBlock(s *slot, a *memory.Arena, n int) {
	block := a.Alloc(small + n*int(t.stride))
	b := start(a.Bytes(block, 1))
	for i := 0; i < int(s.count); i += t.perPage() {
		n := min(t.perPage(), int(s.count)-i) * int(t.stride)
		copy(unsafe.Slice((*byte)(t.entry(b, i)), n), unsafe.Slice((*byte)(t.at(s, a, i)), n))
	}
	t.freePages(s, a)
	s.entries = block
	s.sweep &^= pagedBit
}

// addPage appends an empty page.
func (t *table) addPage(s *slot, a *memory.Arena) {
	k := int(*pageCount(base(s, a)))
	if int(handleSize)*(k+2) > a.Cap(s.entries) {
		t.ownDirectory(s, a, k+1)
	}
	h := a.Alloc(t.pageSize())
	d := base(s, a)
	*page(d, k) = h
	*pageCount(d) = uint32(k + 1)
}

// dropPages gives back all pages at the end but one that are not needed, and the
// rest of the pages of a map that has become small.
func (t *table) dropPages(s *slot, a *memory.Arena) {
	n := int(s.count)
	used := (n + t.perPage() - 1) >> t.pageShift
	for int(*pageCount(base(s, a))) > used+1 {
		t.ownDirectory(s, a, 0)
		d := base(s, a)
		*pageCount(d)--
		a.Free(*page(d, int(*pageCount(d))))
	}
	if 4*n*int(t.stride) <= mostBlock {
		t.toBlock(s, a, max(2*n, small))
		t.reindex(s, a, 4*max(n, small))
	} else if 16*n < len(indexOf(s, a).cells) {
		t.reindex(s, a, 4*n)
	}
}

// freePages gives back all pages and the directory.
func (t *table) freePages(s *slot, a *memory.Arena) {
	d := base(s, a)
	for k := range int(*pageCount(d)) {
		a.Free(*page(d, k))
	}
	a.Free(s.entries)
	s.entries = 0
}

// runs calls fn with the entries of a map in a snapshot, as many as lie
// together at a time.
func (t *table) runs(s *slot, v memory.View, fn func(entries []byte)) {
	n, stride := int(s.count), int(t.stride)
	if !s.paged() {
		fn(v.Bytes(s.entries, small+n*stride)[small:])
		return
	}
	d := start(v.Bytes(s.entries, int(handleSize)))
	for i := 0; i < n; i += t.perPage() {
		fn(v.Bytes(*page(d, i>>t.pageShift), min(t.perPage(), n-i)*stride))
	}
}
