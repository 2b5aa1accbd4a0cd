package state

import (
	"iter"

	"github.com/weirstream/weir/internal/entry"
)

// List is a list per key. A list never written is empty, and one that has
// become empty is no longer stored.
type List[T any] struct{ c *listCell[T] }

// ListIn declares a list state.
func ListIn[T any](r *Registry, name string, opts ...Option) List[T] {
	o := collect(opts)
	c := &listCell[T]{cell: r.cell(o)}
	c.f = &entry.Field{Name: name, Kind: entry.List, TTL: o.ttl.on(), Size: listSlotSize}
	r.declare(c.f, o, func() error { return c.init(o) })
	return List[T]{c}
}

// Add appends v. It takes constant time on average, however long the list is.
func (l *List[T]) Add(v T) error { return l.c.add(v) }

// AddAll appends all of vs, or none of them on an error.
func (l *List[T]) AddAll(vs ...T) error { return l.c.addAll(vs) }

// Update replaces the list by vs, and leaves it as it is on an error.
func (l *List[T]) Update(vs []T) error { return l.c.update(vs) }

// Get returns the elements in order, nil if there are none. The slice is the
// caller's.
func (l *List[T]) Get() ([]T, error) {
	var vs []T
	l.c.each(func(v T) bool {
		if vs == nil {
			vs = make([]T, 0, l.c.slot(l.c.cur.P).count)
		}
		vs = append(vs, v)
		return true
	})
	return vs, l.c.err
}

// All iterates over the elements in order. Elements added while it runs are
// not visited; it ends when the list is cleared or replaced. Ask Err
// afterwards. An iteration must end before the function returns.
func (l *List[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { l.c.each(yield) }
}

// Err returns the error that ended the last iteration early, nil if there
// was none: ErrNoKey, or one of a codec.
func (l *List[T]) Err() error { return l.c.err }

// Len returns the number of elements. With a TTL it looks at each of them.
func (l *List[T]) Len() (int, error) {
	p, err := l.c.current()
	if err != nil || !l.c.f.Has(p) {
		return 0, err
	}
	return l.c.len(p), nil
}

// Clear removes all elements.
func (l *List[T]) Clear() error {
	p, err := l.c.current()
	if err == nil && l.c.f.Has(p) {
		l.c.clear(p, l.c.cur.Arena)
	}
	return err
}
