package config

import (
	"errors"
	"fmt"
	"os"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds a configuration file in bytes.
const maxFile = 256 << 10

// ReadFile applies a YAML file: keys with dots, nested, or both mixed.
func (s *Set) ReadFile(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	return s.ParseFile(name, data)
}

// ParseFile applies the content of a YAML file.
func (s *Set) ParseFile(name string, data []byte) error {
	entries, err := parseYAML(name, data)
	if err != nil {
		return err
	}
	return s.Apply(File, entries)
}

// parseYAML returns the settings in a YAML text, each with file and line.
func parseYAML(name string, data []byte) (entries []Entry, err error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: %d bytes are too many for a configuration file; at most %d are read", name, len(data), maxFile)
	}
	// The parser is known to panic on odd input.
	defer func() {
		if r := recover(); r != nil {
			entries, err = nil, fmt.Errorf("%s: is no valid YAML (%v)", name, r)
		}
	}()
	tree, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, fmt.Errorf("%s: is no valid YAML: %s", name, syntaxError(err))
	}
	w := &walker{name: name, lines: map[string]int{}}
	documents := 0
	for _, d := range tree.Docs {
		if d.Body == nil || d.Body.Type() == ast.NullType || d.Body.Type() == ast.CommentType {
			continue
		}
		if documents++; documents > 1 {
			w.fail(d.Body, "a second YAML document; keep one in a file")
			break
		}
		w.walk("", d.Body)
	}
	return w.entries, errors.Join(w.errs...)
}

// syntaxError is the parser's message with its position, without an excerpt.
func syntaxError(err error) string {
	var y yaml.Error
	if !errors.As(err, &y) {
		return err.Error()
	}
	if t := y.GetToken(); t != nil && t.Position != nil {
		return fmt.Sprintf("line %d: %s", t.Position.Line, y.GetMessage())
	}
	return y.GetMessage()
}

// walker flattens a YAML tree into keys with dots.
type walker struct {
	name    string
	lines   map[string]int
	entries []Entry
	errs    []error
}

func (w *walker) at(n ast.Node) string {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return fmt.Sprintf("%s:%d", w.name, t.Position.Line)
	}
	return w.name
}

func (w *walker) fail(n ast.Node, format string, args ...any) {
	w.errs = append(w.errs, fmt.Errorf("file %s: %s", w.at(n), fmt.Sprintf(format, args...)))
}

func (w *walker) walk(key string, n ast.Node) {
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			w.pair(key, v)
		}
	case *ast.MappingValueNode:
		w.pair(key, n)
	case *ast.StringNode:
		w.set(key, n, n.Value)
	case *ast.LiteralNode:
		w.set(key, n, n.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		w.set(key, n, n.GetToken().Value)
	case *ast.NullNode:
		w.fail(n, "%s has no value", quoteKey(key))
	case *ast.SequenceNode:
		w.fail(n, "%s: a list is not allowed here", quoteKey(key))
	default:
		w.fail(n, "%s: anchors, aliases and tags are not supported", quoteKey(key))
	}
}

func (w *walker) pair(prefix string, v *ast.MappingValueNode) {
	var name string
	switch k := v.Key.(type) {
	case *ast.StringNode:
		name = k.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		name = k.GetToken().Value
	default:
		w.fail(v, "a key must be plain text")
		return
	}
	if prefix != "" {
		name = prefix + "." + name
	}
	w.walk(name, v.Value)
}

func (w *walker) set(key string, n ast.Node, text string) {
	if key == "" {
		w.fail(n, "%q is not of the form key: value", text)
		return
	}
	if line, dup := w.lines[key]; dup {
		w.fail(n, "%s is set twice, first in line %d", quoteKey(key), line)
		return
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		w.lines[key] = t.Position.Line
	}
	w.entries = append(w.entries, Entry{Key: key, Text: text, Where: w.at(n)})
}

func quoteKey(key string) string {
	if key == "" {
		return "the file"
	}
	return fmt.Sprintf("%q", key)
}
