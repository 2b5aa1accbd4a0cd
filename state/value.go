package state

import (
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
)

// Value is one value per key.
type Value[T any] struct {
	cur *entry.Cursor
	f   *entry.Field
	// direct values lie in the field as they lie in Go memory.
	direct bool
	c      *single[T]
}

// ValueIn declares a value state.
func ValueIn[T any](r *Registry, name string, opts ...Option) Value[T] {
	c := newSingle[T](r, name, entry.Value, collect(opts))
	return Value[T]{c.cur, c.f, c.direct(), c}
}

func newSingle[T any](r *Registry, name string, kind entry.Kind, o options) *single[T] {
	c := &single[T]{cell: r.cell(o)}
	c.f = &entry.Field{Name: name, Kind: kind, TTL: o.ttl.on()}
	r.declare(c.f, o, func() error { return c.init(o) })
	return c
}

// direct tells that a set value is exactly a T in the field. A form that
// could not be settled is not.
func (c *single[T]) direct() bool {
	return c.form.layout != nil && c.form.class == inline && !c.ttl.on()
}

// Get returns the value, the zero T if there is none.
func (v *Value[T]) Get() (T, error) {
	if p := v.cur.P; v.direct && p != nil && *entry.Bits(p)&v.f.Bit != 0 {
		return *(*T)(unsafe.Add(p, v.f.Off)), nil
	}
	return v.c.get()
}

func (c *single[T]) get() (T, error) {
	v, _, err := c.lookup()
	return v, err
}

// Lookup returns the value, and false if there is none.
func (v *Value[T]) Lookup() (T, bool, error) { return v.c.lookup() }

// Set sets the value.
func (v *Value[T]) Set(value T) error {
	if p := v.cur.P; v.direct && p != nil {
		*(*T)(unsafe.Add(p, v.f.Off)) = value
		*entry.Bits(p) |= v.f.Bit
		return nil
	}
	return v.c.set(value)
}

// Clear removes the value.
func (v *Value[T]) Clear() error { return v.c.remove() }
