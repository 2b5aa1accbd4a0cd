package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Conversion turns stored values into another form. It may be used by several
// goroutines.
type Conversion struct {
	// Same tells that nothing is to be done: the bytes are the same in both forms.
	Same bool
	// Notes say what happens to fields, in words: which are dropped, which are new.
	Notes  []string
	step   step
	padded bool // the stored form has no content, and one byte
	pad    bool // so has the wanted one
}

// step converts the value at the front of src, and returns what follows it.
type step func(dst, src []byte) (out, rest []byte, err error)

// Append appends the value that src is exactly, in the wanted form.
func (c *Conversion) Append(dst, src []byte) ([]byte, error) {
	if c.Same {
		return append(dst, src...), nil
	}
	if c.padded {
		if len(src) != 1 {
			return dst, errSize
		}
		src = nil
	}
	start := len(dst)
	out, rest, err := c.step(dst, src)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow a stored value", len(rest))
	}
	if err != nil {
		return dst, fmt.Errorf("convert a stored value: %w", err)
	}
	if c.pad && len(out) == start {
		out = append(out, 0)
	}
	return out, nil
}

// Mismatch says why a form cannot be read as another.
type Mismatch struct {
	// Fields are the differences, one per place, in words.
	Fields []string
}

// Error lists the differences.
func (m *Mismatch) Error() string {
	const most = 5
	if more := len(m.Fields) - most; more > 0 {
		return strings.Join(m.Fields[:most], "; ") + fmt.Sprintf("; and %d more", more)
	}
	return strings.Join(m.Fields, "; ")
}

// Convert returns the conversion of what is stored into what is wanted. fresh is
// the encoding of a value from which fields that are not stored are taken, if
// the wanted form is one of package fixed; nil stands for zero. The error is a
// *Mismatch.
func Convert(stored, wanted *Schema, fresh []byte) (*Conversion, error) {
	w, r := stored.Root.unboxed(), wanted.Root.unboxed()
	c := &compiler{from: stored.avro, to: wanted.avro, records: map[pair]*compiled{}}
	conv := &Conversion{}
	conv.step = c.value(w, r, "", fresh)
	if len(c.mismatch) > 0 {
		return nil, &Mismatch{c.mismatch}
	}
	conv.Notes = c.notes
	conv.padded = !stored.avro && sized(w) && fixedSize(w) == 0
	conv.pad = !wanted.avro && sized(r) && fixedSize(r) == 0
	conv.Same = stored.avro == wanted.avro && (same(w, r, map[pair]bool{}) || !stored.avro && whole(w) && whole(r))
	return conv, nil
}

// sized forms of package fixed have the same number of bytes always.
func sized(n *Node) bool {
	return n.Kind != String && n.Kind != Bytes && (n.Kind != Opaque || n.Size > 0)
}

// whole values of their own have no length in front.
func whole(n *Node) bool { return n.Kind == String || n.Kind == Bytes }

type pair struct{ stored, wanted *Node }

type compiled struct{ step step }

type compiler struct {
	from, to bool // Avro
	records  map[pair]*compiled
	mismatch []string
	notes    []string
}

var (
	errSize  = errors.New("it is cut off or too long")
	errRange = errors.New("a number is out of the range of its new type")
)

// name is how a place within a value is called.
func name(path string) string {
	if path == "" {
		return "it"
	}
	return "field " + path
}

func (c *compiler) differ(path string, stored, wanted *Node) step {
	c.mismatch = append(c.mismatch, fmt.Sprintf("%s is %s in the snapshot and %s now", name(path), stored, wanted))
	return nil
}

func (c *compiler) value(w, r *Node, path string, fresh []byte) step {
	switch {
	case r.Kind == Optional:
		return c.optional(w, r, path)
	case w.ID != r.ID:
		return c.differ(path, w, r)
	case w.Kind == r.Kind && isFloat(w.Kind):
		return c.raw(w) // with all bits of a NaN
	case isNumber(w.Kind) && isNumber(r.Kind):
		return c.number(w, r, path)
	case w.Kind == Record && r.Kind == Record:
		return c.record(w, r, path, fresh)
	case isSequence(w) && isSequence(r):
		return c.sequence(w, r, path, fresh)
	case w.Kind == Map && r.Kind == Map:
		return c.mapping(w, r, path)
	case whole(w) && whole(r):
		return c.text()
	case w.Kind != r.Kind || w.Size != r.Size:
		return c.differ(path, w, r)
	case w.Kind == Union && !same(w, r, map[pair]bool{}):
		return c.differ(path, w, r)
	case w.Kind == Opaque || w.Kind == Bool || w.Kind == Fixed || w.Kind == Union || w.Kind == Null:
		return c.raw(w)
	}
	return c.differ(path, w, r)
}

// raw copies a value that both forms encode alike.
func (c *compiler) raw(n *Node) step {
	avro := c.from
	return func(dst, src []byte) ([]byte, []byte, error) {
		rest, err := skip(avro, n, src)
		if err != nil {
			return nil, nil, err
		}
		return append(dst, src[:len(src)-len(rest)]...), rest, nil
	}
}

func (c *compiler) optional(w, r *Node, path string) step {
	if w.Kind != Optional {
		inner := c.value(w, r.Elem, path, nil)
		if inner == nil {
			return nil
		}
		return func(dst, src []byte) ([]byte, []byte, error) {
			return inner(appendLong(dst, int64(1-r.nullAt)), src)
		}
	}
	if w.ID != r.ID {
		return c.differ(path, w, r)
	}
	inner := c.value(w.Elem, r.Elem, path, nil)
	if inner == nil {
		return nil
	}
	return func(dst, src []byte) ([]byte, []byte, error) {
		branch, src, err := cutLong(src)
		switch {
		case err != nil:
			return nil, nil, err
		case branch == int64(w.nullAt):
			return appendLong(dst, int64(r.nullAt)), src, nil
		case branch != int64(1-w.nullAt):
			return nil, nil, errSize
		}
		return inner(appendLong(dst, int64(1-r.nullAt)), src)
	}
}

// text converts strings and bytes, which are the same but for the length that
// Avro puts in front.
func (c *compiler) text() step {
	from, to := c.from, c.to
	return func(dst, src []byte) ([]byte, []byte, error) {
		b, rest := src, []byte(nil)
		if from {
			var err error
			if b, rest, err = cutBytes(src); err != nil {
				return nil, nil, err
			}
		}
		if to {
			dst = appendLong(dst, int64(len(b)))
		}
		return append(dst, b...), rest, nil
	}
}

func (c *compiler) record(w, r *Node, path string, fresh []byte) step {
	key := pair{w, r}
	if done := c.records[key]; done != nil && fresh == nil {
		return func(dst, src []byte) ([]byte, []byte, error) { return done.step(dst, src) }
	}
	done := &compiled{}
	if fresh == nil {
		c.records[key] = done
	}
	sources, dropped := match(w, r)
	if len(dropped) == len(w.Fields) && len(w.Fields) > 0 && len(r.Fields) > 0 {
		c.mismatch = append(c.mismatch, fmt.Sprintf("%s has no field under the name of a stored one (%s): name it, as in `avro:\"%s,alias=%s\"`",
			name(path), strings.Join(dropped, ", "), r.Fields[0].Name, dropped[0]))
		return nil
	}
	fields := make([]step, len(r.Fields))
	for i := range r.Fields {
		var part []byte
		if fresh != nil {
			n := fixedSize(r.Fields[i].Type)
			part, fresh = fresh[:n:n], fresh[n:]
		}
		fields[i] = c.field(w, &r.Fields[i], sources[i], dropped, path, part)
	}
	for _, d := range dropped {
		c.notes = append(c.notes, fmt.Sprintf("field %s is dropped", join(path, d)))
	}
	if slices.ContainsFunc(fields, func(s step) bool { return s == nil }) {
		return nil
	}
	done.step = c.compose(w, fields, sources)
	return done.step
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

// field is the step that makes one field of a record, of the bytes that its
// source is.
func (c *compiler) field(w *Node, f *Field, from source, dropped []string, path string, fresh []byte) step {
	at := join(path, f.Name)
	switch {
	case from.whole:
		notes := c.notes
		step := c.value(w, f.Type, path, fresh)
		c.notes = notes // the other fields are not dropped
		return step
	case from.known():
		n := w
		for _, i := range from.path {
			n = n.Fields[i].Type
		}
		return c.value(n, f.Type, at, fresh)
	}
	preset, err := c.preset(f, fresh)
	if err != nil {
		c.mismatch = append(c.mismatch, fmt.Sprintf("field %s: its default: %v", at, err))
		return nil
	}
	note := "field " + at + " is new"
	if d := likely(f.Name, dropped); d != "" {
		note += fmt.Sprintf("; if it was %s, name that in its tag: `avro:\"%s,alias=%s\"`", d, f.Name, d)
	}
	c.notes = append(c.notes, note)
	return func(dst, _ []byte) ([]byte, []byte, error) { return append(dst, preset...), nil, nil }
}

// compose makes the step of a record of those of its fields.
func (c *compiler) compose(w *Node, fields []step, sources []source) step {
	avro := c.from
	return func(dst, src []byte) (_, _ []byte, err error) {
		parts := make([][]byte, len(w.Fields))
		rest := src
		for i := range parts {
			if parts[i], rest, err = cut(avro, w.Fields[i].Type, rest); err != nil {
				return nil, nil, fmt.Errorf("field %s: %w", w.Fields[i].Name, err)
			}
		}
		for i, s := range sources {
			part := src[:len(src)-len(rest)]
			if len(s.path) > 0 {
				part = parts[s.path[0]]
				if part, err = within(avro, w.Fields[s.path[0]].Type, part, s.path[1:]); err != nil {
					return nil, nil, err
				}
			}
			if dst, _, err = fields[i](dst, part); err != nil {
				return nil, nil, err
			}
		}
		return dst, rest, nil
	}
}

// within cuts a field of nested records out of an encoded record.
func within(avro bool, n *Node, src []byte, path []int) (part []byte, err error) {
	if len(path) == 0 {
		return src, nil
	}
	for i := range path[0] + 1 {
		if part, src, err = cut(avro, n.Fields[i].Type, src); err != nil {
			return nil, err
		}
	}
	return within(avro, n.Fields[path[0]].Type, part, path[1:])
}

func cut(avro bool, n *Node, src []byte) (part, rest []byte, err error) {
	rest, err = skip(avro, n, src)
	return src[:len(src)-len(rest)], rest, err
}

// same tells whether two forms in one encoding have the same bytes for all values.
func same(w, r *Node, seen map[pair]bool) bool {
	if w == r || seen[pair{w, r}] {
		return true
	}
	seen[pair{w, r}] = true
	if w.Kind != r.Kind || w.ID != r.ID || w.Size != r.Size || w.nullAt != r.nullAt || len(w.Branches) != len(r.Branches) {
		return false
	}
	for i := range w.Branches {
		if !same(w.Branches[i], r.Branches[i], seen) {
			return false
		}
	}
	if w.Elem != nil && r.Elem != nil && !same(w.Elem, r.Elem, seen) {
		return false
	}
	return w.Kind != Record || sameFields(w, r, seen)
}

func sameFields(w, r *Node, seen map[pair]bool) bool {
	if len(w.Fields) != len(r.Fields) {
		return false
	}
	sources, _ := match(w, r)
	for i, s := range sources {
		if s.whole || len(s.path) != 1 || s.path[0] != i || !same(w.Fields[i].Type, r.Fields[i].Type, seen) {
			return false
		}
	}
	return true
}
