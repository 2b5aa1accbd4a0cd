package codec

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

func FuzzJSON(f *testing.F) {
	for _, in := range oddJSON() {
		if len(in) < 10_000 {
			f.Add(in)
		}
	}
	f.Fuzz(func(t *testing.T, in string) { compareJSON(t, in) })
}

func FuzzAvro(f *testing.F) {
	c, err := Avro[everyday]()
	check(f, err)
	list, err := For[[]map[string][]*node]()
	check(f, err)
	at := time.Unix(1, 2).UTC()
	b, err := c.Append(nil, everyday{Name: "x", Maybe: &at, Tags: []string{"a"}, Scores: map[string]float64{"k": 1}, Ins: []inner{{1, 2}}, Ptr: &inner{}, Times: []time.Time{at}})
	check(f, err)
	f.Add(b)
	b, err = list.Append(nil, []map[string][]*node{{"a": {{V: 1, Next: &node{V: 2}}, nil}}})
	check(f, err)
	f.Add(b)
	f.Add(bytes.Repeat([]byte{0xFF}, 40))
	f.Add([]byte("\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, src []byte) {
		again(t, c, src)
		again(t, list, src)
	})
}

// again checks that what decodes encodes, and to bytes that decode to the same.
func again[T any](t *testing.T, c Codec[T], src []byte) {
	v, err := c.Decode(src)
	if err != nil {
		return
	}
	b, err := c.Append(nil, v)
	if err != nil {
		return // for example a time whose year has five digits
	}
	w, err := c.Decode(b)
	if err != nil {
		t.Fatalf("%x decodes, its encoding %x does not: %v", src, b, err)
	}
	b2, err := c.Append(nil, w)
	check(t, err)
	if len(b2) != len(b) { // maps have no order
		t.Fatalf("%x and %x", b, b2)
	}
}

// FuzzScalars: what decodes encodes to the same bytes.
func FuzzScalars(f *testing.F) {
	for n := range 17 {
		f.Add([]byte(strings.Repeat("\x01", n)))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		same(t, Bool(), src)
		same(t, Int(), src)
		same(t, Int8(), src)
		same(t, Int16(), src)
		same(t, Int32(), src)
		same(t, Int64(), src)
		same(t, Uint(), src)
		same(t, Uint8(), src)
		same(t, Uint16(), src)
		same(t, Uint32(), src)
		same(t, Uint64(), src)
		same(t, Float32(), src)
		same(t, Float64(), src)
		same(t, String(), src)
		same(t, Bytes(), src)
		same(t, Time(), src)
		same(t, Codec[uuid](array[uuid]{}), src)
	})
}

func same[T any](t *testing.T, c Codec[T], src []byte) {
	v, err := c.Decode(src)
	if size := c.Format().Size; size > 0 && len(src) != size && err == nil {
		t.Fatalf("%T: %d bytes decode", v, len(src))
	}
	if err != nil {
		return
	}
	b, err := c.Append(nil, v)
	if err != nil || !bytes.Equal(b, src) {
		t.Fatalf("%s: %x became %x, %v", reflect.TypeFor[T](), src, b, err)
	}
}
