package codec

import (
	"encoding"
	stdjson "encoding/json"
	"reflect"
	"slices"
	"strings"
)

// needsStandard says whether values of a type must go through encoding/json,
// because the library writes or reads something else for them:
//
//   - pointers to pointers to what has hooks: it writes an address, or crashes;
//   - the option string: it reads "NaN" and "+1", and gives hooks raw text;
//   - hooks with pointer receivers in what is not addressable, the keys and
//     values of maps: it calls them.
//
// Values that interfaces hold are not known here.
func needsStandard(t reflect.Type) bool { return standardWalk{}.needs(t, true) }

// standardWalk has what was visited, so that recursive types end.
type standardWalk map[standardVisit]bool

type standardVisit struct {
	t           reflect.Type
	addressable bool
}

func (w standardWalk) needs(t reflect.Type, addressable bool) bool {
	visit := standardVisit{t, addressable}
	if w[visit] {
		return false
	}
	w[visit] = true
	if !addressable && hasPointerHook(t) {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner := t.Elem()
		return inner.Kind() == reflect.Pointer && hasJSONHook(pointed(inner)) || w.needs(inner, true)
	case reflect.Slice:
		return w.needs(t.Elem(), true)
	case reflect.Array:
		return w.needs(t.Elem(), addressable)
	case reflect.Map:
		return w.needs(t.Key(), false) || w.needs(t.Elem(), false)
	case reflect.Struct:
		for i := range t.NumField() {
			if w.fieldNeeds(t.Field(i), addressable) {
				return true
			}
		}
	}
	return false
}

func (w standardWalk) fieldNeeds(f reflect.StructField, addressable bool) bool {
	tag := f.Tag.Get("json")
	if tag == "-" || !f.IsExported() && !f.Anonymous {
		return false
	}
	_, options, _ := strings.Cut(tag, ",")
	return slices.Contains(strings.Split(options, ","), "string") || w.needs(f.Type, addressable)
}

// pointed returns what a chain of pointers ends at.
func pointed(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// hasPointerHook says whether only the pointer to a type writes itself.
func hasPointerHook(t reflect.Type) bool {
	for _, h := range []reflect.Type{reflect.TypeFor[stdjson.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if reflect.PointerTo(t).Implements(h) && !t.Implements(h) {
			return true
		}
	}
	return false
}
