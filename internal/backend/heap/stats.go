package heap

import "github.com/weirstream/weir/internal/entry"

// Stats describes the tables of a store.
type Stats struct {
	// Keys is the number of entries, Positions that of positions in all tables.
	Keys, Positions int
	// Displaced entries lie at their secondary home.
	Displaced int
	// Bytes is the memory of the tables and of the copies for snapshots; what
	// lies in the arena is not in it.
	Bytes int
	// MaxProbe and MeanProbe tell how many positions from its home an entry lies.
	MaxProbe  int
	MeanProbe float64
}

// Len returns the number of keys that have an entry.
func (c *core) Len() int {
	n := 0
	for i := range c.tables {
		n += int(c.tables[i].used)
	}
	return n
}

// Stats looks at every entry: it is for tests and diagnostics.
func (c *core) Stats() Stats {
	var s Stats
	sum := 0
	for i := range c.tables {
		t := &c.tables[i]
		if t.array == nil {
			continue
		}
		s.Positions += int(t.mask) + 1
		s.Bytes += len(t.array.mem)
		s.Displaced += int(t.displaced)
		for pos := range t.mask + 1 {
			p := c.at(t, pos)
			if *entry.Bits(p)&entry.Used == 0 {
				continue
			}
			probe := int((pos - c.homeOf(t, p)) & t.mask)
			s.Keys++
			s.MaxProbe = max(s.MaxProbe, probe)
			sum += probe
		}
	}
	for _, slab := range c.copies.slabs {
		s.Bytes += len(slab)
	}
	if s.Keys > 0 {
		s.MeanProbe = float64(sum) / float64(s.Keys)
	}
	return s
}
