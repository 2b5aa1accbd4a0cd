package heap

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/snapshot"
)

// encodeBelow writes the state of a key group from the tier.
func (f *Frozen) encodeBelow(g int, w GroupWriter) error {
	if err := f.Settle(false); err != nil {
		return err
	}
	if f.settling.snap == nil {
		return errors.New("it was taken as files")
	}
	c := f.core
	if f.scratch == nil {
		f.scratch = c.borrow()
	}
	rows := &Sections{fields: c.fields, layout: c.states, keyBytes: c.keyBytes, parts: make([]part, len(c.fields)), prune: f.prune}
	prefix := appendPrefix(nil, g, 0)[:groupBytes]
	if err := f.settling.snap.Scan(prefix, rows.Add); err != nil {
		return c.tierError(err)
	}
	return rows.Write(w)
}

// Sections turns the rows of a key group into sections.
type Sections struct {
	fields   []*entry.Field
	layout   []snapshot.State
	keyBytes int
	parts    []part
	rows     rowLoader
	// prune, if it is set, leaves expired parts out of a value; nil is all of it.
	prune func(*entry.Field, []byte) ([]byte, error)
}

// part is a section under way.
type part struct {
	count int
	data  []byte
}

// NewSections returns sections for rows of a layout.
func NewSections(key codec.Format, layout []snapshot.State) *Sections {
	s := &Sections{layout: layout, keyBytes: key.Size, parts: make([]part, len(layout))}
	for _, st := range layout {
		s.fields = append(s.fields, &entry.Field{Name: st.Name, Kind: entry.Kind(st.Kind), Format: st.Format})
	}
	return s
}

// Add adds a row. Those of a key group come in order.
func (s *Sections) Add(key, row []byte) error {
	if len(key) < prefixBytes {
		return errRow
	}
	key = key[prefixBytes:]
	r := &s.rows
	if err := r.open(row); err != nil {
		return err
	}
	for r.left != 0 {
		i, value, _, err := r.next(s.fields)
		if err != nil {
			return err
		}
		if s.prune != nil {
			if value, err = s.prune(s.fields[i], value); err != nil {
				return fmt.Errorf("state %q: %w", s.fields[i].Name, err)
			}
			if value == nil {
				continue
			}
		}
		p := &s.parts[i]
		p.count++
		p.data = snapshot.AppendItem(p.data, s.keyBytes, key)
		p.data = snapshot.AppendItem(p.data, s.fields[i].Format.Size, value)
	}
	return nil
}

// Write writes the sections, and forgets them.
func (s *Sections) Write(w GroupWriter) error {
	for i := range s.parts {
		p := &s.parts[i]
		if p.count == 0 {
			continue
		}
		if err := w.Section(s.layout[i], p.count, p.data); err != nil {
			return fmt.Errorf("state %q: %w", s.layout[i].Name, err)
		}
		p.count, p.data = 0, p.data[:0]
	}
	return nil
}
