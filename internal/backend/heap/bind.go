package heap

import (
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
)

// Bind resolves a batch: after it Seek(i) makes the entry of keys[i] current.
// hashes are those of keys. Missing keys get an entry that goes again at
// Release unless something is written to it. Neither slice is kept beyond the
// call. Bind ends the batch before.
func (s *Store[K]) Bind(keys []K, hashes []uint32) {
	s.Release()
	if len(keys) == 0 {
		return
	}
	s.encode(keys)
	s.bind(hashes[:len(keys)])
	s.readTime()
	s.keys = encoded{}
}

// bind looks the batch up in three tight loops, so that the misses of one
// loop overlap. When a table grew on the way, positions of that table have
// moved: then all is done again, which finds every key.
func (c *core) bind(hashes []uint32) {
	c.ptrs = resize(c.ptrs, len(hashes))
	c.open = true
	c.below.batch++
	for grown := true; grown; {
		c.locate(hashes)
		c.touch()
		switch c.form {
		case formWord:
			grown = c.probeWords(hashes)
		case formText:
			grown = c.probeTexts(hashes)
		default:
			grown = c.probeFixed(hashes)
		}
		if c.below.tier != nil {
			grown = c.admit(hashes)
		}
	}
	switch {
	case c.below.tier != nil: // admit has marked it
	case c.increment.on:
		c.noteBatch()
	case c.newest != 0:
		c.preserveBatch()
	}
	c.touchFields()
}

// locate sets ptrs to the homes of the hashes.
func (c *core) locate(hashes []uint32) {
	ptrs := c.ptrs[:len(hashes)]
	c.batch = resize(c.batch, len(hashes))
	batch := c.batch[:len(hashes)]
	keygroup.Groups(hashes, c.max, batch)
	first := c.groups.First
	for i, h := range hashes {
		t := &c.tables[int(batch[i])-first]
		ptrs[i] = unsafe.Add(t.base, uintptr(t.home(h))*c.size)
	}
}

// touch loads the first and the last word of every position.
func (c *core) touch() {
	var sum uint64
	last := c.size - 8
	for _, p := range c.ptrs {
		sum += *(*uint64)(p) + *(*uint64)(unsafe.Add(p, last))
	}
	c.sink = sum
}

// touchFields does the same for what fields keep in the arena.
func (c *core) touchFields() {
	var sum byte
	v := c.arena.View()
	for _, f := range c.touched {
		for _, p := range c.ptrs {
			if f.Has(p) {
				sum += f.Touch(p, v)
			}
		}
	}
	c.sink += uint64(sum)
}

// probeWords moves ptrs on from the homes to the entries. It reports whether a
// table grew; from then on the homes may be stale and are not looked at.
func (c *core) probeWords(hashes []uint32) (grown bool) {
	words := c.keys.words[:len(c.ptrs)]
	for i, p := range c.ptrs {
		if !grown && word(p) == words[i] && *entry.Bits(p)&entry.Used != 0 {
			continue
		}
		grown = c.settle(i, hashes[i]) || grown
	}
	return grown
}

func (c *core) probeTexts(hashes []uint32) (grown bool) {
	texts := c.keys.texts[:len(c.ptrs)]
	for i, p := range c.ptrs {
		h := hashes[i]
		if !grown && *entry.Hash(p) == h && *entry.Bits(p)&entry.Used != 0 && c.isText(p, texts[i]) {
			continue
		}
		grown = c.settle(i, h) || grown
	}
	return grown
}

func (c *core) probeFixed(hashes []uint32) (grown bool) {
	for i, p := range c.ptrs {
		h := hashes[i]
		if !grown && *entry.Hash(p) == h && *entry.Bits(p)&entry.Used != 0 && c.isFixed(p, i) {
			continue
		}
		grown = c.settle(i, h) || grown
	}
	return grown
}

// settle finds the entry of key i beyond its home, or makes it. With a tier,
// one that is not there is left to admit.
func (c *core) settle(i int, hash uint32) (grown bool) {
	t := c.table(hash)
	p := c.find(t, hash, i)
	switch {
	case p != nil:
	case c.below.tier != nil:
		c.below.missing = append(c.below.missing, i)
	default:
		p, grown = c.insert(hash, i)
	}
	c.ptrs[i] = p
	return grown
}

// find returns the entry of the batch's key i, or nil.
func (c *core) find(t *table, hash uint32, i int) unsafe.Pointer {
	var p unsafe.Pointer
	if c.form == formWord {
		p = c.findWord(t, t.home(hash), maxProbe, c.keys.words[i])
	} else {
		p = c.findKey(t, t.home(hash), maxProbe, hash, i)
	}
	if p == nil && t.displaced > 0 {
		p = c.findKey(t, t.home(c.secondaryOf(i)), t.mask+1, hash, i)
	}
	return p
}

func (c *core) findWord(t *table, pos, n uint32, key uint64) unsafe.Pointer {
	for range n {
		p := c.at(t, pos)
		if *entry.Bits(p)&entry.Used == 0 {
			return nil
		}
		if word(p) == key {
			return p
		}
		pos = (pos + 1) & t.mask
	}
	return nil
}

func (c *core) findKey(t *table, pos, n, hash uint32, i int) unsafe.Pointer {
	for range n {
		p := c.at(t, pos)
		if *entry.Bits(p)&entry.Used == 0 {
			return nil
		}
		if *entry.Hash(p) == hash && c.is(p, i) {
			return p
		}
		pos = (pos + 1) & t.mask
	}
	return nil
}

// insert makes an entry without contents for the batch's key i, which is
// absent. It reports whether the table had to grow for it.
func (c *core) insert(hash uint32, i int) (p unsafe.Pointer, grown bool) {
	g := keygroup.Group(hash, c.max) - c.groups.First
	t := &c.tables[g]
	if grown = t.used >= t.limit; grown {
		c.grow(g, 1)
	}
	p, displaced := c.vacancy(t, hash, func() uint32 { return c.secondaryOf(i) })
	if c.newest != 0 {
		c.preserve(g, t.array, c.position(t, p)>>pageShift)
	}
	clear(unsafe.Slice((*uint64)(p), c.size/8))
	c.storeKey(p, i)
	*entry.Hash(p) = hash
	*entry.Bits(p) = entry.Used | displaced
	if c.increment.on {
		c.noteNew(p)
	}
	t.used++
	if displaced != 0 {
		t.displaced++
	}
	return p, grown
}

// table returns the table of a hash, whose group must be in the range.
func (c *core) table(hash uint32) *table {
	return &c.tables[keygroup.Group(hash, c.max)-c.groups.First]
}

// bindOne makes p the batch and the current entry.
func (c *core) bindOne(p unsafe.Pointer) {
	c.ptrs = append(c.ptrs[:0], p)
	c.open = true
	c.own(p)
	c.cur.P = p
}
