package codec

import (
	"fmt"
	"reflect"

	"github.com/weirstream/weir/internal/schema"
)

// Resolver is a codec that reads, by rules of its own, what older versions of it
// have written.
type Resolver[T any] interface {
	Codec[T]
	// Resolve returns a codec that decodes stored and encodes as before. Its
	// errors wrap ErrIncompatible.
	Resolve(stored Format) (Codec[T], error)
}

// Resolve returns a codec that decodes what is stored in the given format:
// c itself if that is its format, else what c, being a Resolver, makes of it.
// Of other codecs it reads what those of this package have written for an older
// form of the type:
//
//   - integers and floats may become wider, as long as every value is kept;
//   - structs may gain fields (zero, or the default in the tag), lose, reorder
//     and rename them: the tag avro:"new,alias=old" names the old one. A struct
//     that keeps none of its fields is refused;
//   - a value may become a pointer to one;
//   - strings and []byte may take each other's place;
//   - what was stored as JSON is read as JSON.
//
// Values that the codec returned encodes are in the format of c. The error
// wraps ErrIncompatible, and names both formats and the fields that differ.
func Resolve[T any](c Codec[T], stored Format) (Codec[T], error) {
	wanted := c.Format()
	if stored == wanted {
		return c, nil
	}
	if r, ok := c.(Resolver[T]); ok {
		return r.Resolve(stored)
	}
	if stored.ID == "json" && stored.Version == 1 && wanted.ID == "avro" {
		return reading[T]{c, JSON[T]().Decode}, nil
	}
	from, to, err := trees[T](stored, wanted)
	if err != nil {
		return nil, incompatible(stored, wanted, err)
	}
	if !from.Known() || !to.Known() {
		return nil, incompatible(stored, wanted, nil)
	}
	conv, err := schema.Convert(from, to, nil)
	switch {
	case err != nil:
		return nil, incompatible(stored, wanted, err)
	case conv.Same:
		return c, nil
	}
	return reading[T]{c, func(src []byte) (v T, err error) {
		b, err := conv.Append(nil, src)
		if err != nil {
			return v, &DecodeError{Format: stored.ID, Offset: len(src), Err: err}
		}
		return c.Decode(b)
	}}, nil
}

// trees reads the forms off a stored format and off that of the codec of T.
func trees[T any](stored, wanted Format) (from, to *schema.Schema, err error) {
	if from, err = schema.Parse(stored.ID, stored.Version, stored.Schema, stored.Size); err != nil {
		return nil, nil, err
	}
	if to, err = schema.Parse(wanted.ID, wanted.Version, wanted.Schema, wanted.Size); err != nil {
		return nil, nil, err
	}
	return from, to.For(reflect.TypeFor[T]()), nil
}

// reading encodes as a codec does, and decodes otherwise.
type reading[T any] struct {
	Codec[T]
	decode func(src []byte) (T, error)
}

func (r reading[T]) Decode(src []byte) (T, error) { return r.decode(src) }

func incompatible(stored, wanted Format, cause error) error {
	if cause != nil {
		return fmt.Errorf("%w: stored as %s, wanted as %s: %w", ErrIncompatible, stored.Describe(), wanted.Describe(), cause)
	}
	return fmt.Errorf("%w: stored as %s, wanted as %s", ErrIncompatible, stored.Describe(), wanted.Describe())
}

// Describe says in words what the format is, as a type of Go where it has one.
func (f Format) Describe() string {
	tree, err := schema.Parse(f.ID, f.Version, f.Schema, f.Size)
	if err != nil {
		return f.ID + " with a damaged schema"
	}
	return tree.String()
}
