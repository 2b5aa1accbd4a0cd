package keygroup

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/zeebo/xxh3"
)

type userID string

type flat struct {
	A int64
	B int32
	C int32
}

type padded struct {
	A bool
	B int64
	_ int32
	C string
	D [3]uint16
	E struct{ F float32 }
}

// vector is a key, its encoding and its hash.
type vector struct {
	id   string
	enc  []byte
	hash uint32
	back any
}

func encode[K comparable](t *testing.T, k K) vector {
	t.Helper()
	e, err := NewEncoding[K]()
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHasher[K]()
	if err != nil {
		t.Fatal(err)
	}
	enc := e.Append(nil, k)
	back, err := e.Decode(enc)
	if err != nil {
		t.Fatalf("%v: %v", k, err)
	}
	var all [3]uint32
	h.HashAll([]K{k, k, k}, all[:])
	if one := h.Hash(k); all != [3]uint32{one, one, one} {
		t.Errorf("%v: HashAll %v, Hash %d", k, all, one)
	}
	if want := uint32(xxh3.Hash(enc)); h.Hash(k) != want {
		t.Errorf("%v: Hash %#x, want that of its encoding, %#x", k, h.Hash(k), want)
	}
	if f := e.Format(); f.Size != 0 && f.Size != len(enc) || f.Version != 1 {
		t.Errorf("%v: format %+v, encoding has %d bytes", k, f, len(enc))
	}
	if e.InMemory() && !bytes.Equal(enc, unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k))) {
		t.Errorf("%v: InMemory, but encoded as %x", k, enc)
	}
	return vector{e.Format().ID, enc, h.Hash(k), back}
}

func TestGoldenKeys(t *testing.T) {
	cases := []struct {
		got  vector
		id   string
		enc  string
		hash uint32
		back any
	}{
		{encode(t, int64(-2)), "int64", "feffffffffffffff", 0x17301859, int64(-2)},
		{encode(t, -2), "int64", "feffffffffffffff", 0x17301859, -2},
		{encode(t, uint(7)), "uint64", "0700000000000000", 0xD6B596AF, uint(7)},
		{encode(t, int32(1)), "int32", "01000000", 0x96D65708, int32(1)},
		{encode(t, uint16(258)), "uint16", "0201", 0x7C53EF78, uint16(258)},
		{encode(t, int8(-1)), "int8", "ff", 0x6B29D72E, int8(-1)},
		{encode(t, true), "bool", "01", 0xEB86CEEB, true},
		{encode(t, 1.5), "float64", "000000000000f83f", 0x9FF63458, 1.5},
		{encode(t, float32(1.5)), "float32", "0000c03f", 0x39F44DB0, float32(1.5)},
		{encode(t, "userA"), "string", "7573657241", 0x55E13E6A, "userA"},
		{encode(t, userID("userA")), "string", "7573657241", 0x55E13E6A, userID("userA")},
		{encode(t, ""), "string", "", 0x38D394C2, ""},
		{encode(t, [16]byte{1, 15: 2}), "bytes16", "01000000000000000000000000000002", 0x85E89B62, [16]byte{1, 15: 2}},
		{encode(t, flat{1, 2, 3}), "struct{int64;int32;int32}", "01000000000000000200000003000000", 0x5EDDE20D, flat{1, 2, 3}},
		{encode(t, padded{A: true, B: 2, C: "xy", D: [3]uint16{1, 2, 3}, E: struct{ F float32 }{1}}),
			"struct{bool;int64;string;[3]uint16;struct{float32}}",
			"01" + "0200000000000000" + "027879" + "010002000300" + "0000803f", 0xF68F1275,
			padded{A: true, B: 2, C: "xy", D: [3]uint16{1, 2, 3}, E: struct{ F float32 }{1}}},
		{encode(t, struct{}{}), "struct{}", "", 0x38D394C2, struct{}{}},
	}
	for _, c := range cases {
		if c.got.id != c.id || fmt.Sprintf("%x", c.got.enc) != c.enc || c.got.hash != c.hash {
			t.Errorf("%#v: %q %x %#X, want %q %s %#X", c.back, c.got.id, c.got.enc, c.got.hash, c.id, c.enc, c.hash)
		}
		if c.got.back != c.back {
			t.Errorf("decoded %#v, want %#v", c.got.back, c.back)
		}
	}
}

func TestShortHashesEqualXXH3(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		var b [8]byte
		v := r.Uint64() >> (r.Uint32() % 64)
		binary.LittleEndian.PutUint64(b[:], v)
		if got, want := hash8(v), uint32(xxh3.Hash(b[:])); got != want {
			t.Fatalf("hash8(%#x) = %#x, want %#x", v, got, want)
		}
		if got, want := hash4(uint32(v)), uint32(xxh3.Hash(b[:4])); got != want {
			t.Fatalf("hash4(%#x) = %#x, want %#x", uint32(v), got, want)
		}
	}
}

func TestS09NaNAndSignedZeroKeys(t *testing.T) {
	nan1, nan2 := math.Float64frombits(0x7ff8000000000001), math.Float64frombits(0xfff8000000000002)
	minus := math.Copysign(0, -1)
	same := func(name string, a, b vector) {
		if !bytes.Equal(a.enc, b.enc) || a.hash != b.hash {
			t.Errorf("%s: %x and %x are different keys", name, a.enc, b.enc)
		}
	}
	same("NaN", encode(t, nan1), encode(t, nan2))
	same("zero", encode(t, 0.0), encode(t, minus))
	same("NaN 32", encode(t, float32(nan1)), encode(t, math.Float32frombits(0xffc00001)))
	same("zero 32", encode(t, float32(0)), encode(t, float32(minus)))
	type point struct{ X, Y float64 }
	same("struct", encode(t, point{nan1, minus}), encode(t, point{nan2, 0}))
	if bytes.Equal(encode(t, nan1).enc, encode(t, 0.0).enc) {
		t.Error("NaN equals zero")
	}
}

func TestUnsupportedKeys(t *testing.T) {
	refused := func(name string, err error, part string) {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %v, want one that contains %q", name, err, part)
		}
	}
	_, err := NewHasher[*int]()
	refused("pointer", err, "it holds a ptr")
	_, err = NewHasher[any]()
	refused("interface", err, "it holds a interface")
	_, err = NewHasher[chan int]()
	refused("channel", err, "it holds a chan")
	_, err = NewEncoding[struct{ A struct{ B *int } }]()
	refused("nested", err, "field A: field B: it holds a ptr")
	_, err = NewEncoding[[2]complex128]()
	refused("complex", err, "it holds a complex128")
}

func TestEncodingIsInjective(t *testing.T) {
	type pair struct{ A, B string }
	if bytes.Equal(encode(t, pair{"a", "bc"}).enc, encode(t, pair{"ab", "c"}).enc) {
		t.Error(`{"a" "bc"} and {"ab" "c"} are one key`)
	}
}

func TestHashAllocatesNothing(t *testing.T) {
	ints, _ := NewHasher[int64]()
	structs, _ := NewHasher[padded]()
	keys, mixed, out := make([]int64, 64), []padded{{C: strings.Repeat("x", 64)}}, make([]uint32, 64)
	if n := testing.AllocsPerRun(100, func() { ints.HashAll(keys, out); structs.HashAll(mixed, out[:1]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x01\x02\x00\x00\x00\x00\x00\x00\x00\x02xy\x01\x00\x02\x00\x03\x00\x00\x00\x80\x3f"))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	e, err := NewEncoding[padded]()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		k, err := e.Decode(src)
		if err != nil {
			if !reflect.ValueOf(k).IsZero() {
				t.Fatalf("a key %v with error %v", k, err)
			}
			return
		}
		again, err := e.Decode(e.Append(nil, k))
		if err != nil || again != k && k.E.F == k.E.F {
			t.Fatalf("%v becomes %v, %v", k, again, err)
		}
	})
}

func BenchmarkHashAll(b *testing.B) {
	const n = 1024
	out := make([]uint32, n)
	ints, texts, flats := make([]int64, n), make([]string, n), make([]flat, n)
	for i := range n {
		ints[i], flats[i] = int64(i)*7919, flat{int64(i), 1, 2}
		texts[i] = fmt.Sprintf("%08d-0000-4000-8000-%012d", i, i)
	}
	benchAll(b, "int64", ints, out)
	benchAll(b, "string36", texts, out)
	benchAll(b, "struct16", flats, out)
}

func benchAll[K comparable](b *testing.B, name string, keys []K, out []uint32) {
	h, err := NewHasher[K]()
	if err != nil {
		b.Fatal(err)
	}
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h.HashAll(keys, out)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(keys)), "ns/key")
	})
}
