package heap

import (
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/snapshot"
)

// converter brings the values of a section into the form that its field has
// now.
type converter struct {
	of   snapshot.State
	conv entry.Conversion
	buf  []byte
}

// converterOf returns the converter of a field for a stored form. It is made
// once for the sections of a form, of which there is one as a rule.
func (c *core) converterOf(f *entry.Field, st snapshot.State) (*converter, error) {
	if have := c.converters[f.Name]; have != nil && have.of == st {
		return have, nil
	}
	conv, err := f.Conversion(st)
	if err != nil {
		return nil, err
	}
	if c.converters == nil {
		c.converters = map[string]*converter{}
	}
	made := &converter{of: st, conv: conv}
	c.converters[f.Name] = made
	return made, nil
}

// value returns a stored value in the present form, good until the next call.
func (v *converter) value(stored []byte) (_ []byte, err error) {
	if v.conv.Same() {
		return stored, nil
	}
	v.buf, err = v.conv.Append(v.buf[:0], stored)
	return v.buf, err
}
