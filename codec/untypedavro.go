package codec

import (
	"fmt"

	"github.com/twmb/avro"
)

// untypedAvro decodes by the stored schema alone.
func untypedAvro(schema string) (Decoder, bool) {
	s, err := avro.Parse(schema, customTypes(true)...)
	if err != nil {
		return nil, false
	}
	root := s.Root()
	// See box.
	boxed := root.Type == "record" && root.Name == "value" && len(root.Fields) == 1 && root.Fields[0].Name == "value"
	order := avroOrder{named: map[string]*avro.SchemaNode{}}
	order.collect(root, 0)
	return func(src []byte) (v any, err error) {
		defer func() {
			// The library sees bytes that nobody has looked at.
			if p := recover(); p != nil {
				v, err = nil, &DecodeError{Format: "avro", Err: fmt.Errorf("panic: %v", p)}
			}
		}()
		rest, err := s.Decode(src, &v)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("%d bytes too many", len(rest))
		}
		if err != nil {
			return nil, &DecodeError{Format: "avro", Offset: len(src) - len(rest), Err: err}
		}
		v = order.value(root, v)
		if r, ok := v.(Record); ok && boxed {
			v = r[0].Value
		}
		return v, nil
	}, true
}

// avroOrder puts the fields of records in the order of the schema.
type avroOrder struct{ named map[string]*avro.SchemaNode }

func fullName(n *avro.SchemaNode) string {
	if n.Namespace != "" {
		return n.Namespace + "." + n.Name
	}
	return n.Name
}

// collect finds the named types, to which others refer.
func (o avroOrder) collect(n *avro.SchemaNode, depth int) {
	if n == nil || depth > maxLayoutDepth {
		return
	}
	if n.Type == "record" {
		o.named[fullName(n)] = n
	}
	for i := range n.Fields {
		o.collect(&n.Fields[i].Type, depth+1)
	}
	o.collect(n.Items, depth+1)
	o.collect(n.Values, depth+1)
	for i := range n.Branches {
		o.collect(&n.Branches[i], depth+1)
	}
}

func (o avroOrder) value(n *avro.SchemaNode, v any) any {
	if known := o.named[n.Type]; known != nil {
		n = known
	}
	switch v := v.(type) {
	case map[string]any:
		return o.object(n, v)
	case []any:
		item := n
		if n.Type == "union" {
			item = branch(n, "array", o)
		}
		if item == nil || item.Items == nil {
			return v
		}
		for i := range v {
			v[i] = o.value(item.Items, v[i])
		}
	}
	return v
}

// object is a record or a map.
func (o avroOrder) object(n *avro.SchemaNode, v map[string]any) any {
	if n.Type == "union" {
		record, values := branch(n, "record", o), branch(n, "map", o)
		if n = record; n == nil {
			n = values
		}
	}
	switch {
	case n == nil:
		return v
	case n.Type == "record":
		out := make(Record, 0, len(n.Fields))
		for i := range n.Fields {
			f := &n.Fields[i]
			out = append(out, Field{f.Name, o.value(&f.Type, v[f.Name])})
		}
		return out
	case n.Values != nil:
		for k := range v {
			v[k] = o.value(n.Values, v[k])
		}
	}
	return v
}

// branch finds the branch of a union that is of a type.
func branch(n *avro.SchemaNode, kind string, o avroOrder) *avro.SchemaNode {
	for i := range n.Branches {
		b := &n.Branches[i]
		if known := o.named[b.Type]; known != nil {
			b = known
		}
		if b.Type == kind {
			return b
		}
	}
	return nil
}
