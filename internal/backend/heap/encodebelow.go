package heap

import (
	"fmt"

	"github.com/weirstream/weir/internal/snapshot"
)

// encodeBelow writes the state of a key group from the tier.
func (f *Frozen) encodeBelow(g int, w GroupWriter) error {
	if err := f.Settle(); err != nil {
		return err
	}
	c := f.core
	parts := make([]part, len(c.fields))
	prefix := appendPrefix(nil, g, 0)[:groupBytes]
	err := f.settling.snap.Scan(prefix, func(key, row []byte) error {
		return c.split(key[prefixBytes:], row, parts)
	})
	if err != nil {
		return c.tierError(err)
	}
	for i, p := range parts {
		if p.count == 0 {
			continue
		}
		if err := w.Section(c.states[i], p.count, p.data); err != nil {
			return fmt.Errorf("state %q: %w", c.fields[i].Name, err)
		}
	}
	return nil
}

// part is a section under way.
type part struct {
	count int
	data  []byte
}

// split adds the fields of a row to their sections.
func (c *core) split(key, row []byte, parts []part) error {
	var r rowLoader
	if err := r.open(row); err != nil {
		return err
	}
	for r.left != 0 {
		i, value, _, err := r.next(c.fields)
		if err != nil {
			return err
		}
		p := &parts[i]
		p.count++
		p.data = snapshot.AppendItem(p.data, c.keyBytes, key)
		p.data = snapshot.AppendItem(p.data, c.fields[i].Format.Size, value)
	}
	return nil
}
