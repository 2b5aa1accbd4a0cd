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

func TestRefused(t *testing.T) {
	type bad struct{ A struct{ B []int } }
	if _, err := Of(reflect.TypeFor[bad]()); err == nil || !strings.Contains(err.Error(), "field A: field B: it holds a slice") {
		t.Errorf("%v", err)
	}
	if _, err := Of(reflect.TypeFor[[0]*int]()); err == nil {
		t.Error("an array of no pointers")
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
