//go:build !linux || race

package memory

import "unsafe"

// mapping is memory of the Go heap without pointers in it.
type mapping struct{ words []uint64 }

// mapRegion allocates size bytes. So large an object starts at a page.
func mapRegion(size int) (mapping, unsafe.Pointer, error) {
	words := make([]uint64, size/8)
	return mapping{words}, unsafe.Pointer(unsafe.SliceData(words)), nil
}

func (mapping) unmap() error { return nil }
