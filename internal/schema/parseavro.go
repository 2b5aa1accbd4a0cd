package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// avroType is a type as Avro writes it in JSON, other than a bare name or a union.
type avroType struct {
	Type      json.RawMessage `json:"type"`
	Name      string          `json:"name"`
	Logical   string          `json:"logicalType"`
	Precision int             `json:"precision"`
	Scale     int             `json:"scale"`
	Size      int             `json:"size"`
	Items     json.RawMessage `json:"items"`
	Values    json.RawMessage `json:"values"`
	Symbols   []string        `json:"symbols"`
	Fields    []avroField     `json:"fields"`
}

type avroField struct {
	Name    string          `json:"name"`
	Type    json.RawMessage `json:"type"`
	Aliases []string        `json:"aliases"`
	Default json.RawMessage `json:"default"`
}

// boxName is the record around a value that is none, and its field.
const boxName = "value"

func parseAvro(schema string) (*Schema, error) {
	p := &avroParser{named: map[string]*Node{}}
	n, err := p.node(json.RawMessage(schema), 0)
	if err != nil {
		return &Schema{Root: &Node{Kind: Opaque, ID: "avro " + schema}, avro: true}, fmt.Errorf("the Avro schema of a stored value: %w", err)
	}
	n.box = n.Kind == Record && n.ID == "" && p.first == boxName && len(n.Fields) == 1 && n.Fields[0].Name == boxName
	return &Schema{Root: n, avro: true}, nil
}

type avroParser struct {
	named map[string]*Node
	// first is the name of the first named type, the outermost.
	first string
}

var errAvro = errors.New("malformed")

func (p *avroParser) node(raw json.RawMessage, depth int) (*Node, error) {
	if depth > maxDepth || len(raw) == 0 {
		return nil, errAvro
	}
	switch raw[0] {
	case '"':
		var name string
		if err := json.Unmarshal(raw, &name); err != nil {
			return nil, err
		}
		return p.byName(name)
	case '[':
		return p.union(raw, depth)
	}
	var t avroType
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, err
	}
	return p.object(&t, depth)
}

var avroKinds = map[string]Kind{
	"null": Null, "boolean": Bool, "int": Small, "long": Long, "float": Float32, "double": Float64, "string": String, "bytes": Bytes,
}

func (p *avroParser) byName(name string) (*Node, error) {
	if k, ok := avroKinds[name]; ok {
		return &Node{Kind: k}, nil
	}
	if n := p.named[name]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("%w: there is no type %q", errAvro, name)
}

func (p *avroParser) union(raw json.RawMessage, depth int) (*Node, error) {
	var branches []json.RawMessage
	if err := json.Unmarshal(raw, &branches); err != nil {
		return nil, err
	}
	n := &Node{Kind: Union}
	for _, b := range branches {
		branch, err := p.node(b, depth+1)
		if err != nil {
			return nil, err
		}
		n.Branches = append(n.Branches, branch)
	}
	if len(n.Branches) != 2 {
		return n, nil
	}
	for i, b := range n.Branches {
		if other := n.Branches[1-i]; b.Kind == Null && other.Kind != Null {
			return &Node{Kind: Optional, Elem: other, nullAt: i}, nil
		}
	}
	return n, nil
}

func (p *avroParser) object(t *avroType, depth int) (n *Node, err error) {
	var name string
	if err := json.Unmarshal(t.Type, &name); err != nil {
		return p.node(t.Type, depth+1) // a type within an object
	}
	switch name {
	case "record", "error":
		return p.record(t, depth)
	case "enum":
		return p.name(t, &Node{Kind: Small, ID: "enum{" + strings.Join(t.Symbols, ", ") + "}"}), nil
	case "fixed":
		n = p.name(t, &Node{Kind: Fixed, Size: t.Size})
		if t.Size < 0 || t.Size > maxFixed {
			return nil, errAvro
		}
	case "array":
		n = &Node{Kind: List}
		n.Elem, err = p.node(t.Items, depth+1)
	case "map":
		n = &Node{Kind: Map}
		n.Elem, err = p.node(t.Values, depth+1)
	default:
		if n, err = p.byName(name); err == nil && p.named[name] != nil {
			return n, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return t.logical(n), nil
}

// logical adds what values mean beyond their kind.
func (t *avroType) logical(n *Node) *Node {
	switch t.Logical {
	case "":
	case "go-uint64", "go-uint":
		n.Kind = Uint64
	case "go-duration":
	case "go-time":
		n.ID = "time.Time"
	case "decimal":
		n.ID = fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	default:
		n.ID = t.Logical
	}
	return n
}

func (p *avroParser) name(t *avroType, n *Node) *Node {
	p.named[t.Name] = n
	if p.first == "" {
		p.first = t.Name
	}
	return n
}

func (p *avroParser) record(t *avroType, depth int) (*Node, error) {
	n := p.name(t, &Node{Kind: Record})
	for _, f := range t.Fields {
		field := Field{Name: f.Name, aliases: f.Aliases, preset: presetOf(f.Default)}
		var err error
		if field.Type, err = p.node(f.Type, depth+1); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		n.Fields = append(n.Fields, field)
	}
	return n, nil
}

// presetOf is a default as text, nil for null and what has parts.
func presetOf(raw json.RawMessage) *string {
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || string(raw) == "null" {
		return nil
	}
	text := string(raw)
	if raw[0] == '"' && json.Unmarshal(raw, &text) != nil {
		return nil
	}
	return &text
}
