package codec

import "fmt"

// Migrate returns a codec of New that also reads what a codec of Old has written:
// it decodes an Old and converts it. It is for changes of a type that no rule
// covers, see Resolve: a field that is split, another unit, another meaning. For
// keyed state state.Migrate does the same, and leaves values in their faster
// default form.
//
// A nil codec stands for the default of its type (For). What was written in the
// format of to is read as it is. What was written in that of from is
// converted; from may be a Migrate in turn, so that a state may skip
// versions:
//
//	v2, err := codec.Migrate(nil, nil, func(v1 AccountV1) (AccountV2, error) { … })
//	v3, err := codec.Migrate(nil, v2, func(v2 AccountV2) (Account, error) { … })
//
// Other formats are resolved by to, else by from, if they can be.
//
// convert must depend on its argument alone; its error fails the restore. A key
// cannot be migrated: it decides where its state lies.
func Migrate[Old, New any](to Codec[New], from Codec[Old], convert func(Old) (New, error)) (Codec[New], error) {
	if convert == nil {
		return nil, fmt.Errorf("migrate: the function is nil")
	}
	var err error
	if to == nil {
		if to, err = For[New](); err != nil {
			return nil, err
		}
	}
	if from == nil {
		if from, err = For[Old](); err != nil {
			return nil, err
		}
	}
	return migrating[Old, New]{to, from, convert}, nil
}

type migrating[Old, New any] struct {
	Codec[New]
	from    Codec[Old]
	convert func(Old) (New, error)
}

// reader is a codec that tells which formats it reads as they are.
type reader interface{ reads(stored Format) bool }

func readsAsIs[T any](c Codec[T], stored Format) bool {
	if r, ok := c.(reader); ok {
		return r.reads(stored)
	}
	return c.Format() == stored
}

func (m migrating[Old, New]) reads(stored Format) bool {
	return readsAsIs(m.Codec, stored) || readsAsIs(m.from, stored)
}

// Resolve implements Resolver.
func (m migrating[Old, New]) Resolve(stored Format) (Codec[New], error) {
	if readsAsIs(m.Codec, stored) || !readsAsIs(m.from, stored) {
		c, err := Resolve(m.Codec, stored)
		if err == nil {
			return c, nil
		}
		old, oldErr := Resolve(m.from, stored)
		if oldErr != nil {
			return nil, fmt.Errorf("%w; nor can it be migrated: %w", err, oldErr)
		}
		return m.reading(old), nil
	}
	old, err := Resolve(m.from, stored)
	if err != nil {
		return nil, err
	}
	return m.reading(old), nil
}

func (m migrating[Old, New]) reading(old Codec[Old]) Codec[New] {
	return reading[New]{m.Codec, func(src []byte) (v New, err error) {
		was, err := old.Decode(src)
		if err != nil {
			return v, err
		}
		if v, err = m.convert(was); err != nil {
			return v, fmt.Errorf("migrate a %T to a %T: %w", was, v, err)
		}
		return v, nil
	}}
}
