package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/schema"
	"github.com/weirstream/weir/internal/snapshot"
)

// conversion is how one stored value becomes one of a form.
type conversion struct {
	// size is that of stored values, 0 if it varies.
	size int
	// append is nil if the bytes are the same.
	append func(dst, src []byte) ([]byte, error)
	notes  []string
}

// from returns how values stored in a format become those of the form. chain
// are the user's migrations.
func (f *form[T]) from(stored codec.Format, chain migrations) (conversion, error) {
	if entry.SameFormat(stored, f.format) && (stored.Size == 0 || stored.Size == f.format.Size) {
		return conversion{size: f.format.Size}, nil
	}
	m, exact := chain.to(reflect.TypeFor[T](), stored)
	if exact {
		return f.migrated(stored, m, chain)
	}
	c, err := f.resolved(stored)
	if err == nil || m == nil {
		return c, err
	}
	c, merr := f.migrated(stored, m, chain)
	if merr != nil {
		return conversion{}, fmt.Errorf("%w; nor can it be migrated: %w", err, merr)
	}
	return c, nil
}

// resolved is from without migrations of the user.
func (f *form[T]) resolved(stored codec.Format) (conversion, error) {
	if r, ok := f.codec.(codec.Resolver[T]); ok {
		c, err := r.Resolve(stored)
		if err != nil {
			return conversion{}, err
		}
		return f.through(sizeOf(stored, f.format), c.Decode), nil
	}
	if stored.ID == "json" && stored.Version == 1 {
		return f.through(0, codec.JSON[T]().Decode), nil
	}
	if stored.ID == f.format.ID && stored.Size == 0 {
		stored.Size = f.format.Size // that of elements is not stored
	}
	from, err := schema.Parse(stored.ID, stored.Version, stored.Schema, stored.Size)
	if err != nil {
		return conversion{}, err
	}
	to, err := schema.Parse(f.format.ID, f.format.Version, f.format.Schema, f.format.Size)
	if err != nil {
		return conversion{}, err
	}
	if !from.Known() || !to.Known() {
		return conversion{}, errOtherForm
	}
	conv, err := schema.Convert(from, to.For(reflect.TypeFor[T]()), f.freshBytes())
	if err != nil {
		return conversion{}, err
	}
	c := conversion{size: from.Size(), notes: conv.Notes}
	if !conv.Same {
		c.append = conv.Append
	}
	return c, nil
}

var errOtherForm = errors.New("no rule makes the one of the other")

// sizeOf is the size of stored values of a codec of one's own.
func sizeOf(stored, wanted codec.Format) int {
	if tree, err := schema.Parse(stored.ID, stored.Version, stored.Schema, stored.Size); err == nil && tree.Known() {
		return tree.Size()
	}
	if stored.ID == wanted.ID {
		return wanted.Size
	}
	return stored.Size
}

// freshBytes is the encoding of the value that fields which are not stored are
// taken from.
func (f *form[T]) freshBytes() []byte {
	if f.fresh == nil || f.layout == nil {
		return nil
	}
	var v T
	f.fresh(&v)
	return f.layout.Append(nil, unsafe.Pointer(&v))
}

// through converts by decoding and encoding again.
func (f *form[T]) through(size int, decode func([]byte) (T, error)) conversion {
	return conversion{size: size, append: func(dst, src []byte) ([]byte, error) {
		v, err := decode(src)
		if err != nil {
			return dst, err
		}
		return f.encode(dst, v)
	}}
}

// encode appends a value as it is in a snapshot.
func (f *form[T]) encode(dst []byte, v T) ([]byte, error) {
	switch f.class {
	case inline, block:
		return f.layout.Append(dst, unsafe.Pointer(&v)), nil
	}
	b, err := f.bytes(&v)
	if err != nil {
		return dst, err
	}
	return append(dst, b...), nil
}

// value is the inverse of encode.
func (f *form[T]) value(src []byte) (v T, err error) {
	switch f.class {
	case inline, block:
		err = f.layout.Load(unsafe.Pointer(&v), src)
		return v, err
	}
	return f.decode(src)
}

var errMapKey = errors.New("the keys of a map cannot change their type")

// sameKeys tells whether the keys of maps are encoded as they were: the name of
// their type in a schema may be another one.
func sameKeys(stored, wanted codec.Format) bool {
	if keygroup.SameKeys(stored, wanted) {
		return true
	}
	if stored.ID != wanted.ID || stored.Version != wanted.Version {
		return false
	}
	from, err := schema.Parse(stored.ID, stored.Version, stored.Schema, stored.Size)
	if err != nil || !from.Known() {
		return false
	}
	to, err := schema.Parse(wanted.ID, wanted.Version, wanted.Schema, wanted.Size)
	if err != nil || !to.Known() {
		return false
	}
	conv, err := schema.Convert(from, to, nil)
	return err == nil && conv.Same
}

// convert is entry.Field.Convert.
func (c *single[T]) convert(stored snapshot.State) (entry.Conversion, error) {
	format := stored.Format
	if stored.TTL && format.Size > 0 {
		format.Size -= timeSize
	}
	conv, err := c.form.accumulator(format, stored.Detail == c.f.Detail, c.migrations)
	return conv.field(stored.TTL, func(dst, src []byte) ([]byte, error) { return conv.append(dst, src) }), err
}

// accumulator is from for an accumulator, which another aggregate has stored
// unless same.
func (f *form[T]) accumulator(stored codec.Format, same bool, chain migrations) (conversion, error) {
	if same {
		return f.from(stored, chain)
	}
	if m := chain.last(reflect.TypeFor[T]()); m != nil {
		return f.migrated(stored, m, chain)
	}
	return conversion{}, errDetail
}

// Accumulator is how accumulators stored in a format become those of the type
// Acc. same tells that the same aggregate has stored them; fresh makes one of no
// record. It returns the size of stored ones, 0 if it varies, and what
// appends one in its present form, nil if that is what is stored. It is for the
// engine.
func Accumulator[Acc any](stored codec.Format, same bool, fresh func(*Acc), opts ...Option) (size int, conv entry.Conversion, err error) {
	f, err := accumulatorForm[Acc]()
	if err != nil {
		return 0, conv, err
	}
	f.fresh = fresh
	c, err := f.accumulator(stored, same, collect(opts).migrations)
	return c.size, entry.Conversion{Append: c.append, Notes: c.notes}, err
}

// CheckMigrations tells whether the options of Migrate lead to a T. It is for the
// engine.
func CheckMigrations[T any](opts ...Option) error {
	o := collect(opts)
	if o.err != nil {
		return o.err
	}
	return o.migrations.check(reflect.TypeFor[T]())
}

var errDetail = errors.New("an aggregate cannot become another one")

// field makes the conversion of a field of that of its parts. each is given
// what follows the time of a timed value.
func (c conversion) field(timed bool, each func(dst, src []byte) ([]byte, error)) entry.Conversion {
	if c.append == nil {
		return entry.Conversion{Notes: c.notes}
	}
	return entry.Conversion{Notes: c.notes, Append: func(dst, src []byte) ([]byte, error) {
		if timed {
			if len(src) < timeSize {
				return dst, errTruncated
			}
			dst, src = append(dst, src[:timeSize]...), src[timeSize:]
		}
		return each(dst, src)
	}}
}

func (c *listCell[T]) convert(stored snapshot.State) (entry.Conversion, error) {
	conv, err := c.form.from(stored.Format, c.migrations)
	if err != nil {
		return entry.Conversion{}, err
	}
	return conv.field(false, func(dst, src []byte) ([]byte, error) {
		return conv.parts(dst, src, stored.TTL, -1, c.form.format.Size)
	}), nil
}

func (c *mapCell[K, V]) convert(stored snapshot.State) (entry.Conversion, error) {
	if !sameKeys(stored.Key, c.key.format) {
		return entry.Conversion{}, errMapKey
	}
	conv, err := c.form.from(stored.Format, c.migrations)
	if err != nil {
		return entry.Conversion{}, err
	}
	return conv.field(false, func(dst, src []byte) ([]byte, error) {
		return conv.parts(dst, src, stored.TTL, c.key.size, c.form.format.Size)
	}), nil
}

// parts converts the elements of a list, or the entries of a map with keys of
// keySize bytes, 0 if that varies; a list has -1. size is that of the new
// values.
func (c conversion) parts(dst, src []byte, timed bool, keySize, size int) ([]byte, error) {
	n, src, err := countOf(src)
	if err != nil {
		return dst, err
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	var converted []byte
	for i := range n {
		if timed {
			if len(src) < timeSize {
				return dst, errTruncated
			}
			dst, src = append(dst, src[:timeSize]...), src[timeSize:]
		}
		var part []byte
		if keySize >= 0 {
			if part, src, err = snapshot.Item(src, keySize); err != nil {
				return dst, err
			}
			dst = snapshot.AppendItem(dst, keySize, part)
		}
		if part, src, err = snapshot.Item(src, c.size); err != nil {
			return dst, err
		}
		if converted, err = c.append(converted[:0], part); err != nil {
			return dst, fmt.Errorf("element %d: %w", i, err)
		}
		dst = snapshot.AppendItem(dst, size, converted)
	}
	if len(src) > 0 {
		return dst, fmt.Errorf("%d bytes follow the last element", len(src))
	}
	return dst, nil
}
