package heap

import (
	"encoding/binary"
	"errors"

	"github.com/weirstream/weir/internal/entry"
)

// A store takes over a tier with rows as if they had settled with a snapshot of
// its own. If there is memory for all of them they become entries at once, and
// the key groups are complete; else they are fetched as they are asked for.
// References are not stored: they are made anew from the rows.

// sampled is how many rows tell the size of all.
const sampled = 256

// takeOver adopts the rows of the tier.
func (c *core) takeOver() error {
	b := &c.below
	b.written, b.settled, c.seq = true, 1, 1
	c.readTime()
	fits, err := c.fitsWhole()
	for g := range c.tables {
		if err != nil {
			break
		}
		switch {
		case fits:
			err = c.scanGroup(g, c.warm)
		case c.timed:
			err = c.scanGroup(g, c.takeReferences)
		default:
			err = c.scanGroup(g, c.takeNothing)
		}
	}
	c.keys = encoded{}
	if err != nil && !errors.Is(err, errEnough) {
		return c.tierError(err)
	}
	c.removeEmpties()
	c.trim()
	return nil
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

func (c *core) scanGroup(g int, fn func(g int, key, row []byte) error) error {
	prefix := appendPrefix(nil, g+c.groups.First, 0)[:groupBytes]
	err := c.below.tier.Scan(prefix, func(key, row []byte) error { return fn(g, key, row) })
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// fitsWhole estimates whether all rows fit into memory.
func (c *core) fitsWhole() (bool, error) {
	total, err := c.below.tier.Size(nil)
	if err != nil {
		return false, err
	}
	n, size := int64(0), int64(0)
	err = c.below.tier.Walk(nil, func(key, row []byte) (bool, error) {
		n++
		size += int64(len(key) + len(row))
		return n < sampled, nil
	})
	if err != nil || n == 0 {
		return true, err
	}
	rows := uint32(min(max(total*n/size, n), 1<<30))
	return c.below.share.Fits(c.bytesOf(2*rows) + max(total, size)), nil
}

// warm makes a row an entry that has not changed.
func (c *core) warm(g int, key, row []byte) error {
	if err := c.bindKey(key[prefixBytes:]); err != nil {
		return err
	}
	p, _ := c.insert(binary.BigEndian.Uint32(key[groupBytes:]), 0)
	*c.markOf(p) = mark{seq: 0, batch: c.below.batch}
	if err := c.loadRow(p, row); err != nil {
		return err
	}
	for i := range c.domains {
		d := &c.domains[i]
		if d.field == nil || !d.field.Has(p) {
			continue
		}
		d.live++
		if *entry.Bits(p)&entry.Displaced == 0 { // else loadRow has made one
			d.wheel.add(c.refTo((*timers)(d.field.At(p)).ref, p))
		}
	}
	if *entry.Bits(p)&entry.Present == 0 {
		c.noteChange(p)
		c.empties = append(c.empties, c.placeOf(p))
		c.removeEmpties() // at once: a table that grows moves its entries
	}
	return nil
}

// takeReferences makes the references of a row whose key gets no entry.
func (c *core) takeReferences(g int, key, row []byte) error {
	c.below.groups[g].partial = true
	r := &c.below.rows
	if err := r.open(row); err != nil {
		return err
	}
	for r.left != 0 {
		i, _, at, err := r.next(c.fields)
		if err != nil {
			return err
		}
		if k, ok := domainOf(c.fields[i].Kind); ok {
			d := &c.domains[k]
			d.live++
			d.wheel.add(ref{at, binary.BigEndian.Uint32(key[groupBytes:]), uint32(g)})
		}
	}
	return nil
}

// takeNothing only notes that there are rows.
func (c *core) takeNothing(g int, _, _ []byte) error {
	c.below.groups[g].partial = true
	return errEnough
}
