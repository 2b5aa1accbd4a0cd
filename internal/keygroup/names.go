package keygroup

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/weirstream/weir/codec"
)

// named is the name of the encoding of a key type with the names of fields:
// "struct{From string; To string}". They are no part of the encoding.
func named(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Array && t.Elem().Kind() != reflect.Uint8:
		return fmt.Sprintf("[%d]%s", t.Len(), named(t.Elem()))
	case t.Kind() == reflect.Struct:
		var fields []string
		for i := range t.NumField() {
			if f := t.Field(i); f.Name != "_" {
				fields = append(fields, f.Name+" "+named(f.Type))
			}
		}
		return "struct{" + strings.Join(fields, "; ") + "}"
	}
	id, _ := new(plan).add(t, 0) // which newPlan has accepted
	return id
}

// SameKeys tells whether keys stored in a format mean the same in another one.
// A field may have got another name, but not the place of another: it would
// be taken for that. Versions that stored no names cannot tell.
func SameKeys(stored, wanted codec.Format) bool {
	if stored.ID != wanted.ID || stored.Version != wanted.Version {
		return false
	}
	if stored.Schema == wanted.Schema {
		return true
	}
	if !strings.Contains(wanted.ID, "struct{") {
		return false
	}
	was, is := fieldNames(stored.Schema), fieldNames(wanted.Schema)
	if len(was) != len(is) {
		return stored.Schema == ""
	}
	var left []string
	for i := range was {
		if was[i] != is[i] {
			left = append(left, was[i])
		}
	}
	for i := range is {
		if was[i] != is[i] && slices.Contains(left, is[i]) {
			return false
		}
	}
	return true
}

// fieldNames are the words of a named form that a space follows.
func fieldNames(named string) (names []string) {
	word := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for part := range strings.SplitSeq(named, "{") {
		for field := range strings.SplitSeq(part, ";") {
			if name, _, ok := strings.Cut(strings.TrimLeft(field, " "), " "); ok && strings.IndexFunc(name, func(r rune) bool { return !word(r) }) < 0 {
				names = append(names, name)
			}
		}
	}
	return names
}
