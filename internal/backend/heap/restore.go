package heap

import (
	"fmt"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

// RestoreSection loads one section of a key group of the store's range: count
// entries in data, as a GroupWriter got them. Sections may come in any order;
// with a tier, those of a group follow one another. Restored must follow the
// last one. The state, looked up by name, has the stored kind; values in another
// form are converted. An error leaves the store unusable.
func (s *Store[K]) RestoreSection(group int, st snapshot.State, count int, data []byte) error {
	s.Release()
	restore := s.restore
	if s.below.tier != nil {
		restore = s.gather
	}
	if err := restore(group, st, count, data); err != nil {
		return fmt.Errorf("restore state %q of operator %q, key group %d: %w", st.Name, s.operator, group, err)
	}
	s.tellUsage()
	return nil
}

// Restored ends a restore.
func (s *Store[K]) Restored() error {
	if s.below.tier == nil {
		return nil
	}
	return s.restoreGroup()
}

// checkSection returns the field of a section, and what converts its values.
func (c *core) checkSection(group int, st snapshot.State, count int, data []byte) (*entry.Field, *converter, error) {
	if !c.groups.Contains(group) {
		return nil, nil, fmt.Errorf("the subtask owns groups %v", c.groups)
	}
	i := c.fieldNamed(st.Name)
	if i < 0 {
		return nil, nil, fmt.Errorf("the operator declares no such state")
	}
	// Keys and values take a byte at least; that bounds a count that cannot be trusted.
	if count < 0 || count > len(data)/(max(c.keyBytes, 1)+max(st.Format.Size, 1)) {
		return nil, nil, fmt.Errorf("%d entries in %d bytes", count, len(data))
	}
	conv, err := c.converterOf(c.fields[i], st)
	return c.fields[i], conv, err
}

func (s *Store[K]) restore(group int, st snapshot.State, count int, data []byte) error {
	f, conv, err := s.checkSection(group, st, count, data)
	if err != nil {
		return err
	}
	if t := &s.tables[group-s.groups.First]; t.used+uint32(count) > t.limit && t.used == 0 {
		s.grow(group-s.groups.First, uint32(count))
	}
	s.readTime()
	for n := range count {
		rest, err := s.restoreEntry(group, f, conv, data)
		if err != nil {
			return fmt.Errorf("entry %d of %d: %w", n+1, count, err)
		}
		data = rest
	}
	if len(data) > 0 {
		return fmt.Errorf("%d bytes behind the last of %d entries", len(data), count)
	}
	return nil
}

func (c *core) fieldNamed(name string) int {
	for i, f := range c.fields {
		if f.Name == name {
			return i
		}
	}
	return -1
}

// restoreEntry loads the first entry of data and returns what follows it.
func (s *Store[K]) restoreEntry(group int, f *entry.Field, conv *converter, data []byte) ([]byte, error) {
	encodedKey, data, err := snapshot.Item(data, s.keyBytes)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	value, data, err := snapshot.Item(data, conv.of.Format.Size)
	if err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	key, err := s.encoding.Decode(encodedKey)
	if err != nil {
		return nil, err
	}
	hash := s.hasher.Hash(key)
	if g := keygroup.Group(hash, s.max); g != group {
		return nil, fmt.Errorf("key %v belongs to group %d", key, g)
	}
	s.one[0] = key
	s.encode(s.one[:])
	p := s.find(s.table(hash), hash, 0)
	if p == nil {
		p, _ = s.insert(hash, 0)
	} else if s.newest != 0 {
		s.preserveEntry(p)
	}
	if f.Has(p) {
		return nil, fmt.Errorf("key %v comes twice", key)
	}
	if value, err = conv.value(value); err == nil {
		err = f.Load(value, conv.of.TTL, p, s.arena, s.cur.Now)
	}
	if err != nil {
		return nil, fmt.Errorf("key %v: %w", key, err)
	}
	if *entry.Bits(p)&entry.Present == 0 {
		// At once: a table that grows moves its entries.
		s.empties = append(s.empties, s.placeOf(p))
		s.removeEmpties()
		return data, nil
	}
	if s.increment.on {
		*s.markOf(p) = restoredMark
	}
	if d, ok := domainOf(f.Kind); ok && f.Has(p) {
		s.index(&s.domains[d], p)
	}
	return data, nil
}
