package codec

import (
	"encoding"
	stdjson "encoding/json"
	"reflect"
	"strings"
	"unsafe"
)

// plan is how a plain struct is written to and read from JSON: without
// reflection, by the offsets of its fields. Types that a plan does not cover,
// and inputs that are in any way out of the ordinary, are left to the library.
type plan struct {
	fields []planField
	// lengths has bit n set if some name has n bytes.
	lengths uint64
	// texts are the offsets of all string fields, those of nested structs
	// included.
	texts []uintptr
}

// planField is a field: a plain kind, or a nested struct with a plan.
type planField struct {
	offset    uintptr
	kind      reflect.Kind
	omitEmpty bool
	index     int // in the plan
	name      string
	member    string // "name":
	nested    *plan
	// word are the first 8 bytes of member, mask those of them there are.
	word, mask uint64
}

var jsonHooks = []reflect.Type{
	reflect.TypeFor[stdjson.Marshaler](), reflect.TypeFor[stdjson.Unmarshaler](),
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}

// planFor returns the plan of a struct type, nil where the library is needed.
func planFor(t reflect.Type) *plan {
	if t.Kind() != reflect.Struct || hasJSONHook(t) {
		return nil
	}
	p := &plan{}
	names := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		switch {
		case f.Anonymous:
			return nil
		case !f.IsExported() || tag == "-":
			continue
		}
		field, ok := planFieldFor(f, tag)
		folded := strings.ToLower(field.name)
		if !ok || names[folded] {
			return nil
		}
		names[folded] = true
		p.add(field)
	}
	return p
}

func planFieldFor(f reflect.StructField, tag string) (planField, bool) {
	name, options, _ := strings.Cut(tag, ",")
	if name == "" {
		name = f.Name
	}
	field := planField{offset: f.Offset, kind: f.Type.Kind(), name: name, member: `"` + name + `":`, omitEmpty: options == "omitempty"}
	if !isPlainName(name) || options != "" && !field.omitEmpty || hasJSONHook(f.Type) || f.Type == reflect.TypeFor[stdjson.Number]() {
		return field, false
	}
	switch field.kind {
	case reflect.Struct:
		field.nested = planFor(f.Type)
		return field, field.nested != nil
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return field, true
	}
	return field, false
}

func (p *plan) add(f planField) {
	f.index = len(p.fields)
	for i := range min(8, len(f.member)) {
		f.word |= uint64(f.member[i]) << (8 * i)
		f.mask |= 0xFF << (8 * i)
	}
	p.fields = append(p.fields, f)
	p.lengths |= 1 << len(f.name)
	if f.kind == reflect.String {
		p.texts = append(p.texts, f.offset)
	}
	if f.nested != nil {
		for _, o := range f.nested.texts {
			p.texts = append(p.texts, f.offset+o)
		}
	}
}

// isPlainName says whether a name is the same in Go and in JSON.
func isPlainName(name string) bool {
	for _, c := range []byte(name) {
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return len(name) > 0 && len(name) < 64
}

func hasJSONHook(t reflect.Type) bool {
	for _, h := range jsonHooks {
		if reflect.PointerTo(t).Implements(h) {
			return true
		}
	}
	return false
}

// find returns the field of a name of ASCII characters, nil if there is none.
// It gives up on a name that may be a field's but for its case.
func (p *plan) find(name []byte) (f *planField, ok bool) {
	if len(name) >= 64 || p.lengths&(1<<len(name)) == 0 {
		return nil, true
	}
	ok = true
	for i := range p.fields {
		if !alike(p.fields[i].name, name) {
			continue
		}
		if string(name) == p.fields[i].name {
			return &p.fields[i], true
		}
		ok = false
	}
	return nil, ok
}

// alike compares without regard to the bit that tells case in letters.
func alike(a string, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range b {
		if (a[i]^b[i])&^0x20 != 0 {
			return false
		}
	}
	return true
}

// own copies the strings of n values of a size, which alias what they were
// read from, into one block of memory.
func (p *plan) own(base unsafe.Pointer, n int, size uintptr) {
	total := 0
	for i := range uintptr(n) {
		for _, o := range p.texts {
			total += len(*(*string)(unsafe.Add(base, i*size+o)))
		}
	}
	block := make([]byte, 0, total)
	for i := range uintptr(n) {
		for _, o := range p.texts {
			s := (*string)(unsafe.Add(base, i*size+o))
			from := len(block)
			block = append(block, *s...)
			*s = unsafe.String(unsafe.SliceData(block[from:]), len(*s))
		}
	}
}
