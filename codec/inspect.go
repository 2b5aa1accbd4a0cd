package codec

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// shape is what inspect finds out about a type.
type shape struct {
	// needsJSON names the part that Avro, as inferred from types, has no form
	// for; "" if none.
	needsJSON string
	// tagged and untagged are time fields with and without a logical type of
	// Avro in their tag.
	tagged, untagged string
	// rule is a field whose tag says what it was or is without a stored value, and
	// what the tag is; "" if there is none. JSON would not know of it.
	rule string

	seen  map[reflect.Type]bool
	names map[string]reflect.Type
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
)

// inspect walks through a type. The error says which part of its values no
// general codec could keep.
func inspect(t reflect.Type) (*shape, error) {
	s := &shape{seen: map[reflect.Type]bool{}, names: map[string]reflect.Type{}}
	err := s.walk(t, t.String(), "")
	return s, err
}

func lost(path, why string) error {
	return fmt.Errorf("no default codec for %s: %s; give it a codec of its own", path, why)
}

func (s *shape) json(path, why string) {
	if s.needsJSON == "" {
		s.needsJSON = path + " is " + why
	}
}

func (s *shape) walk(t reflect.Type, path, tag string) error {
	if t == timeType || t == durationType {
		s.time(path, tag)
		return nil
	}
	if isTextual(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		if s.repeated(t) {
			return nil
		}
		if t.Kind() != reflect.Pointer && t.Elem().Kind() == reflect.Uint8 && isTextual(t.Elem()) {
			s.json(path, "a list of values of one byte that have names") // which Avro takes for bytes
		}
		return s.walk(t.Elem(), path, tag)
	case reflect.Map:
		return s.walkMap(t, path)
	case reflect.Struct:
		return s.walkStruct(t, path)
	case reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer,
		reflect.Complex64, reflect.Complex128, reflect.Uintptr:
		return lost(path, "a value of type "+t.String()+" cannot be stored")
	}
	return nil
}

// time notes a field whose default form in Avro would cut it to milliseconds.
func (s *shape) time(path, tag string) {
	if _, options, _ := strings.Cut(tag, ","); strings.Contains(options, "time") || strings.Contains(options, "date") {
		s.tagged = path
	} else {
		s.untagged = path
	}
}

// repeated marks a type as seen, which ends recursive ones.
func (s *shape) repeated(t reflect.Type) bool {
	seen := s.seen[t]
	s.seen[t] = true
	return seen
}

func (s *shape) walkMap(t reflect.Type, path string) error {
	if s.repeated(t) {
		return nil
	}
	switch kind := t.Key().Kind(); {
	case kind == reflect.String:
	case reflect.Int <= kind && kind <= reflect.Uint64, isTextual(t.Key()):
		s.json(path, "a map whose keys are not strings")
	default:
		return lost(path, "a map with keys of type "+t.Key().String()+" cannot be stored")
	}
	return s.walk(t.Elem(), path+"[]", "")
}

func (s *shape) walkStruct(t reflect.Type, path string) error {
	if s.repeated(t) {
		return nil
	}
	// Avro knows records by their name.
	if other, ok := s.names[t.Name()]; ok && other != t {
		s.json(path, "one of two types with the name "+t.Name())
	}
	s.names[t.Name()] = t
	if len(s.names) > 1 && recordName(t.Name()) != t.Name() {
		s.json(path, "a struct without a plain name")
	}
	for i := range t.NumField() {
		f := t.Field(i)
		at := path + "." + f.Name
		tag := f.Tag.Get("avro")
		if _, options, _ := strings.Cut(tag, ","); strings.Contains(options, "alias=") || strings.Contains(options, "default=") {
			s.rule = fmt.Sprintf("%s has the tag avro:%q", at, tag)
		}
		if tag == "-" {
			continue
		}
		if !f.IsExported() {
			return lost(at, `the field is not exported and would be lost (avro:"-" leaves it out on purpose)`)
		}
		if err := s.walk(f.Type, at, tag); err != nil {
			return err
		}
	}
	return nil
}

// recordName makes a name of a type, "Pair[int,string]", one of a record.
func recordName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if name == "" || '0' <= name[0] && name[0] <= '9' {
		return "_" + name
	}
	return name
}
