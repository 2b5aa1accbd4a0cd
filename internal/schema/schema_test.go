package schema_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/fixed"
	"github.com/weirstream/weir/internal/schema"
)

// form is a type in one of its encodings.
func form[T any](t testing.TB, avro bool) *schema.Schema {
	t.Helper()
	var s *schema.Schema
	var err error
	if avro {
		c, cerr := codec.Avro[T]()
		check(t, cerr)
		s, err = schema.Parse("avro", 1, c.Format().Schema, 0)
	} else {
		l, lerr := fixed.Of(reflect.TypeFor[T]())
		check(t, lerr)
		s, err = schema.ParseFixed(l.String())
	}
	check(t, err)
	return s
}

func encode[T any](t testing.TB, avro bool, v T) []byte {
	t.Helper()
	if avro {
		c, err := codec.Avro[T]()
		check(t, err)
		b, err := c.Append(nil, v)
		check(t, err)
		return b
	}
	l, err := fixed.Of(reflect.TypeFor[T]())
	check(t, err)
	return l.Append(nil, unsafe.Pointer(&v))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type part struct {
	A int8
	B [2]uint16
}

type nothing struct{}

type first struct {
	N    int32
	P    part
	Seen bool
	F    float32
	Raw  [3]byte
	None nothing
	U    uint64
}

type second struct {
	U    uint64
	F    float64
	P    grown
	Raw  [3]byte
	M    int64 `avro:"M,alias=N"`
	More [2]int32
	Set  uint8 `avro:"Set,default=7"`
}

type grown struct {
	B [2]uint32
	A int16
	C bool
}

// Every pair of encodings converts alike.
func TestConvertAcrossEncodings(t *testing.T) {
	v := first{-5, part{-128, [2]uint16{1, 65535}}, true, -0.25, [3]byte{1, 2, 3}, nothing{}, 1 << 63}
	want := second{U: 1 << 63, F: -0.25, P: grown{[2]uint32{1, 65535}, -128, false}, Raw: [3]byte{1, 2, 3}, M: -5, Set: 7}
	for _, avro := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
		conv, err := schema.Convert(form[first](t, avro[0]), form[second](t, avro[1]).For(reflect.TypeFor[second]()), nil)
		check(t, err)
		got, err := conv.Append([]byte("x"), encode(t, avro[0], v))
		check(t, err)
		if w := append([]byte("x"), encode(t, avro[1], want)...); !bytes.Equal(got, w) {
			t.Errorf("avro %v: %x, want %x", avro, got, w)
		}
		for _, word := range []string{"field P.C is new", "field Seen is dropped", "field More is new"} {
			if !strings.Contains(strings.Join(conv.Notes, "\n"), word) {
				t.Errorf("avro %v: notes %q lack %q", avro, conv.Notes, word)
			}
		}
	}
}

type tree struct {
	V    int32
	Kids []tree
	Next *tree
}

type widerTree struct {
	Next *widerTree
	V    int64
	Kids []widerTree
	Tag  string
}

func TestConvertRecursiveTypes(t *testing.T) {
	v := tree{1, []tree{{2, []tree{}, nil}}, &tree{3, []tree{}, nil}}
	want := widerTree{&widerTree{nil, 3, []widerTree{}, ""}, 1, []widerTree{{nil, 2, []widerTree{}, ""}}, ""}
	conv, err := schema.Convert(form[tree](t, true), form[widerTree](t, true), nil)
	check(t, err)
	got, err := conv.Append(nil, encode(t, true, v))
	check(t, err)
	if w := encode(t, true, want); !bytes.Equal(got, w) {
		t.Errorf("%x, want %x", got, w)
	}
}

// Numbers of Avro say less of their type than those of package fixed; what does
// not fit is found in the value.
func TestNumberOutOfRange(t *testing.T) {
	type wide struct {
		N int32
		S string
	}
	type narrow struct{ N int8 }
	conv, err := schema.Convert(form[wide](t, true), form[narrow](t, false), nil)
	check(t, err)
	if got, err := conv.Append(nil, encode(t, true, wide{N: -128})); err != nil || !bytes.Equal(got, []byte{0x80}) {
		t.Errorf("%x, %v", got, err)
	}
	for _, n := range []int32{128, -129} {
		if _, err := conv.Append(nil, encode(t, true, wide{N: n})); err == nil || !strings.Contains(err.Error(), "field N") {
			t.Errorf("%d: error %v", n, err)
		}
	}
}

func TestSame(t *testing.T) {
	conv, err := schema.Convert(form[first](t, true), form[first](t, true).For(reflect.TypeFor[first]()), nil)
	check(t, err)
	if !conv.Same || len(conv.Notes) > 0 {
		t.Errorf("%+v", conv)
	}
	if conv, err = schema.Convert(form[second](t, false), form[first](t, false), nil); err == nil {
		t.Errorf("a conversion to narrower types: %+v", conv)
	}
}

func TestString(t *testing.T) {
	if got, want := form[second](t, false).String(), "struct{U uint64; F float64; P struct{B [2]uint32; A int16; C bool}; Raw [3]byte; M int64; More [2]int32; Set uint8}"; got != want {
		t.Errorf("%s", got)
	}
	if got := form[widerTree](t, true).String(); len(got) > 300 || !strings.HasPrefix(got, "struct{Next *struct{") {
		t.Errorf("%s", got)
	}
}

func TestParseDamaged(t *testing.T) {
	for _, text := range []string{"", "struct{", "struct{A}", "struct{A int64", "struct{A int64; }", "[", "[-1]int8", "[9]", "[3", "int65", "int64x", "struct{}x",
		strings.Repeat("[1]", 200) + "bool", "[1000000000][1000000000]int64"} {
		if _, err := schema.ParseFixed(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
	for _, text := range []string{"", "{", `"nothing"`, `{"type":"array"}`, `{"type":"record","name":"a","fields":[{"name":"x","type":"b"}]}`, "[]x"} {
		if _, err := schema.Parse("avro", 1, text, 0); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// Damaged bytes are errors, or values.
func FuzzConvert(f *testing.F) {
	v := first{N: 4}
	f.Add(encode(f, false, v), false)
	f.Add(encode(f, true, v), true)
	f.Add(encode(f, true, tree{1, []tree{{}}, &tree{}}), true)
	fromPlain, err := schema.Convert(form[first](f, false), form[second](f, true), nil)
	check(f, err)
	fromAvro, err := schema.Convert(form[first](f, true), form[second](f, false), nil)
	check(f, err)
	trees, err := schema.Convert(form[tree](f, true), form[widerTree](f, true), nil)
	check(f, err)
	c, err := codec.Avro[widerTree]()
	check(f, err)
	f.Fuzz(func(t *testing.T, src []byte, avro bool) {
		if !avro {
			if _, err := fromPlain.Append(nil, src); (err == nil) != (len(src) == len(encode(t, false, v))) {
				t.Errorf("%d bytes: %v", len(src), err)
			}
			return
		}
		if out, err := fromAvro.Append(nil, src); err == nil && len(out) != len(encode(t, false, second{})) {
			t.Errorf("%d bytes", len(out))
		}
		if out, err := trees.Append(nil, src); err == nil {
			if _, err := c.Decode(out); err != nil {
				t.Errorf("%x became %x: %v", src, out, err)
			}
		}
	})
}

// FuzzParse: any schema is an error or a form that converts to itself.
func FuzzParse(f *testing.F) {
	f.Add("struct{A int64; B [3]struct{X float32}}", false)
	c, err := codec.Avro[widerTree]()
	check(f, err)
	f.Add(c.Format().Schema, true)
	f.Fuzz(func(t *testing.T, text string, avro bool) {
		id := "struct"
		if avro {
			id = "avro"
		}
		s, err := schema.Parse(id, 1, text, 0)
		if err != nil {
			return
		}
		again, err := schema.Parse(id, 1, text, 0)
		check(t, err)
		_ = s.String()
		if conv, err := schema.Convert(s, again, nil); err == nil && !conv.Same && !strings.Contains(text, "alias") {
			t.Errorf("%s is not the same as itself", s)
		}
	})
}

// Random values of every kind survive the way to a wider type and back by hand.
func TestRandomNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	type narrow struct {
		A int8
		B uint16
		C int32
		D uint32
		E float32
	}
	type wide struct {
		E float64
		D int64
		C float64
		B int32
		A int64
	}
	conv, err := schema.Convert(form[narrow](t, false), form[wide](t, true).For(reflect.TypeFor[wide]()), nil)
	check(t, err)
	for range 1000 {
		v := narrow{int8(r.Uint32()), uint16(r.Uint32()), int32(r.Uint32()), r.Uint32(), r.Float32()}
		got, err := conv.Append(nil, encode(t, false, v))
		check(t, err)
		if w := encode(t, true, wide{float64(v.E), int64(v.D), float64(v.C), int32(v.B), int64(v.A)}); !bytes.Equal(got, w) {
			t.Fatalf("%+v: %x, want %x", v, got, w)
		}
	}
}
