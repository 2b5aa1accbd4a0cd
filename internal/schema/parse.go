package schema

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads the form off a format: its id, version and schema, and the bytes of
// a value if their number is fixed. A format that has no tree is an Opaque form,
// which is compatible with itself alone. The error says that the format is
// damaged.
func Parse(id string, version int, schema string, size int) (*Schema, error) {
	if version == 1 {
		switch id {
		case "avro":
			return parseAvro(schema)
		case "struct", "array":
			n, err := parseFixed(schema)
			return &Schema{Root: n}, err
		case "string":
			return &Schema{Root: &Node{Kind: String}}, nil
		case "bytes":
			return &Schema{Root: &Node{Kind: Bytes}}, nil
		case "time":
			return &Schema{Root: &Node{Kind: Opaque, ID: "time.Time", Size: 12}}, nil
		case "fixed":
			return &Schema{Root: &Node{Kind: Fixed, Size: size}}, nil
		}
		if n := scalar(id); n != nil {
			return &Schema{Root: n}, nil
		}
	}
	name := id
	if strings.Contains(id, "struct{") && schema != "" {
		name, schema = schema, "" // a key: the same, with the names of its fields
	}
	if version != 1 {
		name += " version " + strconv.Itoa(version)
	}
	if schema != "" {
		name += " " + schema
	}
	return &Schema{Root: &Node{Kind: Opaque, ID: name, Size: size}}, nil
}

var scalars = map[string]Kind{
	"bool": Bool, "int8": Int8, "int16": Int16, "int32": Int32, "int64": Int64,
	"uint8": Uint8, "uint16": Uint16, "uint32": Uint32, "uint64": Uint64, "float32": Float32, "float64": Float64,
}

// scalar is the form of a type of package fixed that has no parts, nil for others.
func scalar(name string) *Node {
	switch name {
	case "complex64":
		return &Node{Kind: Opaque, ID: name, Size: 8}
	case "complex128":
		return &Node{Kind: Opaque, ID: name, Size: 16}
	}
	if k, ok := scalars[name]; ok {
		return &Node{Kind: k}
	}
	return nil
}

// ParseFixed reads a form as package fixed describes it.
func ParseFixed(text string) (*Schema, error) {
	n, err := parseFixed(text)
	return &Schema{Root: n}, err
}

func parseFixed(text string) (*Node, error) {
	p := &fixedParser{rest: text}
	n := p.node(0)
	if p.err == nil && p.rest != "" {
		p.fail()
	}
	if p.err != nil {
		return &Node{Kind: Opaque, ID: text}, p.err
	}
	return n, nil
}

// fixedParser reads "struct{A int64; B [3]struct{X float32}}".
type fixedParser struct {
	rest string
	err  error
}

// maxDepth bounds how deep forms may be nested, and maxFixed how many bytes a
// value of package fixed may have.
const (
	maxDepth = 100
	maxFixed = 1 << 30
)

func (p *fixedParser) fail() *Node {
	if p.err == nil {
		p.err = fmt.Errorf("the schema of a stored value is malformed at %q", p.rest)
	}
	return &Node{Kind: Opaque}
}

func (p *fixedParser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

func (p *fixedParser) node(depth int) *Node {
	switch {
	case depth > maxDepth || p.err != nil:
		return p.fail()
	case p.take("struct{"):
		return p.record(depth)
	case p.take("["):
		return p.array(depth)
	}
	word := p.rest
	if end := strings.IndexAny(word, ";}"); end >= 0 {
		word = word[:end]
	}
	n := scalar(word)
	if n == nil {
		return p.fail()
	}
	p.rest = p.rest[len(word):]
	return n
}

func (p *fixedParser) array(depth int) *Node {
	length, rest, ok := strings.Cut(p.rest, "]")
	size, err := strconv.Atoi(length)
	if !ok || err != nil || size < 0 || size > maxFixed {
		return p.fail()
	}
	p.rest = rest
	if size == 0 {
		// What the elements are does not matter, and they need have no form.
		if end := strings.IndexAny(p.rest, ";}"); end >= 0 && !strings.HasPrefix(p.rest, "struct{") && !strings.HasPrefix(p.rest, "[") {
			p.rest = p.rest[end:]
			return &Node{Kind: Fixed}
		} else if end < 0 {
			p.rest = ""
			return &Node{Kind: Fixed}
		}
	}
	elem := p.node(depth + 1)
	if elem.Kind == Uint8 {
		return &Node{Kind: Fixed, Size: size}
	}
	if one := fixedSize(elem); one > 0 && size > maxFixed/one {
		return p.fail()
	}
	return &Node{Kind: Array, Size: size, Elem: elem}
}

func (p *fixedParser) record(depth int) *Node {
	n := &Node{Kind: Record}
	if p.take("}") {
		return n
	}
	for p.err == nil {
		name, rest, ok := strings.Cut(p.rest, " ")
		if !ok || name == "" {
			return p.fail()
		}
		p.rest = rest
		n.Fields = append(n.Fields, Field{Name: name, Type: p.node(depth + 1)})
		if p.take("}") {
			break
		}
		if !p.take("; ") {
			return p.fail()
		}
	}
	if fixedSize(n) > maxFixed {
		return p.fail()
	}
	return n
}

// fixedSize is how many bytes a value takes with package fixed; 0 also if they
// vary.
func fixedSize(n *Node) int {
	switch n.Kind {
	case Bool, Int8, Uint8:
		return 1
	case Int16, Uint16:
		return 2
	case Int32, Uint32, Float32:
		return 4
	case Int64, Uint64, Float64:
		return 8
	case Array:
		return n.Size * fixedSize(n.Elem)
	case Fixed, Opaque:
		return n.Size
	case Record:
		size := 0
		for i := range n.Fields {
			size += fixedSize(n.Fields[i].Type)
		}
		return size
	}
	return 0
}

// Size is how many bytes every value takes where the form alone tells, 0 where
// they vary or it does not.
func (s *Schema) Size() int {
	if s.avro || !sized(s.Root) {
		return 0
	}
	return max(fixedSize(s.Root), 1)
}

// Known tells whether the form has a tree, and not just a name.
func (s *Schema) Known() bool { return s.Root.Kind != Opaque }
