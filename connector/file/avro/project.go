package avro

import (
	"fmt"
	"reflect"
	"strings"

	goavro "github.com/twmb/avro"
)

// project returns the schema that decodes what was written by writer, and
// leaves out the fields that a value of type t has no place for. whole says that
// some are still in it, and have to be skipped while decoding.
func project(writer *goavro.Schema, t reflect.Type) (reader *goavro.Schema, whole bool, err error) {
	root := writer.Root()
	p := projection{referred: map[string]bool{}}
	p.collect(root)
	p.narrow(root, t)
	reader, err = root.Schema()
	if err == nil {
		reader, err = goavro.Resolve(writer, reader)
	}
	if err != nil {
		return nil, false, fmt.Errorf("its schema and %s: %w", t, err)
	}
	return reader, len(p.referred) > 0, nil
}

// projection takes out of a schema the fields that a type does not have. A
// definition that other places refer to stays as it is: there it may be read as
// another type.
type projection struct{ referred map[string]bool }

// collect finds the names of types that are referred to.
func (p *projection) collect(n *goavro.SchemaNode) {
	if n == nil {
		return
	}
	switch n.Type {
	case "null", "boolean", "int", "long", "float", "double", "bytes", "string", "record", "error", "enum", "array", "map", "fixed", "union":
	default:
		p.referred[n.Type] = true
	}
	eachWithin(n, p.collect)
}

// eachWithin calls f with what a node is made of.
func eachWithin(n *goavro.SchemaNode, f func(*goavro.SchemaNode)) {
	for i := range n.Fields {
		f(&n.Fields[i].Type)
	}
	for i := range n.Branches {
		f(&n.Branches[i])
	}
	if n.Items != nil {
		f(n.Items)
	}
	if n.Values != nil {
		f(n.Values)
	}
}

func (p *projection) isReferred(n *goavro.SchemaNode) bool {
	return n.Name != "" && (p.referred[n.Name] || p.referred[n.Namespace+"."+n.Name])
}

// defines says whether a definition that others refer to lies in n.
func (p *projection) defines(n *goavro.SchemaNode) bool {
	found := p.isReferred(n)
	eachWithin(n, func(within *goavro.SchemaNode) { found = found || p.defines(within) })
	return found
}

func (p *projection) narrow(n *goavro.SchemaNode, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Type == "union":
		for i := range n.Branches {
			p.narrow(&n.Branches[i], t)
		}
	case n.Type == "array" && t.Kind() == reflect.Slice:
		p.narrow(n.Items, t.Elem())
	case n.Type == "map" && t.Kind() == reflect.Map:
		p.narrow(n.Values, t.Elem())
	case (n.Type == "record" || n.Type == "error") && t.Kind() == reflect.Struct && !p.isReferred(n):
		places := map[string]reflect.Type{}
		placesOf(t, places)
		var kept []goavro.SchemaField
		for _, f := range n.Fields {
			place, ok := places[f.Name]
			if ok {
				p.narrow(&f.Type, place)
			}
			if ok || p.defines(&f.Type) {
				kept = append(kept, f)
			}
		}
		n.Fields = kept
	}
}

// placesOf collects the fields of a struct by their names in Avro.
func placesOf(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("avro"), ",")
		inner := f.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		inlined := f.Anonymous && name == "" || options == "inline" || strings.HasPrefix(options, "inline,")
		switch {
		case name == "-":
		case inlined && inner.Kind() == reflect.Struct:
			placesOf(inner, into)
		case !f.IsExported():
		case name != "":
			into[name] = f.Type
		default:
			into[f.Name] = f.Type
		}
	}
}
