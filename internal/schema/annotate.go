package schema

import (
	"reflect"
	"strings"
)

// For adds to a form what the Go type knows beyond it: other names of fields, by
// its avro tags, which fields are promoted out of embedded structs, and the
// ranges of integers. The form must be that of t.
func (s *Schema) For(t reflect.Type) *Schema {
	a := &annotator{avro: s.avro, seen: map[*Node]bool{}}
	a.node(s.Root.unboxed(), t)
	return s
}

type annotator struct {
	avro bool
	seen map[*Node]bool
}

var widths = map[reflect.Kind]Kind{
	reflect.Int8: Int8, reflect.Int16: Int16, reflect.Int32: Int32, reflect.Int: Int64, reflect.Int64: Int64,
	reflect.Uint8: Uint8, reflect.Uint16: Uint16, reflect.Uint32: Uint32,
}

func (a *annotator) node(n *Node, t reflect.Type) {
	switch n.Kind {
	case Small, Long:
		if n.ID == "" {
			n.width = widths[t.Kind()]
		}
	case Optional:
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		a.node(n.Elem, t)
	case Array, List, Map:
		if k := t.Kind(); k == reflect.Array || k == reflect.Slice || k == reflect.Map {
			if n.Kind == List && k == reflect.Array {
				n.length = t.Len()
			}
			a.node(n.Elem, t.Elem())
		}
	case Record:
		if t.Kind() == reflect.Struct && !a.seen[n] {
			a.seen[n] = true
			a.record(n, t, nil)
		}
	}
}

// record annotates the fields of a record that are those of t, a struct within
// outer ones whose fields are promoted.
func (a *annotator) record(n *Node, t reflect.Type, outer []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := parseTag(f.Tag.Get("avro"))
		if a.avro && (f.Anonymous && tag.name == "" || tag.inline) && f.Type.Kind() == reflect.Struct && n.field(f.Name) == nil {
			a.record(n, f.Type, append(outer[:len(outer):len(outer)], f.Name))
			continue
		}
		stored, other := f.Name, tag.name
		if a.avro && tag.name != "" {
			stored, other = tag.name, f.Name
		}
		field := n.field(stored)
		if field == nil || tag.name == "-" {
			continue
		}
		if other != "" && other != stored {
			field.aliases = append(field.aliases, other)
		}
		if !a.avro {
			field.aliases, field.preset = append(field.aliases, tag.aliases...), tag.preset
		}
		field.outer, field.embedded = outer, f.Anonymous || tag.inline
		a.node(field.Type, f.Type)
	}
}

func (n *Node) field(name string) *Field {
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return &n.Fields[i]
		}
	}
	return nil
}

// tag is the avro tag of a field: `avro:"name,alias=[a,b],default=1"`.
type tag struct {
	name    string
	inline  bool
	aliases []string
	preset  *string
}

func parseTag(text string) (t tag) {
	t.name, text = cutOption(text)
	for text != "" {
		if preset, ok := strings.CutPrefix(text, "default="); ok {
			t.preset = &preset
			return t
		}
		var option string
		option, text = cutOption(text)
		if option == "inline" {
			t.inline = true
		}
		if names, ok := strings.CutPrefix(option, "alias="); ok {
			names = strings.TrimSuffix(strings.TrimPrefix(names, "["), "]")
			t.aliases = append(t.aliases, strings.Split(names, ",")...)
		}
	}
	return t
}

// cutOption cuts at the first comma outside of brackets.
func cutOption(text string) (option, rest string) {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '[', '(':
			depth++
		case ']', ')':
			depth--
		case ',':
			if depth <= 0 {
				return text[:i], text[i+1:]
			}
		}
	}
	return text, ""
}
