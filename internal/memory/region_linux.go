//go:build linux && !race

package memory

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is an anonymous mapping.
type mapping struct {
	base unsafe.Pointer
	size uintptr
}

// mapRegion maps size bytes, a multiple of minRegion, aligned to minRegion.
func mapRegion(size int) (mapping, unsafe.Pointer, error) {
	raw, err := unix.MmapPtr(-1, 0, nil, uintptr(size)+minRegion,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return mapping{}, nil, err
	}
	head := -uintptr(raw) & (minRegion - 1)
	base := unsafe.Add(raw, head)
	if head > 0 {
		if err := unix.MunmapPtr(raw, head); err != nil {
			return mapping{}, nil, err
		}
	}
	if tail := minRegion - head; tail > 0 {
		if err := unix.MunmapPtr(unsafe.Add(base, size), tail); err != nil {
			return mapping{}, nil, err
		}
	}
	// Huge pages are advice: without them the memory works, only slower.
	_ = unix.Madvise(unsafe.Slice((*byte)(base), size), unix.MADV_HUGEPAGE)
	return mapping{base, uintptr(size)}, base, nil
}

func (m mapping) unmap() error { return unix.MunmapPtr(m.base, m.size) }
