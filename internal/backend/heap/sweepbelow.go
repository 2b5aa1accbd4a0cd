package heap

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/internal/entry"
)

// Rows that nobody asks for any more would stay for ever, expired or not. So a
// hand goes round them, too: some for every record, sweepTogether records at a
// time.
const (
	sweepTogether = 1024
	// rowShare is how many positions of a table weigh as much as a row.
	rowShare = 4
)

// sweepBelow looks at rows, as many as the records that have passed are worth,
// and removes what has expired.
func (c *core) sweepBelow(records int) {
	b := &c.below
	b.credit = min(b.credit+records, sweepTogether)
	if !b.written || b.credit < sweepTogether || b.last.isSettling() {
		return
	}
	b.credit = 0
	var mask uint32
	for _, f := range c.aging {
		mask |= f.Bit
	}
	rows, seen := sweepTogether*max(1, c.perRecord/rowShare), 0
	err := b.tier.Walk(b.swept, func(key, row []byte) (more bool, err error) {
		if seen == rows {
			b.swept = append(b.swept[:0], key...)
			return false, nil
		}
		seen++
		return true, c.sweepRow(key, row, mask)
	})
	if seen < rows {
		b.swept = b.swept[:0] // all seen: from the first again
	}
	c.keys = encoded{}
	c.failed(err)
	c.commitEvictions()
}

// sweepRow removes what has expired from a row, and the row with the last of it.
// A key with an entry is left to the table.
func (c *core) sweepRow(key, row []byte, mask uint32) error {
	changed, err := c.pruneRow(row, mask)
	if err != nil || !changed {
		return err
	}
	b := &c.below
	group := int(binary.BigEndian.Uint16(key)) - c.groups.First
	hash := binary.BigEndian.Uint32(key[groupBytes:])
	if err := c.bindKey(key[prefixBytes:]); err != nil {
		return err
	}
	if c.find(&c.tables[group], hash, 0) != nil {
		return nil
	}
	if b.changes == nil {
		b.changes = b.tier.Change()
	}
	if len(b.row) == 0 {
		return b.changes.Delete(key)
	}
	return b.changes.Put(key, b.row)
}

// pruneRow makes below.row what is left of a row at the present time, and tells
// whether that is less. The fields of the mask are pruned.
func (c *core) pruneRow(row []byte, mask uint32) (changed bool, err error) {
	b := &c.below
	r := &b.rows
	if err := r.open(row); err != nil {
		return false, err
	}
	present := r.left
	if present&mask == 0 {
		return false, nil
	}
	b.left = b.left[:0]
	for r.left != 0 {
		before, at := r.rest, len(b.left)
		i, value, _, err := r.next(c.fields)
		if err != nil {
			return false, err
		}
		f := c.fields[i]
		if f.Bit&mask == 0 {
			b.left = append(b.left, before[:len(before)-len(r.rest)]...)
			continue
		}
		if b.left, err = appendPruned(b.left, f, value, c.cur.Now); err != nil {
			return false, fmt.Errorf("state %q: %w", f.Name, err)
		}
		switch len(b.left) - at {
		case 0:
			present &^= f.Bit
			changed = true
		case len(before) - len(r.rest):
		default:
			changed = true
		}
	}
	b.row = b.row[:0]
	if changed && present != 0 {
		b.row = append(binary.AppendUvarint(b.row, uint64(present)), b.left...)
	}
	return changed, nil
}

// appendPruned appends what has not expired of a value as it lies in a row.
func appendPruned(dst []byte, f *entry.Field, value []byte, now int64) ([]byte, error) {
	start, head := len(dst), 0
	if f.Format.Size == 0 {
		dst, head = append(dst, 0, 0, 0, 0), 4
	}
	dst, err := f.Prune(dst, value, now)
	n := len(dst) - start - head
	if err != nil || n == 0 {
		return dst[:start], err
	}
	if head > 0 {
		binary.LittleEndian.PutUint32(dst[start:], uint32(n))
	}
	return dst, nil
}
