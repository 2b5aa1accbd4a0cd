package state

import (
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/weirstream/weir/internal/snapshot"
)

// OperatorList is a list per subtask, apart from any key. It lives in memory.
// When a job is restored with another parallelism, the elements of all
// subtasks are dealt out again, evenly and in order.
type OperatorList[T any] struct{ elements[T] }

// OperatorListIn declares an operator list. Of the options only Codec is
// possible; the default is codec.For.
func OperatorListIn[T any](r *Registry, name string, opts ...Option) OperatorList[T] {
	return OperatorList[T]{elementsIn[T](r, name, snapshot.EvenSplit, opts)}
}

// UnionList is a list per subtask, apart from any key, of which every subtask
// is given the elements of all when a job is restored, in the order of the
// subtasks: with any parallelism, the same one included. It lives in memory.
//
// A subtask must then keep what is its own and drop the rest, by Update or
// Clear, before the next snapshot: every snapshot stores what the subtasks
// hold, and what several hold is stored, and restored, several times.
type UnionList[T any] struct{ elements[T] }

// UnionListIn declares a union list. Of the options only Codec is possible;
// the default is codec.For.
func UnionListIn[T any](r *Registry, name string, opts ...Option) UnionList[T] {
	return UnionList[T]{elementsIn[T](r, name, snapshot.UnionList, opts)}
}

// elements are the methods of lists per subtask.
type elements[T any] struct{ l *operatorList[T] }

func elementsIn[T any](r *Registry, name string, kind snapshot.ListKind, opts []Option) elements[T] {
	l := &operatorList[T]{name: name, kind: kind}
	var err error
	o := collect(opts)
	l.form, err = operatorForm[T](o)
	l.migrations = o.migrations
	r.declareOperatorState(name, l, err)
	return elements[T]{l}
}

// Get returns a copy of the elements in order, nil if there are none.
func (s *elements[T]) Get() []T {
	if len(s.l.items) == 0 {
		return nil
	}
	return slices.Clone(s.l.items)
}

// All iterates over the elements in order, as they are when it starts.
func (s *elements[T]) All() iter.Seq[T] { return slices.Values(s.l.items) }

// Len returns the number of elements.
func (s *elements[T]) Len() int { return len(s.l.items) }

// Add appends elements.
func (s *elements[T]) Add(vs ...T) { s.l.items = append(s.l.items, vs...) }

// Update replaces the elements by a copy of vs.
func (s *elements[T]) Update(vs []T) { s.l.items = slices.Clone(vs) }

// Clear removes all elements.
func (s *elements[T]) Clear() { s.l.items = nil }

type operatorList[T any] struct {
	name       string
	kind       snapshot.ListKind
	form       form[T]
	migrations migrations
	items      []T
}

func (l *operatorList[T]) describe() snapshot.ListState {
	return snapshot.ListState{Name: l.name, Kind: l.kind, Format: l.form.format}
}

func (l *operatorList[T]) encode() ([][]byte, error) {
	items := make([][]byte, 0, len(l.items))
	nilable := nilable(reflect.TypeFor[T]())
	for i := range l.items {
		if nilable && isNil(&l.items[i]) {
			return nil, fmt.Errorf("element %d: %w", i, ErrNil)
		}
		b, err := l.form.codec.Append(nil, l.items[i])
		if err != nil {
			return nil, fmt.Errorf("encode element %d: %w", i, err)
		}
		items = append(items, b)
	}
	return items, nil
}

func (l *operatorList[T]) check(stored snapshot.ListState) error {
	_, err := l.form.from(stored.Format, l.migrations)
	return err
}

func (l *operatorList[T]) decode(stored snapshot.ListState) error {
	conv, err := l.form.from(stored.Format, l.migrations)
	if err != nil {
		return err
	}
	l.items = make([]T, 0, len(stored.Items))
	for i, b := range stored.Items {
		v, err := decodeStored(&l.form, conv, b)
		if err != nil {
			return fmt.Errorf("decode element %d: %w", i, err)
		}
		l.items = append(l.items, v)
	}
	return nil
}
