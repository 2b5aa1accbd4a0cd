// Package schema is the form of stored values as a tree, read off the format
// that a snapshot names, and the conversion of bytes from one form to another.
//
// Two encodings have such a tree: that of package fixed, for values without
// pointers, and Avro's. A value that was stored in either can be read as one in
// the other: structs may gain, lose, reorder and rename fields, numbers may
// become wider, a value optional. Neither the program that wrote a value nor its
// Go types are needed.
package schema

import (
	"strconv"
	"strings"
)

// Kind is what a value is.
type Kind uint8

// The kinds. Small and Long are the int and the long of Avro, which hold the
// smaller types of Go, too.
const (
	Opaque Kind = iota
	Bool
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Small
	Long
	Float32
	Float64
	String
	Bytes
	// Fixed is Size bytes, Array Size elements.
	Fixed
	Array
	List
	Map
	Record
	// Optional is an element or none.
	Optional
	// Union is one of several branches, with Avro.
	Union
	Null
)

// Node is the form of a value.
type Node struct {
	Kind Kind
	// ID tells what an Opaque value is, and of others what they mean beyond their
	// kind: a logical type of Avro.
	ID string
	// Size is the length of a Fixed or an Array, and the bytes of an Opaque value,
	// 0 if they vary.
	Size int
	Elem *Node
	// Fields of a Record, Branches of a Union.
	Fields   []Field
	Branches []*Node
	// width is the Go type of a Small or a Long, Opaque if it is not known.
	width Kind
	// length is how many elements a List has if it is an array of Go, else 0.
	length int
	// nullAt is the index of null in the union that an Optional is.
	nullAt int
	// box marks the record around a value that is none.
	box bool
}

// Field is a field of a Record.
type Field struct {
	Name string
	Type *Node
	// aliases are other names that it may be stored under.
	aliases []string
	// outer are the embedded structs that it is promoted out of.
	outer []string
	// embedded tells that its own fields may be stored in its place.
	embedded bool
	// preset is what the field is where it is not stored, in words; nil for zero.
	preset *string
}

// Schema is the form of values in one of the two encodings.
type Schema struct {
	Root *Node
	avro bool
}

var kindNames = map[Kind]string{
	Bool: "bool", Int8: "int8", Int16: "int16", Int32: "int32", Int64: "int64",
	Uint8: "uint8", Uint16: "uint16", Uint32: "uint32", Uint64: "uint64", Small: "int32", Long: "int64",
	Float32: "float32", Float64: "float64", String: "string", Bytes: "[]byte", Null: "null",
}

// maxText is where the description of a form is cut off, in bytes.
const maxText = 240

// String describes the form as a type of Go.
func (s *Schema) String() string {
	b := &strings.Builder{}
	s.Root.unboxed().write(b)
	if text := b.String(); len(text) <= maxText {
		return text
	}
	return b.String()[:maxText] + "…"
}

func (n *Node) String() string { return (&Schema{Root: n}).String() }

func (n *Node) write(b *strings.Builder) {
	if b.Len() > maxText {
		return // a recursive type has no end
	}
	switch {
	case n.ID != "":
		b.WriteString(n.ID)
		return
	case n.width != Opaque:
		b.WriteString(kindNames[n.width])
		return
	}
	switch n.Kind {
	case Fixed:
		b.WriteString("[" + strconv.Itoa(n.Size) + "]byte")
	case Array:
		b.WriteString("[" + strconv.Itoa(n.Size) + "]")
		n.Elem.write(b)
	case List:
		b.WriteString("[]")
		n.Elem.write(b)
	case Map:
		b.WriteString("map[string]")
		n.Elem.write(b)
	case Optional:
		b.WriteString("*")
		n.Elem.write(b)
	case Union:
		b.WriteString("a union")
	case Record:
		b.WriteString("struct{")
		for i := range n.Fields {
			if i > 0 {
				b.WriteString("; ")
			}
			b.WriteString(n.Fields[i].Name + " ")
			n.Fields[i].Type.write(b)
		}
		b.WriteString("}")
	default:
		b.WriteString(kindNames[n.Kind])
	}
}

// unboxed is the value within the record that Avro needs around one that is
// none; the record adds nothing to its encoding.
func (n *Node) unboxed() *Node {
	if n.box {
		return n.Fields[0].Type
	}
	return n
}
