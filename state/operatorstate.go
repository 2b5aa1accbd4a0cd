package state

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/snapshot"
)

// operatorState is a state of a subtask, apart from any key, without its type.
type operatorState interface {
	// describe returns it without its content.
	describe() snapshot.ListState
	// encode returns the content, which does not change when the state does.
	encode() ([][]byte, error)
	// decode replaces the content; there are no items if nothing is stored.
	decode(stored snapshot.ListState) error
	// check tells whether what is stored as the same kind can be decoded.
	check(stored snapshot.ListState) error
}

// declareOperatorState adds a state of a subtask.
func (r *Registry) declareOperatorState(name string, s operatorState, err error) {
	if err != nil {
		r.fail(name, err)
	} else if r.name(name) {
		r.lists = append(r.lists, s)
	}
}

// operatorForm is the form of the values of an operator state, which always has
// a codec.
func operatorForm[T any](o options) (f form[T], err error) {
	if o.err != nil {
		return f, o.err
	}
	if o.ttl.on() {
		return f, errors.New("operator state has no time to live")
	}
	if err := o.migrations.check(reflect.TypeFor[T]()); err != nil {
		return f, err
	}
	c, err := codecOf[T](o.codec)
	if err == nil && c == nil {
		if c, err = codec.For[T](); err != nil {
			err = fmt.Errorf("values of type %s cannot be encoded: %w", typeName[T](), err)
		}
	}
	if err != nil {
		return f, err
	}
	return newForm(c)
}

// decodeStored decodes a value of an operator state.
func decodeStored[T any](f *form[T], c conversion, src []byte) (T, error) {
	if c.append != nil {
		b, err := c.append(nil, src)
		if err != nil {
			var zero T
			return zero, err
		}
		src = b
	}
	return f.codec.Decode(src)
}

// SnapshotLists encodes the operator states, in the order they were declared.
// What it returns does not change when they do.
func (r *Registry) SnapshotLists() ([]snapshot.ListState, error) {
	var lists []snapshot.ListState
	for _, l := range r.lists {
		s := l.describe()
		var err error
		if s.Items, err = l.encode(); err != nil {
			return nil, fmt.Errorf("operator %q: %s: %w", r.operator, nameList(s), err)
		}
		lists = append(lists, s)
	}
	return lists, nil
}

// RestoreLists replaces the contents of the operator states by stored ones,
// which CheckLists must accept. Those that are not stored become empty.
func (r *Registry) RestoreLists(stored []snapshot.ListState) error {
	if err := r.CheckLists(stored); err != nil {
		return err
	}
	for _, l := range r.lists {
		form := l.describe()
		if err := l.decode(partOf(stored, form)); err != nil {
			return fmt.Errorf("operator %q: %s: %w", r.operator, nameList(form), err)
		}
	}
	return nil
}

// CheckLists tells whether stored operator states can be restored: each must be
// declared as the same kind, in a form that what is stored can be converted to.
func (r *Registry) CheckLists(stored []snapshot.ListState) error {
	var errs []error
	for _, s := range stored {
		want, ok := r.declaredAs(s.Name)
		if !ok {
			errs = append(errs, noLonger(r.operator, s.Name, describeList(s)))
		} else if err := r.checkList(s); err != nil {
			errs = append(errs, changed(r.operator, s.Name, describeList(s), want, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Registry) checkList(stored snapshot.ListState) error {
	for _, l := range r.lists {
		if d := l.describe(); d.Name == stored.Name && d.Kind == stored.Kind {
			return l.check(stored)
		}
	}
	return entry.ErrKind
}

// Declares reports whether there is a state of that name, or timers of that
// kind. It is for the engine.
func (r *Registry) Declares(name string) bool {
	for _, d := range r.domains {
		if string(timerKind(d)) == name {
			return true
		}
	}
	_, ok := r.declaredAs(name)
	return ok
}

// declaredAs says in words as what a name is declared.
func (r *Registry) declaredAs(name string) (form string, ok bool) {
	if i := slices.IndexFunc(r.lists, func(l operatorState) bool { return l.describe().Name == name }); i >= 0 {
		return describeList(r.lists[i].describe()), true
	}
	for _, s := range r.keyedStates() {
		if s.Name == name {
			return describe(s), true
		}
	}
	return "", false
}

// nounOf is what people call a kind of operator state.
func nounOf(k snapshot.ListKind) string {
	switch k {
	case snapshot.EvenSplit:
		return "operator list"
	case snapshot.UnionList:
		return "union list"
	case snapshot.BroadcastMap:
		return "broadcast state"
	case snapshot.RawParts:
		return "raw state"
	}
	return fmt.Sprintf("operator state of kind %q", k)
}

func nameList(s snapshot.ListState) string { return fmt.Sprintf("%s %q", nounOf(s.Kind), s.Name) }

// describeList says in words what an operator state is. What differs in it is
// not restored.
func describeList(s snapshot.ListState) string {
	switch s.Kind {
	case snapshot.RawParts:
		return nounOf(s.Kind)
	case snapshot.BroadcastMap:
		return nounOf(s.Kind) + " of " + describeFormat(s.Key) + " to " + describeFormat(s.Format)
	}
	return nounOf(s.Kind) + " of " + describeFormat(s.Format)
}
