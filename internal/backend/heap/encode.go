package heap

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/snapshot"
)

// GroupWriter takes the sections of a key group, one per state that has a
// value for some key. data holds count entries in the order of (hash, encoded
// key), each the key and the value as snapshot.AppendItem puts them; it is
// valid during the call only.
type GroupWriter interface {
	Section(st snapshot.State, count int, data []byte) error
}

// scratch is what an encoder works in; it is recycled.
type scratch struct {
	// entries are the group's, copied, in order.
	entries []uint64
	wrapped []uint64
	data    []byte
	value   []byte
	live    []byte
	// sink keeps what warm has loaded from being optimised away.
	sink    byte
	removed []removedKey
}

// EncodeGroup writes the state of key group g, which must be one of Groups.
// Each group can be encoded once.
func (f *Frozen) EncodeGroup(g int, w GroupWriter) error {
	if err := f.encodeGroup(g, w); err != nil {
		return fmt.Errorf("snapshot of operator %q, key group %d: %w", f.core.operator, g, err)
	}
	return nil
}

func (f *Frozen) encodeGroup(g int, w GroupWriter) error {
	p, err := f.begin(g)
	switch {
	case err != nil:
		return err
	case f.settling != nil:
		return f.encodeBelow(g, w)
	case p.array == nil || p.used == 0:
		return nil
	}
	f.collect(p, 0)
	f.order(p)
	return f.sections(w)
}

// begin begins the encoding of a group. What has settled has no capture.
func (f *Frozen) begin(g int) (*capture, error) {
	switch {
	case f.released.Load():
		return nil, errors.New("the snapshot is released")
	case !f.core.groups.Contains(g):
		return nil, fmt.Errorf("only groups %v are here", f.core.groups)
	case f.settling != nil:
		return nil, nil
	}
	p := &f.captures[g-f.core.groups.First]
	if p.read.Load() != 0 {
		return nil, errors.New("it is encoded already")
	}
	if f.scratch == nil {
		f.scratch = f.core.borrow()
	}
	return p, nil
}

// sections writes the values of the collected entries.
func (f *Frozen) sections(w GroupWriter) error {
	for i, field := range f.core.fields {
		if err := f.section(field, f.core.states[i], w); err != nil {
			return fmt.Errorf("state %q: %w", field.Name, err)
		}
	}
	return nil
}

func (c *core) borrow() *scratch {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.spare) - 1
	if last < 0 {
		return &scratch{}
	}
	s := c.spare[last]
	c.spare = c.spare[:last]
	return s
}

// collect copies the entries of a table, page by page, to the scratch. Those
// that have wrapped around the end of the table come first in it but last in
// order, so they go last. Of a snapshot's changes since an earlier one only what has changed since is copied; since is 0 for
// all.
func (f *Frozen) collect(p *capture, since uint32) {
	s, words := f.scratch, int(f.core.size/8)
	s.entries = resize(s.entries, int(p.used)*words)
	s.wrapped = s.wrapped[:0]
	n, written := 0, since
	if f.removed == nil {
		written = 0 // pages do not tell
	}
	for page := range uint32(len(p.array.pages)) {
		w := &p.array.pages[page]
		if w.Load()>>1 < written {
			p.read.Store(page + 1) // there is nothing newer in it
			continue
		}
		if b := p.claim(page, f.seq); b != nil {
			n = f.collectPage(p, b, page, n, since)
			continue
		}
		from := unsafe.Add(p.array.base, uintptr(page)*pagePositions*f.core.size)
		n = f.collectPage(p, from, page, n, since)
		p.read.Store(page + 1)
		w.Store(w.Load() &^ locked)
	}
	n += copy(s.entries[n:], s.wrapped)
	s.entries = s.entries[:n]
}

// claim returns the copy of a page if there is one. If not, the contents in the
// table are those of the snapshot, and the page is locked.
func (p *capture) claim(page, seq uint32) unsafe.Pointer {
	w := &p.array.pages[page]
	for {
		v := w.Load()
		if v>>1 >= seq {
			return p.saved[page]
		}
		if v&locked == 0 && w.CompareAndSwap(v, v|locked) {
			return nil
		}
		runtime.Gosched() // the stage or another encoder is copying the page
	}
}

// collectPage copies the entries of a page behind the first n words.
func (f *Frozen) collectPage(p *capture, base unsafe.Pointer, page uint32, n int, since uint32) int {
	s, size := f.scratch, f.core.size
	words := int(size / 8)
	first := page << pageShift
	for i := range min(pagePositions, p.array.mask+1) {
		e := unsafe.Add(base, uintptr(i)*size)
		bits := *entry.Bits(e)
		if bits&entry.Used == 0 {
			continue
		}
		if since != 0 && !f.core.markOf(e).changedSince(since) {
			continue
		}
		from := unsafe.Slice((*uint64)(e), words)
		if bits&entry.Displaced == 0 && uint32(uint64(*entry.Hash(e))>>(p.shift&63)) > first+i {
			s.wrapped = append(s.wrapped, from...)
			continue
		}
		to := s.entries[n : n+words]
		for k, v := range from { //nolint:staticcheck // a few words: the loop beats a call of copy
			to[k] = v
		}
		n += words
	}
	return n
}

// order sorts the collected entries by hash and key. They nearly are, unless
// some are displaced.
func (f *Frozen) order(p *capture) {
	if p.displaced > 0 {
		f.sort(len(f.scratch.entries) / int(f.core.size/8))
		return
	}
	s, words := f.scratch, int(f.core.size/8)
	for i := words; i < len(s.entries); i += words {
		e := unsafe.Pointer(&s.entries[i])
		if *entry.Hash(unsafe.Pointer(&s.entries[i-words])) < *entry.Hash(e) {
			continue // in order, as nearly all
		}
		j := i
		for j > 0 && f.compare(e, unsafe.Pointer(&s.entries[j-words])) < 0 {
			j -= words
		}
		if j < i {
			s.wrapped = append(s.wrapped[:0], s.entries[i:i+words]...)
			copy(s.entries[j+words:i+words], s.entries[j:i])
			copy(s.entries[j:], s.wrapped)
		}
	}
}

// sort sorts n entries that may be anywhere.
func (f *Frozen) sort(n int) {
	s, words := f.scratch, int(f.core.size/8)
	order := make([]int, n)
	for i := range order {
		order[i] = i * words
	}
	slices.SortFunc(order, func(a, b int) int {
		return f.compare(unsafe.Pointer(&s.entries[a]), unsafe.Pointer(&s.entries[b]))
	})
	s.wrapped = s.wrapped[:0]
	for _, at := range order {
		s.wrapped = append(s.wrapped, s.entries[at:at+words]...)
	}
	s.entries, s.wrapped = s.wrapped, s.entries
}

// compare orders entries by hash, then encoded key.
func (f *Frozen) compare(a, b unsafe.Pointer) int {
	if x, y := *entry.Hash(a), *entry.Hash(b); x != y {
		return cmp.Compare(x, y)
	}
	return bytes.Compare(f.core.encodedKey(a, f.view), f.core.encodedKey(b, f.view))
}

// section writes the values of one field.
func (f *Frozen) section(field *entry.Field, st snapshot.State, w GroupWriter) (err error) {
	s, words, count := f.scratch, int(f.core.size/8), 0
	data, size := s.data[:0], field.Format.Size
	touched := []*entry.Field{field}
	for i := 0; i < len(s.entries); i += words {
		if field.Touch != nil && i%(warmed*words) == 0 {
			f.warm(touched, i)
		}
		e := unsafe.Pointer(&s.entries[i])
		if !field.Has(e) {
			continue
		}
		if size > 0 && field.Prune == nil {
			count++
			data = f.appendKey(data, e)
			before := len(data)
			if data, err = field.Append(data, e, f.view); err != nil {
				return err
			}
			if err := checkSize(field, len(data)-before); err != nil {
				return err
			}
			continue
		}
		value, err := f.value(field, e)
		if err != nil {
			return err
		}
		if value != nil {
			count++
			data = snapshot.AppendItem(f.appendKey(data, e), size, value)
		}
	}
	s.data = data
	if count == 0 {
		return nil
	}
	return w.Section(st, count, data)
}

// warmed is how many entries are warmed at a time.
const warmed = 32

// warm loads what fields of the collected entries from a word on keep in the
// arena, so that the cache misses of many overlap.
func (f *Frozen) warm(fields []*entry.Field, from int) {
	s, words := f.scratch, int(f.core.size/8)
	var sum byte
	for i := from; i < min(from+warmed*words, len(s.entries)); i += words {
		e := unsafe.Pointer(&s.entries[i])
		for _, field := range fields {
			if field.Has(e) {
				sum += field.Touch(e, f.view)
			}
		}
	}
	s.sink += sum
}

// value encodes what has not expired of a value; nil is nothing. It is good
// until the next call.
func (f *Frozen) value(field *entry.Field, e unsafe.Pointer) (value []byte, err error) {
	s := f.scratch
	if s.value, err = field.Append(s.value[:0], e, f.view); err != nil {
		return nil, err
	}
	if err := checkSize(field, len(s.value)); err != nil {
		return nil, err
	}
	return f.prune(field, s.value)
}

func checkSize(f *entry.Field, n int) error {
	if f.Format.Size > 0 && n != f.Format.Size {
		return fmt.Errorf("a value of format %s took %d bytes instead of %d", f.Format.ID, n, f.Format.Size)
	}
	return nil
}

// prune returns what of an encoded value had not expired at the barrier; nil is
// nothing. It is good until the next call.
func (f *Frozen) prune(field *entry.Field, value []byte) (live []byte, err error) {
	if field.Prune == nil {
		return value, nil
	}
	s := f.scratch
	if s.live, err = field.Prune(s.live[:0], value, f.now); err != nil || len(s.live) == 0 {
		return nil, err
	}
	return s.live, nil
}

func (f *Frozen) appendKey(data []byte, e unsafe.Pointer) []byte {
	c := f.core
	if c.form == formWord && c.keyBytes == 8 {
		return append(data, (*[8]byte)(keyAt(e))[:]...)
	}
	return snapshot.AppendItem(data, c.keyBytes, c.encodedKey(e, f.view))
}
