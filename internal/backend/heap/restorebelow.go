package heap

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

// A store with a tier restores a key group when it has all of its sections:
// into the table if there is memory for it, else the sections, which are in
// the order of rows, are merged into rows.

// storedSection is a section that is restored, cut up as far as its head.
type storedSection struct {
	st    snapshot.State
	field *entry.Field
	conv  *converter
	count int
	data  []byte

	// head is the key of the next entry, hash its hash, value its value; done
	// tells that there is none.
	head, value []byte
	hash        uint32
	done        bool
}

// gather keeps a section until its group is complete.
func (s *Store[K]) gather(group int, st snapshot.State, count int, data []byte) error {
	f, conv, err := s.checkSection(group, st, count, data)
	if err != nil {
		return err
	}
	b := &s.below
	if len(b.restoring) > 0 && b.group != group {
		if err := s.restoreGroup(); err != nil {
			return err
		}
	}
	if b.restored[group-s.groups.First] {
		return errors.New("the key group comes twice")
	}
	b.group = group
	b.restoring = append(b.restoring, storedSection{st: st, field: f, conv: conv, count: count, data: bytes.Clone(data)})
	return nil
}

// restoreGroup restores the sections gathered.
func (s *Store[K]) restoreGroup() error {
	b := &s.below
	if len(b.restoring) == 0 {
		return nil
	}
	keys, size := 0, 0
	for _, p := range b.restoring {
		keys, size = max(keys, p.count), size+len(p.data)
	}
	b.restored[b.group-s.groups.First] = true
	var err error
	if s.below.share.Fits(s.bytesOf(uint32(4*keys)) + 2*int64(size)) {
		err = s.restoreTable()
	} else {
		s.leaveMemory()
		err = s.restoreRows()
	}
	clear(b.restoring)
	b.restoring = b.restoring[:0]
	s.trim()
	return err
}

func (s *Store[K]) restoreTable() error {
	for _, p := range s.below.restoring {
		if err := s.restore(s.below.group, p.st, p.count, p.data); err != nil {
			return fmt.Errorf("state %q: %w", p.st.Name, err)
		}
	}
	return nil
}

// restoreRows merges the sections into rows.
func (s *Store[K]) restoreRows() (err error) {
	b := &s.below
	changes, err := b.tier.Load()
	if err != nil {
		return s.tierError(err)
	}
	if err := s.mergeRows(changes); err != nil {
		changes.Abort()
		return err
	}
	b.groups[b.group-s.groups.First].partial, b.written = true, true
	if err := changes.Commit(); err != nil {
		return s.tierError(err)
	}
	return nil
}

func (s *Store[K]) mergeRows(changes Changes) error {
	b := &s.below
	s.readTime()
	for i := range b.restoring {
		if err := s.advanceSection(&b.restoring[i]); err != nil {
			return fmt.Errorf("state %q: %w", b.restoring[i].st.Name, err)
		}
	}
	scratch := make([]uint64, s.size/8)
	p := unsafe.Pointer(unsafe.SliceData(scratch))
	for {
		least := -1
		for i := range b.restoring {
			if q := &b.restoring[i]; !q.done && (least < 0 || q.compare(&b.restoring[least]) < 0) {
				least = i
			}
		}
		if least < 0 {
			return nil
		}
		clear(scratch)
		if err := s.mergeRow(p, b.restoring[least].hash, b.restoring[least].head, changes); err != nil {
			return err
		}
	}
}

// compare orders sections by their heads.
func (p *storedSection) compare(o *storedSection) int {
	return cmp.Or(cmp.Compare(p.hash, o.hash), bytes.Compare(p.head, o.head))
}

// mergeRow takes the heads with a key off the sections and makes its row, in
// the entry at p, which no table knows.
func (s *Store[K]) mergeRow(p unsafe.Pointer, hash uint32, key []byte, changes Changes) error {
	b := &s.below
	*entry.Hash(p), *entry.Bits(p) = hash, entry.Used
	for i := range b.restoring {
		q := &b.restoring[i]
		if q.done || q.hash != hash || !bytes.Equal(q.head, key) {
			continue
		}
		value, err := q.conv.value(q.value)
		if err == nil {
			err = q.field.Load(value, q.st.TTL, p, s.arena, s.cur.Now)
		}
		if err == nil {
			err = s.advanceSection(q)
		}
		if err != nil {
			return fmt.Errorf("state %q: %w", q.st.Name, err)
		}
	}
	return s.putRestored(p, key, changes)
}

// putRestored writes the row of an entry and gives the entry up.
func (s *Store[K]) putRestored(p unsafe.Pointer, key []byte, changes Changes) (err error) {
	b := &s.below
	for i := range s.domains {
		if d := &s.domains[i]; d.field != nil && d.field.Has(p) {
			s.index(d, p)
		}
	}
	if *entry.Bits(p)&entry.Present == 0 {
		return nil
	}
	if b.row, err = s.appendRow(b.row[:0], p, s.arena.View()); err != nil {
		return err
	}
	for _, f := range s.fields {
		if f.Has(p) {
			f.Clear(p, s.arena)
		}
	}
	b.text = append(appendPrefix(b.text[:0], b.group, *entry.Hash(p)), key...)
	if err := changes.Put(b.text, b.row); err != nil {
		return s.tierError(err)
	}
	return nil
}

// advanceSection moves on to the next entry of a section, which must come
// after the one before.
func (s *Store[K]) advanceSection(q *storedSection) (err error) {
	if q.count == 0 {
		if q.done = true; len(q.data) > 0 {
			return fmt.Errorf("%d bytes behind the last entry", len(q.data))
		}
		return nil
	}
	before := *q
	q.count--
	if q.head, q.data, err = snapshot.Item(q.data, s.keyBytes); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if q.value, q.data, err = snapshot.Item(q.data, q.st.Format.Size); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	key, err := s.encoding.Decode(q.head)
	if err != nil {
		return err
	}
	q.hash = s.hasher.Hash(key)
	if g := keygroup.Group(q.hash, s.max); g != s.below.group {
		return fmt.Errorf("key %v belongs to group %d", key, g)
	}
	if before.head != nil && before.compare(q) >= 0 {
		return fmt.Errorf("key %v comes twice or out of order", key)
	}
	return nil
}
