package avro

import (
	"fmt"
	"reflect"
	"strings"

	goavro "github.com/twmb/avro"
)

// project returns the schema that decodes what was written by writer, and
// leaves out the fields that a value of type t has no place for.
func project(writer *goavro.Schema, t reflect.Type) (*goavro.Schema, error) {
	root := writer.Root()
	narrow(root, t)
	reader, err := root.Schema()
	if err == nil {
		reader, err = goavro.Resolve(writer, reader)
	}
	if err != nil {
		return nil, fmt.Errorf("its schema and %s: %w", t, err)
	}
	return reader, nil
}

// narrow takes out of a schema the fields that t does not have.
func narrow(n *goavro.SchemaNode, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Type == "union":
		for i := range n.Branches {
			narrow(&n.Branches[i], t)
		}
	case n.Type == "array" && t.Kind() == reflect.Slice:
		narrow(n.Items, t.Elem())
	case n.Type == "map" && t.Kind() == reflect.Map:
		narrow(n.Values, t.Elem())
	case (n.Type == "record" || n.Type == "error") && t.Kind() == reflect.Struct:
		places := map[string]reflect.Type{}
		placesOf(t, places)
		var kept []goavro.SchemaField
		for _, f := range n.Fields {
			if place, ok := places[f.Name]; ok {
				narrow(&f.Type, place)
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
