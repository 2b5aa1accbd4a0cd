package state

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/fixed"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

// ErrNil is returned when a nil pointer is to be kept in state: state holds
// values, and nil is none.
var ErrNil = errors.New("state: nil cannot be kept; use Clear or leave it out")

// class is how values of a type lie in state memory.
type class uint8

const (
	// inline values lie in the slot as they lie in Go memory.
	inline class = iota
	// block values are as inline ones, but too large: the slot holds the
	// handle of an arena block.
	block
	// str and byt are strings and byte slices, as a text.
	str
	byt
	// coded values are encoded, as a text.
	coded
)

// maxInline is the size in bytes up to which a value is inline.
const maxInline = 48

// form is how values of T lie in a slot of state memory and in snapshots. A
// slot that is empty owns nothing; its bytes are then undefined.
type form[T any] struct {
	class class
	// slot is the size of a slot, a multiple of 8; mem that of a T, at least 1.
	slot, mem uintptr
	// layout is that of values without pointers, nil for others.
	layout *fixed.Layout
	codec  codec.Codec[T]
	// nilable values are pointers or interfaces.
	nilable bool
	// fresh makes an accumulator of no record; nil for other values.
	fresh func(*T)
	// format is the encoding in snapshots.
	format codec.Format
	// scratch is where values are encoded, on the owner's goroutine only.
	scratch []byte
}

// newForm settles the form of T; c overrides the default unless it is nil.
func newForm[T any](c codec.Codec[T]) (form[T], error) {
	t := reflect.TypeFor[T]()
	nilable := nilable(t)
	if c != nil {
		return form[T]{class: coded, slot: textSize, codec: c, nilable: nilable, format: c.Format()}, nil
	}
	if !holdsNames(t) {
		if f, err := memoryForm[T](); err == nil {
			return f, nil
		}
	}
	switch {
	case t.Kind() == reflect.String:
		return form[T]{class: str, slot: textSize, format: codec.Format{ID: "string", Version: 1}}, nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !named(t.Elem()):
		return form[T]{class: byt, slot: textSize, format: codec.Format{ID: "bytes", Version: 1}}, nil
	case t.Kind() == reflect.Interface:
		return form[T]{}, fmt.Errorf("values of the interface type %v cannot be decoded; name a concrete type or give a Codec", t)
	}
	c, err := codec.For[T]()
	if err != nil {
		return form[T]{}, fmt.Errorf("values of type %v cannot be encoded: %w", t, err)
	}
	return form[T]{class: coded, slot: textSize, codec: c, nilable: nilable, format: c.Format()}, nil
}

// formOf settles the form of the values of a state by its options.
func formOf[T any](o options) (form[T], error) {
	given, err := codecOf[T](o.codec)
	if err != nil {
		return form[T]{}, err
	}
	if err := o.migrations.check(reflect.TypeFor[T]()); err != nil {
		return form[T]{}, err
	}
	return newForm(given)
}

// named tells that values of an integer type have names, which are what is to
// be stored: numbers change when a constant is put in front of others.
func named(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr &&
		p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) &&
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// holdsNames tells that a value of a type without pointers has parts that have
// names.
func holdsNames(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return holdsNames(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsNames(t.Field(i).Type) {
				return true
			}
		}
		return false
	}
	return named(t)
}

// accumulatorForm is the form of accumulators, which lie in memory as they are:
// parts that have names, too.
func accumulatorForm[Acc any]() (form[Acc], error) {
	if reflect.TypeFor[Acc]() == reflect.TypeFor[[]byte]() {
		return newForm[Acc](nil)
	}
	f, err := memoryForm[Acc]()
	if err != nil {
		err = fmt.Errorf("accumulator: %w; keep it in a []byte", err)
	}
	return f, err
}

// memoryForm is the form of a T without pointers as it lies in memory.
func memoryForm[T any]() (form[T], error) {
	t := reflect.TypeFor[T]()
	l, err := fixed.Of(t)
	if err != nil {
		return form[T]{}, err
	}
	f := form[T]{class: inline, layout: l, mem: max(t.Size(), 1), format: codec.Format{ID: l.String(), Version: 1, Size: l.Size()}}
	f.slot = align8(f.mem)
	if t.Size() > maxInline {
		f.class, f.slot = block, 8
	}
	if k := t.Kind(); k == reflect.Struct || k == reflect.Array {
		f.format.ID, f.format.Schema = k.String(), l.String()
	}
	return f, nil
}

// put stores v in a slot; held tells that the slot holds a value. On an error
// that value stays.
func (f *form[T]) put(p unsafe.Pointer, a *memory.Arena, held bool, v T) error {
	switch f.class {
	case inline:
		*(*T)(p) = v
		return nil
	case block:
		*(*T)(f.room(p, a, held)) = v
		return nil
	}
	b, err := f.bytes(&v)
	if err != nil {
		return err
	}
	if held {
		textAt(p).set(a, b)
	} else {
		textAt(p).init(a, b, len(b))
	}
	return nil
}

// bytes returns what of a value goes into a text, good until the next call.
func (f *form[T]) bytes(v *T) ([]byte, error) {
	switch f.class {
	case str:
		s := *(*string)(unsafe.Pointer(v))
		return unsafe.Slice(unsafe.StringData(s), len(s)), nil
	case byt:
		return *(*[]byte)(unsafe.Pointer(v)), nil
	}
	if f.nilable && isNil(v) {
		return nil, ErrNil
	}
	b, err := f.codec.Append(f.scratch[:0], *v)
	if err != nil {
		return nil, fmt.Errorf("state: encode a %s: %w", typeName[T](), err)
	}
	if cap(b) <= maxScratch {
		f.scratch = b
	}
	if f.format.Size > 0 && len(b) != f.format.Size {
		return nil, fmt.Errorf("state: the codec of %s says that it writes %d bytes, and wrote %d", typeName[T](), f.format.Size, len(b))
	}
	return b, nil
}

// maxScratch is the largest buffer kept for the next encoding, in bytes.
const maxScratch = 1 << 20

func nilable(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface
}

// isNil tells whether a value of a nilable type is nil.
func isNil[T any](v *T) bool { return *(*unsafe.Pointer)(unsafe.Pointer(v)) == nil }

// decode is the inverse of bytes; the value does not alias b.
func (f *form[T]) decode(b []byte) (T, error) {
	switch f.class {
	case str:
		s := string(b)
		return *(*T)(unsafe.Pointer(&s)), nil
	case byt:
		c := append(make([]byte, 0, len(b)), b...)
		return *(*T)(unsafe.Pointer(&c)), nil
	}
	v, err := f.codec.Decode(b)
	if err != nil {
		return v, fmt.Errorf("state: decode a %s: %w", typeName[T](), err)
	}
	return v, nil
}

// get reads the value that a slot holds.
func (f *form[T]) get(p unsafe.Pointer, a *memory.Arena) (T, error) {
	switch f.class {
	case inline:
		return *(*T)(p), nil
	case block:
		return *(*T)(f.blockAt(p, a)), nil
	}
	return f.decode(textAt(p).bytes(a))
}

func (f *form[T]) blockAt(p unsafe.Pointer, a *memory.Arena) unsafe.Pointer {
	return start(a.Bytes(*(*memory.Handle)(p), int(f.mem)))
}

// room returns where the value of a slot of class inline or block may be
// written. What a block held is kept.
func (f *form[T]) room(p unsafe.Pointer, a *memory.Arena, held bool) unsafe.Pointer {
	if f.class == inline {
		return p
	}
	h := (*memory.Handle)(p)
	switch {
	case !held:
		*h = a.Alloc(int(f.mem))
	case !a.Writable(*h):
		own := a.Alloc(int(f.mem))
		copy(a.Bytes(own, int(f.mem)), a.Bytes(*h, int(f.mem)))
		a.Free(*h)
		*h = own
	}
	return f.blockAt(p, a)
}

// drop gives back what the value of a slot owns.
func (f *form[T]) drop(p unsafe.Pointer, a *memory.Arena) {
	switch f.class {
	case inline:
	case block:
		a.Free(*(*memory.Handle)(p))
	default:
		textAt(p).drop(a)
	}
}

// append appends the encoded form of the value of a slot, for a snapshot.
func (f *form[T]) append(dst []byte, p unsafe.Pointer, v memory.View) []byte {
	switch f.class {
	case inline:
		return f.layout.Append(dst, p)
	case block:
		return f.layout.Append(dst, start(v.Bytes(*(*memory.Handle)(p), int(f.mem))))
	}
	return append(dst, textAt(p).frozen(v)...)
}

// appendItem is append with the length in front, unless it is fixed.
func (f *form[T]) appendItem(dst []byte, p unsafe.Pointer, v memory.View) []byte {
	if f.format.Size > 0 {
		return f.append(dst, p, v)
	}
	return snapshot.AppendItem(dst, 0, textAt(p).frozen(v))
}

// load decodes exactly src into a slot that is empty.
func (f *form[T]) load(src []byte, p unsafe.Pointer, a *memory.Arena) error {
	if f.format.Size > 0 && len(src) != f.format.Size {
		return fmt.Errorf("%d bytes where a %s has %d", len(src), typeName[T](), f.format.Size)
	}
	if f.layout == nil {
		textAt(p).init(a, src, len(src))
		return nil
	}
	to := f.room(p, a, false)
	err := f.layout.Load(to, src)
	if err != nil {
		f.drop(p, a)
	}
	return err
}

// touch loads a word of what the slot points at, of a block the last one, too:
// the processor fetches lines in pairs.
func (f *form[T]) touch(p unsafe.Pointer, v memory.View) byte {
	if f.class == block {
		b := v.Bytes(*(*memory.Handle)(p), int(f.mem))
		return b[0] + b[len(b)-1]
	}
	return textAt(p).touch(v)
}

var errTruncated = errors.New("the bytes end within a value")

func start(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

func align8(n uintptr) uintptr { return (n + 7) &^ 7 }

func typeName[T any]() string { return reflect.TypeFor[T]().String() }
