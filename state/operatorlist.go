package state

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
)

// OperatorList is a list per subtask, apart from any key. It lives in memory.
// When a job is restored with another parallelism, the elements of all
// subtasks are dealt out again, evenly and in order.
type OperatorList[T any] struct{ l *operatorList[T] }

// OperatorListIn declares an operator list. Of the options only Codec is
// possible; the default is codec.For.
func OperatorListIn[T any](r *Registry, name string, opts ...Option) OperatorList[T] {
	l := &operatorList[T]{name: name}
	if err := l.init(collect(opts)); err != nil {
		r.fail(name, err)
	} else if r.name(name) {
		r.lists = append(r.lists, l)
	}
	return OperatorList[T]{l}
}

// Get returns a copy of the elements in order, nil if there are none.
func (s *OperatorList[T]) Get() []T {
	if len(s.l.items) == 0 {
		return nil
	}
	return slices.Clone(s.l.items)
}

// All iterates over the elements in order, as they are when it starts.
func (s *OperatorList[T]) All() iter.Seq[T] { return slices.Values(s.l.items) }

// Len returns the number of elements.
func (s *OperatorList[T]) Len() int { return len(s.l.items) }

// Add appends elements.
func (s *OperatorList[T]) Add(vs ...T) { s.l.items = append(s.l.items, vs...) }

// Update replaces the elements by a copy of vs.
func (s *OperatorList[T]) Update(vs []T) { s.l.items = slices.Clone(vs) }

// Clear removes all elements.
func (s *OperatorList[T]) Clear() { s.l.items = nil }

// operatorState is an operator list without its type.
type operatorState interface {
	// form returns the list without items.
	form() snapshot.ListState
	encode() (snapshot.ListState, error)
	decode(items [][]byte) error
}

type operatorList[T any] struct {
	name  string
	codec codec.Codec[T]
	items []T
}

func (l *operatorList[T]) init(o options) (err error) {
	if o.err != nil {
		return o.err
	}
	if o.ttl.on() {
		return errors.New("an operator list has no time to live")
	}
	if l.codec, err = codecOf[T](o.codec); err != nil || l.codec != nil {
		return err
	}
	if l.codec, err = codec.For[T](); err != nil {
		return fmt.Errorf("values of type %s cannot be encoded: %w", typeName[T](), err)
	}
	return nil
}

func (l *operatorList[T]) form() snapshot.ListState {
	return snapshot.ListState{Name: l.name, Format: l.codec.Format()}
}

func (l *operatorList[T]) encode() (snapshot.ListState, error) {
	s := l.form()
	s.Items = make([][]byte, 0, len(l.items))
	nilable := nilable(reflect.TypeFor[T]())
	for i := range l.items {
		if nilable && isNil(&l.items[i]) {
			return s, fmt.Errorf("operator list %q: element %d: %w", l.name, i, ErrNil)
		}
		b, err := l.codec.Append(nil, l.items[i])
		if err != nil {
			return s, fmt.Errorf("operator list %q: encode element %d: %w", l.name, i, err)
		}
		s.Items = append(s.Items, b)
	}
	return s, nil
}

func (l *operatorList[T]) decode(items [][]byte) error {
	l.items = make([]T, 0, len(items))
	for i, b := range items {
		v, err := l.codec.Decode(b)
		if err != nil {
			return fmt.Errorf("operator list %q: decode element %d: %w", l.name, i, err)
		}
		l.items = append(l.items, v)
	}
	return nil
}

// SnapshotLists encodes the operator lists, in the order they were declared.
// What it returns does not change when the lists do.
func (r *Registry) SnapshotLists() ([]snapshot.ListState, error) {
	var lists []snapshot.ListState
	for _, l := range r.lists {
		s, err := l.encode()
		if err != nil {
			return nil, fmt.Errorf("operator %q: %w", r.operator, err)
		}
		lists = append(lists, s)
	}
	return lists, nil
}

// RestoreLists replaces the elements of the operator lists by stored ones,
// which CheckLists must accept. Lists that are not stored become empty.
func (r *Registry) RestoreLists(stored []snapshot.ListState) error {
	if err := r.CheckLists(stored); err != nil {
		return err
	}
	for _, l := range r.lists {
		var items [][]byte
		for _, s := range stored {
			if s.Name == l.form().Name {
				items = s.Items
			}
		}
		if err := l.decode(items); err != nil {
			return fmt.Errorf("operator %q: %w", r.operator, err)
		}
	}
	return nil
}

// CheckLists tells whether stored operator lists can be restored: each must be
// declared with the same format.
func (r *Registry) CheckLists(stored []snapshot.ListState) error {
	var errs []error
	for _, s := range stored {
		i := slices.IndexFunc(r.lists, func(l operatorState) bool { return l.form().Name == s.Name })
		if i < 0 {
			errs = append(errs, fmt.Errorf("operator %q: %w: operator list %q of %s is stored and no longer declared; declare it again, or start without this snapshot",
				r.operator, ErrIncompatible, s.Name, describeFormat(s.Format)))
			continue
		}
		if want := r.lists[i].form().Format; !equalFormat(s.Format, want) {
			errs = append(errs, fmt.Errorf("operator %q: %w: operator list %q is stored with elements of %s and declared with %s; give the new form another name, or restore with the old one",
				r.operator, ErrIncompatible, s.Name, describeFormat(s.Format), describeFormat(want)))
		}
	}
	return errors.Join(errs...)
}
