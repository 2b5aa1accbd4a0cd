package state

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
)

// Migrate lets a state restore what was stored as another type: convert makes a
// New, which is the type of the state's values, elements of a list, values of a
// map, or accumulators, of the Old that was stored. It is for changes that no rule covers (see
// codec.Resolve): another unit, a field that is split, another meaning. Of an
// aggregating state the aggregate may be another one, too.
//
// A snapshot in the form of New is restored as it is, so the option may stay as
// long as there are snapshots in the form of Old. Several make a chain, in any order:
//
//	state.ValueIn[Account](r, "account",
//		state.Migrate(func(v AccountV1) (AccountV2, error) { … }),
//		state.Migrate(func(v AccountV2) (Account, error) { … }))
//
// A snapshot that is in the exact form of none of them is read as a New if the rules
// allow that, else as an Old, the latest first.
//
// old is the codec that Old was stored with, if not by default. convert must depend on
// its argument alone; its error fails the restore. Keys, also those of maps,
// cannot be migrated: they decide where state lies.
func Migrate[Old, New any](convert func(Old) (New, error), old ...codec.Codec[Old]) Option {
	return func(o *options) {
		if convert == nil {
			o.err = errors.New("the function given to Migrate is nil")
			return
		}
		m := &migration[Old, New]{convert: convert}
		if len(old) > 0 {
			m.codec = old[0]
		}
		o.migrations = append(o.migrations, m)
	}
}

// migrator is a migration without its types.
type migrator interface {
	types() (from, to reflect.Type)
	// exact tells whether values are stored as the old type is by default.
	exact(stored codec.Format) bool
	// reader returns what decodes stored values, as the new type, and their size.
	reader(stored codec.Format, chain migrations) (decode func([]byte) (any, error), size int, err error)
}

// migrations are those of a state.
type migrations []migrator

// check tells whether all lead to t.
func (ms migrations) check(t reflect.Type) error {
	for i, m := range ms {
		from, to := m.types()
		if from == to {
			return fmt.Errorf("a migration makes a %v of a %v: give the old form a type of its own", to, from)
		}
		others := slices.ContainsFunc(ms, func(o migrator) bool { f, _ := o.types(); return f == to })
		if to != t && !others {
			return fmt.Errorf("a migration makes a %v, the state holds %v", to, t)
		}
		for _, o := range ms[:i] {
			if _, again := o.types(); again == to {
				return fmt.Errorf("two migrations make a %v", to)
			}
		}
	}
	if len(ms) > 0 && ms.last(t) == nil {
		return fmt.Errorf("the migrations go in a circle and never make a %v", t)
	}
	return nil
}

// last is the migration that makes a t, nil if there is none.
func (ms migrations) last(t reflect.Type) migrator {
	for _, m := range ms {
		if _, to := m.types(); to == t {
			return m
		}
	}
	return nil
}

// to returns the last migration to t, and whether the chain of those before
// it reads what is stored exactly. nil if there is none.
func (ms migrations) to(t reflect.Type, stored codec.Format) (m migrator, exact bool) {
	m = ms.last(t)
	for o := m; o != nil; {
		if o.exact(stored) {
			return m, true
		}
		from, _ := o.types()
		o = ms.without(t).last(from)
		ms, t = ms.without(t), from
	}
	return m, false
}

// without is what is left of a chain below a type.
func (ms migrations) without(t reflect.Type) migrations {
	return slices.DeleteFunc(slices.Clone(ms), func(m migrator) bool { _, to := m.types(); return to == t })
}

type migration[Old, New any] struct {
	convert func(Old) (New, error)
	codec   codec.Codec[Old]
}

func (*migration[Old, New]) types() (from, to reflect.Type) {
	return reflect.TypeFor[Old](), reflect.TypeFor[New]()
}

func (m *migration[Old, New]) exact(stored codec.Format) bool {
	if f, err := newForm(m.codec); err == nil && entry.SameFormat(f.format, stored) {
		return true
	}
	c, err := codec.For[Old]() // which operator state has
	return m.codec == nil && err == nil && entry.SameFormat(c.Format(), stored)
}

func (m *migration[Old, New]) reader(stored codec.Format, chain migrations) (func([]byte) (any, error), int, error) {
	f, err := newForm(m.codec)
	if err != nil {
		return nil, 0, fmt.Errorf("migration from %s: %w", typeName[Old](), err)
	}
	c, err := f.from(stored, chain.without(reflect.TypeFor[New]()))
	if err != nil {
		return nil, 0, err
	}
	var b []byte
	return func(src []byte) (any, error) {
		if c.append != nil {
			if b, err = c.append(b[:0], src); err != nil {
				return nil, err
			}
			src = b
		}
		was, err := f.value(src)
		if err != nil {
			return nil, err
		}
		is, err := m.convert(was)
		if err != nil {
			return nil, fmt.Errorf("migrate a %s to a %s: %w", typeName[Old](), typeName[New](), err)
		}
		return is, nil
	}, c.size, nil
}

// migrated converts by a migration to T.
func (f *form[T]) migrated(stored codec.Format, m migrator, chain migrations) (conversion, error) {
	decode, size, err := m.reader(stored, chain)
	if err != nil {
		return conversion{}, err
	}
	return f.through(size, func(src []byte) (T, error) {
		v, err := decode(src)
		if err != nil {
			var zero T
			return zero, err
		}
		is, _ := v.(T) // nil stays nil
		return is, nil
	}), nil
}
