package heap

import (
	"encoding/binary"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
)

// Rows that nobody asks for any more would stay for ever, expired or not. So a
// hand goes round them, too: a row for every record, sweepTogether at a time.
const sweepTogether = 1024

// sweepBelow looks at rows, as many as records have passed, and deletes those
// whose state has expired as a whole.
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
	if b.scratch == nil {
		b.scratch = make([]uint64, c.size/8)
	}
	seen := 0
	err := b.tier.Walk(b.swept, func(key, row []byte) (more bool, err error) {
		if seen == sweepTogether {
			b.swept = append(b.swept[:0], key...)
			return false, nil
		}
		seen++
		return true, c.sweepRow(key, row, mask)
	})
	if seen < sweepTogether {
		b.swept = b.swept[:0] // all seen: from the first again
	}
	c.keys = encoded{}
	c.failed(err)
	c.commitEvictions()
}

// sweepRow deletes a row if all its state ages and has expired. A key with an
// entry is left to the table.
func (c *core) sweepRow(key, row []byte, mask uint32) error {
	b := &c.below
	if err := b.rows.open(row); err != nil {
		return err
	}
	if b.rows.left&^mask != 0 {
		return nil
	}
	expired, err := c.isExpired(&b.rows)
	if err != nil || !expired {
		return err
	}
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
	return b.changes.Delete(key)
}

// isExpired tells whether nothing is left of a row at the present time. All
// its state ages.
func (c *core) isExpired(r *rowLoader) (bool, error) {
	clear(c.below.scratch)
	p := unsafe.Pointer(unsafe.SliceData(c.below.scratch))
	for r.left != 0 {
		i, value, _, err := r.next(c.fields)
		if err != nil {
			return false, err
		}
		f := c.fields[i]
		if err := f.Load(value, true, p, c.arena, c.cur.Now); err != nil {
			return false, err
		}
		if f.Has(p) {
			f.Clear(p, c.arena)
			return false, nil
		}
	}
	return *entry.Bits(p)&entry.Present == 0, nil
}
