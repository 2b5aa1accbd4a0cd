package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errItem is wrapped by the errors of Item.
var errItem = errors.New("malformed item")

// AppendItem appends an item of a section's data. size is the size of the
// item's format: above 0 the item is exactly that long and goes in as it is, else
// its length goes in front, as a uvarint.
func AppendItem(dst []byte, size int, item []byte) []byte {
	if size <= 0 {
		dst = binary.AppendUvarint(dst, uint64(len(item)))
	}
	return append(dst, item...)
}

// Item takes the next item off src, as AppendItem put it there. item and rest
// are parts of src.
func Item(src []byte, size int) (item, rest []byte, err error) {
	n := uint64(size)
	if size <= 0 {
		length, k := binary.Uvarint(src)
		if k <= 0 {
			return nil, nil, fmt.Errorf("%w: its length is cut off or too large", errItem)
		}
		n, src = length, src[k:]
	}
	if n > uint64(len(src)) {
		return nil, nil, fmt.Errorf("%w: %d bytes long, but only %d follow", errItem, n, len(src))
	}
	return src[:n:n], src[n:], nil
}
