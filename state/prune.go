package state

import (
	"encoding/binary"
	"errors"

	"github.com/weirstream/weir/internal/snapshot"
)

// pruneValue appends an encoded value to dst unless it has expired.
func (t *ttl) pruneValue(dst, value []byte, now int64) ([]byte, error) {
	if len(value) < timeSize {
		return nil, errTruncated
	}
	if t.expired(int64(binary.LittleEndian.Uint64(value)), now) {
		return dst, nil
	}
	return append(dst, value...), nil
}

var errBehind = errors.New("bytes follow the last element")

// pruneElements returns the Prune of lists and maps. An encoded element is its
// time and items of the given sizes, 0 where they vary.
func (t *ttl) pruneElements(sizes ...int) func(dst, value []byte, now int64) ([]byte, error) {
	return func(dst, value []byte, now int64) ([]byte, error) {
		n, elements, err := countOf(value)
		if err != nil {
			return nil, err
		}
		live, src := 0, elements
		for range n {
			at, rest, err := cutElement(src, sizes)
			if err != nil {
				return nil, err
			}
			if !t.expired(at, now) {
				live++
			}
			src = rest
		}
		switch {
		case len(src) > 0:
			return nil, errBehind
		case live == n:
			return append(dst, value...), nil
		case live == 0:
			return dst, nil
		}
		dst = binary.AppendUvarint(dst, uint64(live))
		for len(elements) > 0 {
			at, rest, _ := cutElement(elements, sizes)
			if !t.expired(at, now) {
				dst = append(dst, elements[:len(elements)-len(rest)]...)
			}
			elements = rest
		}
		return dst, nil
	}
}

// cutElement takes an element off src and returns its time.
func cutElement(src []byte, sizes []int) (at int64, rest []byte, err error) {
	if len(src) < timeSize {
		return 0, nil, errTruncated
	}
	at, rest = int64(binary.LittleEndian.Uint64(src)), src[timeSize:]
	for _, size := range sizes {
		if _, rest, err = snapshot.Item(rest, size); err != nil {
			return 0, nil, err
		}
	}
	return at, rest, nil
}
