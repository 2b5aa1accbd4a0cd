package heap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
)

// A row is the state of a key as a tier keeps it: a uvarint with the presence
// bits, then for each field that is present its form in snapshots, behind four
// bytes with its length if that varies, and behind timers the time of their
// reference. Native snapshots hold rows, so their form has a version: see
// lsm.Format.

// appendRow appends the row of an entry that holds something.
func (c *core) appendRow(dst []byte, p unsafe.Pointer, v memory.View) ([]byte, error) {
	present := *entry.Bits(p) & entry.Present
	dst = binary.AppendUvarint(dst, uint64(present))
	for _, f := range c.fields {
		if present&f.Bit == 0 {
			continue
		}
		start := len(dst)
		if f.Format.Size == 0 {
			dst = append(dst, 0, 0, 0, 0)
		}
		var err error
		if dst, err = f.Append(dst, p, v); err != nil {
			return nil, fmt.Errorf("state %q: %w", f.Name, err)
		}
		if f.Format.Size == 0 {
			if err := checkRowValue(len(dst) - start - 4); err != nil {
				return nil, fmt.Errorf("state %q: %w", f.Name, err)
			}
			binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
		} else if err := checkSize(f, len(dst)-start); err != nil {
			return nil, fmt.Errorf("state %q: %w", f.Name, err)
		}
		if _, ok := domainOf(f.Kind); ok {
			dst = binary.LittleEndian.AppendUint64(dst, uint64((*timers)(f.At(p)).ref))
		}
	}
	return dst, nil
}

// mostRowValue is the largest value in a row.
const mostRowValue = 1 << 30

// checkRowValue tells whether a value fits into a row: what is too large for one
// has to be divided by whoever made it so.
func checkRowValue(size int) error {
	if size <= mostRowValue {
		return nil
	}
	return fmt.Errorf("a list, map or value of one key takes %d bytes; the lsm backend keeps at most %d under a key: "+
		"make a part of what it grows with part of the key, or use the heap backend", size, mostRowValue)
}

var errRow = errors.New("malformed row")

// rowLoader cuts rows.
type rowLoader struct {
	rest []byte
	// left are the fields whose values are still to be cut.
	left uint32
}

// open begins a row.
func (r *rowLoader) open(row []byte) error {
	present, n := binary.Uvarint(row)
	if n <= 0 || present > uint64(entry.Present) {
		return errRow
	}
	r.rest, r.left = row[n:], uint32(present)
	return nil
}

// next cuts the next value, which is that of fields[i]; ref is the time of the
// reference of timers. There is one as long as left is not 0.
func (r *rowLoader) next(fields []*entry.Field) (i int, value []byte, ref int64, err error) {
	if i = bits.TrailingZeros32(r.left); i >= len(fields) {
		return 0, nil, 0, errRow
	}
	r.left &= r.left - 1
	if value, ref, err = r.cut(fields[i]); err != nil {
		return 0, nil, 0, fmt.Errorf("state %q: %w", fields[i].Name, err)
	}
	return i, value, ref, nil
}

// cut cuts the value of a field.
func (r *rowLoader) cut(f *entry.Field) (value []byte, ref int64, err error) {
	n := f.Format.Size
	if n == 0 {
		if len(r.rest) < 4 {
			return nil, 0, errRow
		}
		n, r.rest = int(binary.LittleEndian.Uint32(r.rest)), r.rest[4:]
	}
	if n > len(r.rest) {
		return nil, 0, errRow
	}
	value, r.rest = r.rest[:n:n], r.rest[n:]
	if _, ok := domainOf(f.Kind); ok {
		if len(r.rest) < 8 {
			return nil, 0, errRow
		}
		ref, r.rest = int64(binary.LittleEndian.Uint64(r.rest)), r.rest[8:]
	}
	return value, ref, nil
}

// loadRow fills an entry without contents.
func (c *core) loadRow(p unsafe.Pointer, row []byte) error {
	r := &c.below.rows
	if err := r.open(row); err != nil {
		return err
	}
	for r.left != 0 {
		i, value, ref, err := r.next(c.fields)
		if err != nil {
			return err
		}
		f := c.fields[i]
		if err := f.Load(value, f.TTL, p, c.arena, c.cur.Now); err != nil {
			return fmt.Errorf("state %q: %w", f.Name, err)
		}
		if _, ok := domainOf(f.Kind); ok {
			t := (*timers)(f.At(p))
			t.ref, t.indexed = ref, 1
		}
	}
	c.markOf(p).seq |= belowBit
	if c.timed && *entry.Bits(p)&entry.Displaced != 0 {
		c.reindex(p)
	}
	return nil
}
