package keygroup

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// ordered checks the order of random keys against cmp.
func ordered[K comparable](t *testing.T, exact bool, gen func(*rand.Rand) K, compare func(a, b K) int) {
	t.Helper()
	e, err := NewEncoding[K]()
	if err != nil {
		t.Fatal(err)
	}
	o := OrderOf[K]()
	if o.Exact() != exact {
		t.Errorf("%T: exact is %v", *new(K), o.Exact())
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		a, b := gen(r), gen(r)
		x, y := e.Append(nil, a), e.Append(nil, b)
		want := compare(a, b)
		if got := o.Compare(x, y); got != want {
			t.Fatalf("%v and %v compare as %d, want %d", a, b, got, want)
		}
		rank := cmp.Compare(o.Rank(x), o.Rank(y))
		if rank != want && (exact || rank != 0) {
			t.Fatalf("the ranks of %v and %v compare as %d, want %d", a, b, rank, want)
		}
	}
}

func TestNaturalOrder(t *testing.T) {
	ordered(t, true, func(r *rand.Rand) int64 { return int64(r.Uint64()) >> r.IntN(64) }, cmp.Compare)
	ordered(t, true, func(r *rand.Rand) int { return int(r.Uint64()) >> r.IntN(64) }, cmp.Compare)
	ordered(t, true, func(r *rand.Rand) int8 { return int8(r.Uint32()) }, cmp.Compare)
	ordered(t, true, func(r *rand.Rand) uint16 { return uint16(r.Uint32()) }, cmp.Compare)
	ordered(t, true, func(r *rand.Rand) uint64 { return r.Uint64() >> r.IntN(64) }, cmp.Compare)
	floats := []float64{math.NaN(), math.Inf(-1), -1e300, -2.5, -math.SmallestNonzeroFloat64, 0, math.Copysign(0, -1), 1e-9, 1, 2.5, math.Inf(1)}
	ordered(t, true, func(r *rand.Rand) float64 { return floats[r.IntN(len(floats))] }, cmp.Compare)
	ordered(t, true, func(r *rand.Rand) float32 { return float32(floats[r.IntN(len(floats))]) }, cmp.Compare)
	text := func(r *rand.Rand) string {
		return strings.Repeat("a", r.IntN(10)) + string([]byte{byte(r.IntN(3)), byte(r.IntN(256))})[:r.IntN(3)]
	}
	ordered(t, false, text, cmp.Compare)
	ordered(t, false, func(r *rand.Rand) [3]byte { return [3]byte{byte(r.IntN(3)), byte(r.IntN(256))} },
		func(a, b [3]byte) int { return slices.Compare(a[:], b[:]) })
	ordered(t, false, func(r *rand.Rand) [2]int16 { return [2]int16{int16(r.IntN(3) - 1), int16(r.IntN(3) - 1)} },
		func(a, b [2]int16) int { return slices.Compare(a[:], b[:]) })
	type key struct {
		Name string
		_    int32
		N    int32
		Last bool
	}
	ordered(t, false, func(r *rand.Rand) key { return key{Name: text(r), N: r.Int32N(5) - 2, Last: r.IntN(2) == 0} },
		func(a, b key) int {
			number := map[bool]int{true: 1}
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.N, b.N), cmp.Compare(number[a.Last], number[b.Last]))
		})
	if got := OrderOf[struct{}]().Compare(nil, nil); got != 0 {
		t.Errorf("empty keys compare as %d", got)
	}
}

// Encodings that are no key's are ordered somehow.
func FuzzOrder(f *testing.F) {
	type key struct {
		Name string
		N    int32
		Raw  [5]byte
		F    float64
	}
	f.Add([]byte("\x01a\x00\x00\x00\x00"), []byte("\x05a"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		o := OrderOf[key]()
		if o.Compare(a, b) != -o.Compare(b, a) || o.Compare(a, a) != 0 {
			t.Fatalf("%x and %x are in no order", a, b)
		}
		_ = o.Rank(a)
	})
}
