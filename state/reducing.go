package state

import "github.com/weirstream/weir/internal/entry"

// Reducing is one value per key into which others are folded.
type Reducing[T any] struct {
	c      *single[T]
	reduce func(a, b T) T
}

// ReducingIn declares a reducing state. reduce folds b, which is added, into
// a; it must not keep or change either.
func ReducingIn[T any](r *Registry, name string, reduce func(a, b T) T, opts ...Option) Reducing[T] {
	if reduce == nil {
		r.fail(name, errNoReduce)
	}
	return Reducing[T]{newSingle[T](r, name, entry.Reducing, collect(opts)), reduce}
}

// Add folds v in; the first v added is the value.
func (s *Reducing[T]) Add(v T) error {
	c := s.c
	p := c.cur.P
	if p == nil {
		return ErrNoKey
	}
	if !c.f.Has(p) || c.ttl.on() && !c.ttl.visible(*timeAt(c.f.At(p)), c.cur.Now) {
		return c.set(v)
	}
	old, err := c.form.get(c.slot(p), c.cur.Arena)
	if err != nil {
		return err
	}
	return c.set(s.reduce(old, v))
}

// Get returns the value, the zero T if nothing was added.
func (s *Reducing[T]) Get() (T, error) { return s.c.get() }

// Lookup returns the value, and false if nothing was added.
func (s *Reducing[T]) Lookup() (T, bool, error) { return s.c.lookup() }

// Clear removes the value.
func (s *Reducing[T]) Clear() error { return s.c.remove() }
