package heap

import (
	"bytes"
	"cmp"
	"slices"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
)

// admit marks the entries of the batch and makes those that are missing. It
// reports whether there were any: entries may have moved then.
func (c *core) admit(hashes []uint32) bool {
	b := &c.below
	if len(b.missing) == 0 {
		c.pinBatch()
		return false
	}
	for _, p := range c.ptrs {
		if p != nil {
			c.pin(p)
		}
	}
	c.sortMissing(hashes)
	c.fetchMissing(hashes)
	b.missing = b.missing[:0]
	return true
}

// pin preserves and marks an entry that is about to be used: it stays while
// the batch lasts.
func (c *core) pin(p unsafe.Pointer) {
	c.increment.touched = c.seq
	if c.newest != 0 {
		c.preserveEntry(p)
	}
	c.note(p)
}

// pinBatch pins all entries of the batch.
func (c *core) pinBatch() {
	c.increment.touched = c.seq
	if c.newest != 0 {
		c.preserveBatch()
	}
	for _, p := range c.ptrs {
		c.note(p)
	}
}

// sortMissing brings the missing keys into the order of rows, each once.
func (c *core) sortMissing(hashes []uint32) {
	m := c.below.missing
	compare := func(i, j int) int {
		if x := cmp.Compare(c.batch[i], c.batch[j]); x != 0 {
			return x
		}
		if x := cmp.Compare(hashes[i], hashes[j]); x != 0 {
			return x
		}
		return bytes.Compare(c.batchKey(i), c.batchKey(j))
	}
	slices.SortFunc(m, compare)
	c.below.missing = slices.CompactFunc(m, func(i, j int) bool { return compare(i, j) == 0 })
}

// batchKey is the encoding of the batch's key i.
func (c *core) batchKey(i int) []byte {
	switch c.form {
	case formWord:
		return unsafe.Slice((*byte)(unsafe.Pointer(&c.keys.words[i])), c.keyBytes)
	case formText:
		s := c.keys.texts[i]
		return unsafe.Slice(unsafe.StringData(s), len(s))
	}
	return c.keys.fixed[i*c.keyBytes : (i+1)*c.keyBytes]
}

// fetchMissing makes entries for the missing keys, in their order, and loads
// the rows of those that have one.
func (c *core) fetchMissing(hashes []uint32) {
	b := &c.below
	c.makeRoomFor(len(b.missing), func(i int) int { return int(c.batch[b.missing[i]]) - c.groups.First })
	b.keys, b.found, b.text = b.keys[:0], b.found[:0], b.text[:0]
	for _, i := range b.missing {
		p, _ := c.insert(hashes[i], i)
		c.noteNew(p)
		if g := int(c.batch[i]); b.groups[g-c.groups.First].partial {
			start := len(b.text)
			b.text = append(appendPrefix(b.text, g, hashes[i]), c.batchKey(i)...)
			b.keys = append(b.keys, b.text[start:])
			b.found = append(b.found, p)
		}
	}
	if len(b.keys) == 0 {
		return
	}
	c.readTime()
	c.failed(b.tier.Fetch(b.keys, func(i int, row []byte) error { return c.loadRow(b.found[i], row) }))
}

// makeRoomFor makes room for n entries, each in the table that group tells;
// those of one table follow one another.
func (c *core) makeRoomFor(n int, group func(i int) int) {
	for from := 0; from < n; {
		to := from + 1
		for to < n && group(to) == group(from) {
			to++
		}
		c.makeRoom(group(from), uint32(to-from))
		from = to
	}
	c.commitEvictions()
}

// fetchHashes loads the rows of keys with the hashes of references that have
// no entry. It moves entries.
func (c *core) fetchHashes(refs []ref) {
	b := &c.below
	slices.SortFunc(refs, func(x, y ref) int {
		return cmp.Or(cmp.Compare(x.where, y.where), cmp.Compare(x.hash, y.hash))
	})
	refs = slices.CompactFunc(refs, func(x, y ref) bool { return x.where == y.where && x.hash == y.hash })
	c.makeRoomFor(len(refs), func(i int) int { return int(refs[i].where) })
	for _, r := range refs {
		group := int(r.where) + c.groups.First
		b.text = appendPrefix(b.text[:0], group, r.hash)
		c.failed(b.tier.Scan(b.text, func(key, row []byte) error {
			p, err := c.adopted(r, key[prefixBytes:])
			if p == nil || err != nil {
				return err
			}
			return c.loadRow(p, row)
		}))
	}
	c.keys = encoded{}
}

// adopted makes an entry for an encoded key with the hash of a reference, nil if
// there is one.
func (c *core) adopted(r ref, key []byte) (unsafe.Pointer, error) {
	if err := c.bindKey(key); err != nil {
		return nil, err
	}
	if c.find(&c.tables[r.where], r.hash, 0) != nil {
		return nil, nil
	}
	p, _ := c.insert(r.hash, 0)
	c.noteNew(p)
	return p, nil
}

// bindKey makes an encoded key the only one of the batch's keys.
func (c *core) bindKey(key []byte) error {
	switch c.form {
	case formWord:
		if len(key) != c.keyBytes {
			return errRow
		}
		var w [8]byte
		copy(w[:], key)
		c.oneWord[0] = *(*uint64)(unsafe.Pointer(&w))
		c.keys.words = c.oneWord[:]
	case formText:
		c.oneText[0] = unsafe.String(unsafe.SliceData(key), len(key))
		c.keys.texts = c.oneText[:]
	default:
		if len(key) != c.keyBytes {
			return errRow
		}
		c.keys.fixed = key
	}
	return nil
}

// isAbsent tells whether the tier has no row of a hash whose timers have their
// reference at a time.
func (c *core) isAbsent(d *domain, r ref) bool {
	b := &c.below
	if !c.isBelow(r) {
		return true
	}
	absent := true
	b.text = appendPrefix(b.text[:0], int(r.where)+c.groups.First, r.hash)
	c.failed(b.tier.Scan(b.text, func(_, row []byte) error {
		l := &b.rows
		if err := l.open(row); err != nil {
			return err
		}
		for l.left != 0 {
			i, _, at, err := l.next(c.fields)
			if err != nil {
				return err
			}
			if c.fields[i] == d.field && at == r.at {
				absent = false
			}
		}
		return nil
	}))
	return absent
}

// lookupOne is Lookup of a store with a tier.
func (s *Store[K]) lookupOne(key K, hash uint32) bool {
	s.one[0] = key
	s.Bind(s.one[:], []uint32{hash})
	if p := s.ptrs[0]; *entry.Bits(p)&entry.Present == 0 {
		s.Release()
		return false
	}
	s.Seek(0)
	return true
}
