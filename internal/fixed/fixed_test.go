package fixed

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

type sample struct {
	A bool
	B int64
	C [2]uint16
	D struct{ X, Y float32 }
	E int
}

func TestGolden(t *testing.T) {
	l, err := Of(reflect.TypeFor[sample]())
	if err != nil {
		t.Fatal(err)
	}
	v := sample{true, -2, [2]uint16{1, 0x0203}, struct{ X, Y float32 }{1, -1}, -3}
	enc := l.Append(nil, unsafe.Pointer(&v))
	if want := "01" + "feffffffffffffff" + "01000302" + "0000803f" + "000080bf" + "fdffffffffffffff"; fmt.Sprintf("%x", enc) != want {
		t.Errorf("%x, want %s", enc, want)
	}
	if l.Size() != len(enc) {
		t.Errorf("size %d, encoded %d", l.Size(), len(enc))
	}
	if want := "struct{A bool; B int64; C [2]uint16; D struct{X float32; Y float32}; E int64}"; l.String() != want {
		t.Errorf("%s", l)
	}
	var back sample
	if err := l.Load(unsafe.Pointer(&back), enc); err != nil || back != v {
		t.Errorf("%+v, %v", back, err)
	}
}

// The names and sizes are those of snapshots.
func TestForms(t *testing.T) {
	type padded struct {
		A int32
		_ int32
		B [3]bool
		C struct{}
	}
	for _, c := range []struct {
		v     any
		name  string
		size  int
		plain bool
	}{
		{int(0), "int64", 8, true},
		{uintptr(0), "uint64", 8, true},
		{false, "bool", 1, true},
		{complex(1, 1), "complex128", 16, true},
		{[5]byte{}, "[5]uint8", 5, true},
		{[2][2]int16{}, "[2][2]int16", 8, true},
		{struct{}{}, "struct{}", 1, false},
		{[0]int64{}, "[0]int64", 1, false},
		{struct {
			_ [0]func() // as in types that must not be compared
			A int64
		}{}, "struct{_ [0]; A int64}", 8, true},
		{padded{}, "struct{A int32; B [3]bool; C struct{}}", 7, false},
		{struct {
			A int32
			B bool
		}{}, "struct{A int32; B bool}", 5, false},
	} {
		l, err := Of(reflect.TypeOf(c.v))
		if err != nil {
			t.Errorf("%T: %v", c.v, err)
			continue
		}
		v := reflect.New(reflect.TypeOf(c.v)).UnsafePointer()
		if enc := l.Append(nil, v); l.String() != c.name || l.Size() != c.size || len(enc) != c.size || l.Plain() != c.plain {
			t.Errorf("%T: %s, %d bytes, wrote %d, plain %v; want %s, %d bytes, plain %v",
				c.v, l, l.Size(), len(enc), l.Plain(), c.name, c.size, c.plain)
		}
	}
	l, err := Of(reflect.TypeFor[padded]())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Load(unsafe.Pointer(&padded{}), []byte{0, 0, 0, 0, 1, 0, 2}); err == nil || !strings.Contains(err.Error(), "byte 6 is 0x2") {
		t.Errorf("2 as a bool: %v", err)
	}
}

func TestRefused(t *testing.T) {
	type bad struct{ A struct{ B []int } }
	if _, err := Of(reflect.TypeFor[bad]()); err == nil || !strings.Contains(err.Error(), "field A: field B: it holds a slice") {
		t.Errorf("%v", err)
	}
}

func FuzzLoad(f *testing.F) {
	l, err := Of(reflect.TypeFor[sample]())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(make([]byte, l.Size()))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, src []byte) {
		var v sample
		if l.Load(unsafe.Pointer(&v), src) != nil {
			return
		}
		if got := l.Append(nil, unsafe.Pointer(&v)); string(got) != string(src) {
			t.Fatalf("%x becomes %x", src, got)
		}
	})
}
