package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// layout is the form of keys and of values without pointers, read from what a
// format says of it: "int64", "struct{Sum float64; N int64}", and of keys
// "struct{int64;string}", "bytes16".
type layout struct {
	// id of a number, or "string", "struct", "array", "bytes".
	id     string
	fields []layoutField
	elem   *layout
	// n is the length of an array, or of bytes.
	n int
}

type layoutField struct {
	name string
	form *layout
}

// maxLayout bounds the nesting of a layout and the length of its arrays.
const (
	maxLayoutDepth = 100
	maxArray       = 1 << 24
)

var errLayout = errors.New("not a layout")

func parseLayout(f Format) (*layout, error) {
	text := f.ID
	switch {
	case f.ID == "struct" || f.ID == "array" || strings.Contains(f.ID, "struct{") && f.Schema != "":
		text = f.Schema // with the names of fields
	case f.Schema != "":
		return nil, errLayout
	}
	p := layoutParser{text}
	l, err := p.form(0)
	if err == nil && p.rest != "" {
		err = errLayout
	}
	if err == nil && l.id == "string" {
		err = errLayout // alone it has no length in front
	}
	return l, err
}

type layoutParser struct{ rest string }

func (p *layoutParser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

// word takes letters and digits.
func (p *layoutParser) word() string {
	n := strings.IndexFunc(p.rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if n < 0 {
		n = len(p.rest)
	}
	w := p.rest[:n]
	p.rest = p.rest[n:]
	return w
}

func (p *layoutParser) form(depth int) (*layout, error) {
	switch {
	case depth > maxLayoutDepth:
		return nil, errLayout
	case p.take("struct{"):
		return p.fields(depth)
	case p.take("["):
		n, err := strconv.Atoi(p.word())
		if err != nil || n < 0 || n > maxArray || !p.take("]") {
			return nil, errLayout
		}
		elem, err := p.form(depth + 1)
		if err == nil && elem.id == "uint8" {
			return &layout{id: "bytes", n: n}, nil
		}
		return &layout{id: "array", elem: elem, n: n}, err
	}
	return wordLayout(p.word())
}

func wordLayout(word string) (*layout, error) {
	if digits, ok := strings.CutPrefix(word, "bytes"); ok {
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 || n > maxArray {
			return nil, errLayout
		}
		return &layout{id: "bytes", n: n}, nil
	}
	if word != "string" && numberSize(word) == 0 {
		return nil, errLayout
	}
	return &layout{id: word}, nil
}

// fields takes those of a struct: with names, or, of keys, without.
func (p *layoutParser) fields(depth int) (*layout, error) {
	l := &layout{id: "struct"}
	for i := 1; !p.take("}"); i++ {
		if i > 1 {
			if !p.take(";") {
				return nil, errLayout
			}
			p.take(" ")
		}
		before := p.rest
		f := layoutField{name: p.word()}
		if f.name == "" || !p.take(" ") {
			f.name, p.rest = "f"+strconv.Itoa(i), before
		}
		var err error
		if f.form, err = p.form(depth + 1); err != nil {
			return nil, err
		}
		l.fields = append(l.fields, f)
	}
	return l, nil
}

// size is the number of encoded bytes, unless they vary.
func (l *layout) size() (n int, fixed bool) {
	n, fixed = l.parts()
	return max(n, 1), fixed
}

func (l *layout) parts() (n int, fixed bool) {
	switch l.id {
	case "string":
		return 0, false
	case "bytes":
		return l.n, true
	case "array":
		n, fixed = l.elem.parts()
		return n * l.n, fixed || l.n == 0
	case "struct":
		fixed = true
		for _, f := range l.fields {
			k, ok := f.form.parts()
			n, fixed = n+k, fixed && ok
		}
		return n, fixed
	}
	return numberSize(l.id), true
}

func (l *layout) decoder() Decoder {
	return func(src []byte) (any, error) {
		v, rest, err := l.decode(src)
		if n, fixed := l.parts(); err == nil && n == 0 && fixed && len(rest) == 1 {
			rest = nil // what has no content is a zero in values
		}
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("%d bytes too many", len(rest))
		}
		if err != nil {
			return nil, &DecodeError{Format: l.id, Offset: len(src) - len(rest), Err: err}
		}
		return v, nil
	}
}

var errShort = errors.New("the bytes end within a value")

func (l *layout) decode(src []byte) (v any, rest []byte, err error) {
	switch l.id {
	case "string":
		n, k := binary.Uvarint(src)
		if k <= 0 || n > uint64(len(src)-k) {
			return nil, src, errShort
		}
		return string(src[k : k+int(n)]), src[k+int(n):], nil
	case "bytes":
		if len(src) < l.n {
			return nil, src, errShort
		}
		return bytes.Clone(src[:l.n:l.n]), src[l.n:], nil
	case "struct":
		record := make(Record, 0, len(l.fields))
		for _, f := range l.fields {
			var v any
			if v, src, err = f.form.decode(src); err != nil {
				return nil, src, err
			}
			record = append(record, Field{f.name, v})
		}
		return record, src, nil
	case "array":
		return l.decodeArray(src)
	}
	n := numberSize(l.id)
	if len(src) < n {
		return nil, src, errShort
	}
	v, err = decodeNumber(l.id, src[:n])
	return v, src[n:], err
}

func (l *layout) decodeArray(src []byte) (any, []byte, error) {
	if n, fixed := l.elem.parts(); fixed && n == 0 {
		return []any{}, src, nil // nothing is stored of it
	}
	var all []any
	for range l.n {
		v, rest, err := l.elem.decode(src)
		if err != nil {
			return nil, rest, err
		}
		all, src = append(all, v), rest
	}
	return all, src, nil
}
