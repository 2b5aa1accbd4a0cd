package registry

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/avro"
)

// readAs returns the schema that decodes what was written by writer into values
// whose own schema is own, nil for values that take what comes.
//
// It is the writer's, so that names of types, logical types and unions agree,
// but for fields that have another name now and those that the writer lacks and
// that have a default.
func readAs(writer, own *avro.Schema) (*avro.Schema, error) {
	if own == nil {
		return writer, nil
	}
	root, mine := writer.Root(), own.Root()
	m := merger{
		writers: definitions(root), own: definitions(mine), seen: map[pair]bool{},
		names: map[*avro.SchemaField]string{}, added: map[*avro.SchemaNode][]avro.SchemaField{},
	}
	if err := m.merge(root, mine); err != nil {
		return nil, err
	}
	if root.Type != "record" {
		return nil, fmt.Errorf("it is of type %s, not a record", root.Type)
	}
	if m.shared == 0 && len(root.Fields) > 0 && len(mine.Fields) > 0 {
		return nil, errors.New("they have no field in common; are the fields named as in the schema (tag avro:\"name\")?")
	}
	if !m.changed() {
		return writer, nil
	}
	m.apply()
	reader, err := root.Schema()
	if err != nil {
		return nil, err
	}
	return avro.Resolve(writer, reader)
}

// merger brings what a type says of its fields into a writer's schema.
type merger struct {
	writers, own types
	seen         map[pair]bool
	shared       int // fields of the outermost record that both have

	names map[*avro.SchemaField]string // what fields of the writer are called here
	added map[*avro.SchemaNode][]avro.SchemaField
}

type pair struct{ writer, own *avro.SchemaNode }

// types are the definitions of a tree's records, to which other places of it
// may refer.
type types struct {
	byName  map[string]*avro.SchemaNode
	inOrder []*avro.SchemaNode // outer ones before those within them
}

func definitions(root *avro.SchemaNode) types {
	found := types{byName: map[string]*avro.SchemaNode{}}
	var walk func(n *avro.SchemaNode)
	walk = func(n *avro.SchemaNode) {
		if n == nil {
			return
		}
		if n.Type == "record" || n.Type == "error" {
			found.byName[fullName(n)] = n
			found.inOrder = append(found.inOrder, n)
		}
		for i := range n.Fields {
			walk(&n.Fields[i].Type)
		}
		for i := range n.Branches {
			walk(&n.Branches[i])
		}
		walk(n.Items)
		walk(n.Values)
	}
	walk(root)
	return found
}

func fullName(n *avro.SchemaNode) string {
	if n.Namespace == "" {
		return n.Name
	}
	return n.Namespace + "." + n.Name
}

// merge walks both trees where they have the same shape. What has not is left to
// decoding, which tells of the field.
func (m *merger) merge(writer, own *avro.SchemaNode) error {
	writer, own = m.writers.follow(writer), m.own.follow(own)
	switch {
	case writer == nil || own == nil:
		return nil
	case own.Type == "union":
		for i := range own.Branches {
			if err := m.merge(writer, &own.Branches[i]); err != nil {
				return err
			}
		}
	case writer.Type == "union":
		for i := range writer.Branches {
			if err := m.merge(&writer.Branches[i], own); err != nil {
				return err
			}
		}
	case writer.Type == "array" && own.Type == "array":
		return m.merge(writer.Items, own.Items)
	case writer.Type == "map" && own.Type == "map":
		return m.merge(writer.Values, own.Values)
	case (writer.Type == "record" || writer.Type == "error") && own.Type == "record":
		return m.mergeRecord(writer, own)
	}
	return nil
}

// follow returns what a reference refers to.
func (t types) follow(n *avro.SchemaNode) *avro.SchemaNode {
	if n == nil {
		return nil
	}
	if d, ok := t.byName[n.Type]; ok {
		return d
	}
	return n
}

func (m *merger) mergeRecord(writer, own *avro.SchemaNode) error {
	if m.seen[pair{writer, own}] {
		return nil
	}
	m.seen[pair{writer, own}] = true
	outermost := len(m.seen) == 1
	for i := range own.Fields {
		f := &own.Fields[i]
		from := source(writer, f)
		if from == nil {
			// A null by default is the zero value.
			if f.HasDefault && f.Default != nil {
				if err := m.add(writer, f); err != nil {
					return err
				}
			}
			continue
		}
		if outermost {
			m.shared++
		}
		if was, ok := m.names[from]; ok && was != f.Name {
			return fmt.Errorf("field %s of %s is to be read as %s and as %s", from.Name, writer.Name, was, f.Name)
		}
		m.names[from] = f.Name
		if err := m.merge(&from.Type, &f.Type); err != nil {
			return err
		}
	}
	return nil
}

// source finds the field of a writer that a type's field is read from: by name,
// else by alias.
func source(writer *avro.SchemaNode, f *avro.SchemaField) *avro.SchemaField {
	for _, name := range append([]string{f.Name}, f.Aliases...) {
		for i := range writer.Fields {
			if writer.Fields[i].Name == name {
				return &writer.Fields[i]
			}
		}
	}
	return nil
}

func (m *merger) changed() bool {
	for from, name := range m.names {
		if from.Name != name {
			return true
		}
	}
	return len(m.added) > 0
}

// add gives a record of the writer a field that is always its default.
func (m *merger) add(to *avro.SchemaNode, f *avro.SchemaField) error {
	for _, other := range m.added[to] {
		if other.Name == f.Name && (other.Type.Type != f.Type.Type || other.Default != f.Default) {
			return fmt.Errorf("field %s, which %s lacks, is to be %v and %v", f.Name, to.Name, other.Default, f.Default)
		} else if other.Name == f.Name {
			return nil
		}
	}
	m.added[to] = append(m.added[to], avro.SchemaField{Name: f.Name, Type: f.Type, Default: f.Default, HasDefault: true})
	return nil
}

// apply changes the writer's tree.
func (m *merger) apply() {
	for _, def := range m.writers.inOrder {
		for i := range def.Fields {
			f := &def.Fields[i]
			f.Aliases = nil // the writer's own are of no concern
			if name, ok := m.names[f]; ok && name != f.Name {
				f.Name, f.Aliases = name, []string{f.Name}
			}
		}
	}
	// A record's fields move when it gets more, and what is defined in them.
	for _, def := range slices.Backward(m.writers.inOrder) {
		def.Fields = append(def.Fields, m.added[def]...)
	}
}
