package heap

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/internal/entry"
)

// Keys returns the keys of a key group of the store that hold any state, expired
// or not, and their hashes. It ends the current batch.
func (s *Store[K]) Keys(group int) (keys []K, hashes []uint32) {
	s.Release()
	add := func(hash uint32, encoded []byte) {
		k, err := s.encoding.Decode(encoded)
		if err != nil {
			panic(fmt.Errorf("state of operator %q: %w", s.operator, err)) // it was made from a K
		}
		keys, hashes = append(keys, k), append(hashes, hash)
	}
	t := &s.tables[group-s.groups.First]
	view := s.arena.View()
	for pos := range t.mask + 1 {
		p := s.at(t, pos)
		if bits := *entry.Bits(p); bits&entry.Used != 0 && bits&entry.Present != 0 {
			add(*entry.Hash(p), s.encodedKey(p, view))
		}
	}
	if s.below.tier != nil && s.below.groups[group-s.groups.First].partial {
		s.keysBelow(group, add)
	}
	return keys, hashes
}

// keysBelow adds the keys of rows that have no entry.
func (c *core) keysBelow(group int, add func(hash uint32, encoded []byte)) {
	t := &c.tables[group-c.groups.First]
	c.failed(c.below.tier.Scan(appendPrefix(nil, group, 0)[:groupBytes], func(key, _ []byte) error {
		hash := binary.BigEndian.Uint32(key[groupBytes:])
		if err := c.bindKey(key[prefixBytes:]); err != nil {
			return err
		}
		if c.find(t, hash, 0) == nil {
			add(hash, key[prefixBytes:])
		}
		return nil
	}))
	c.keys = encoded{}
}
