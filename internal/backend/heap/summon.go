package heap

import (
	"math"
	"unsafe"
)

// A reference outlives the eviction of its entry. When it comes due, the rows
// of its hash become entries again, those of a batch of references together.

// isBelow tells whether the row of a reference may be in the tier.
func (c *core) isBelow(r ref) bool {
	return r.where&displacedRef == 0 && c.below.groups[r.where].partial
}

// summon loads the rows of references that are due and have no entry, and pins
// the entries of all. An entry found stands for the rows of its hash, too, until
// it has fired, or has moved to where that reference does not lead.
func (c *core) summon(d *domain) {
	c.below.batch++
	d.summoned = resize(d.summoned, len(d.due))
	clear(d.summoned)
	var absent []ref
	for i := d.next; i < len(d.due); i++ {
		if p := d.entries[i]; p != nil {
			c.pin(p)
		} else if c.isBelow(d.due[i]) {
			absent = append(absent, d.due[i])
			d.summoned[i] = true
		}
	}
	if len(absent) > 0 {
		c.fetchHashes(absent)
		c.relocate(d)
	}
}

// summonOne loads the row of a reference and returns its entry, nil if there
// is none.
func (c *core) summonOne(d *domain, r ref) unsafe.Pointer {
	if !c.isBelow(r) {
		return nil
	}
	c.fetchHashes([]ref{r})
	c.relocate(d)
	return c.lookup(d, r, c.start(r))
}

// dropAll drops all timers of a domain, and returns their number: it fires them, but
// tells nobody.
func (c *core) dropAll(d *domain) (dropped int) {
	drop := func(int64) error {
		dropped++
		if p := c.cur.P; d.field.Has(p) {
			dropped += (*timers)(d.field.At(p)).count()
			d.field.Clear(p, c.arena)
		}
		return nil
	}
	for more := true; more; {
		_, more, _ = c.advance(d, math.MaxInt64, dueBatch, drop)
	}
	return dropped
}
