package agg

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
)

type click struct {
	User string
	Ms   float64
	N    int64
}

func (c click) Latency() float64 { return c.Ms }

// text encodes strings for the tests.
type text struct{}

func (text) Append(dst []byte, s string) ([]byte, error) { return append(dst, s...), nil }
func (text) Decode(src []byte) (string, error)           { return string(src), nil }
func (text) Format() codec.Format                        { return codec.Format{ID: "string", Version: 1} }

// run adds values to one accumulator.
func run[In, Acc, Out any](t testing.TB, a Aggregator[In, Acc, Out], ins ...In) *Acc {
	t.Helper()
	if err := Err(a); err != nil {
		t.Fatal(err)
	}
	acc := new(Acc)
	a.Init(acc)
	for _, in := range ins {
		if err := a.Add(acc, in); err != nil {
			t.Fatal(err)
		}
	}
	return acc
}

func result[In, Acc, Out any](t testing.TB, a Aggregator[In, Acc, Out], ins ...In) (Out, bool) {
	t.Helper()
	return a.Result(run(t, a, ins...))
}

// same is the identity, to aggregate plain values.
func same[T any](v T) T { return v }

// aggregate stands for stream.Aggregate: it shows that everything is inferred.
func aggregate[T, Acc, Out any](_ []T, a Aggregator[T, Acc, Out]) string { return a.Kind() }

func TestInference(t *testing.T) {
	var clicks []click
	for want, got := range map[string]string{
		"quantile(0.01)":             aggregate(clicks, Quantile(0.99, click.Latency)),
		"quantile(0.02)":             aggregate(clicks, Quantiles([]float64{0.5, 0.9}, click.Latency, Accuracy(0.02))),
		"sum":                        aggregate(clicks, Sum(func(c click) int64 { return c.N })),
		"max":                        aggregate(clicks, Max(click.Latency)),
		"distinct(12)":               aggregate(clicks, Distinct(func(c click) string { return c.User })),
		"pair(count,quantile(0.01))": aggregate(clicks, Pair(Count[click](), Quantile(0.5, click.Latency))),
		"pair(quantile(0.01),count)": aggregate(clicks, Pair(Quantile(0.5, click.Latency), Count[click]())),
		"top(3,string)":              aggregate([]string{}, TopN(3, func(string) float64 { return 0 }, text{})),
		"reduce(string)":             aggregate([]string{}, ReduceEncoded(func(a, _ string) string { return a }, text{})),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSimpleAggregates(t *testing.T) {
	check := func(name string, got any, ok bool, want any, wantOK bool) {
		t.Helper()
		if ok != wantOK || ok && got != want {
			t.Errorf("%s: %v %v, want %v %v", name, got, ok, want, wantOK)
		}
	}
	n, ok := result(t, Count[int](), 5, 6)
	check("count", n, ok, int64(2), true)
	n, ok = result(t, Sum(same[int]), 5, -7)
	check("sum", n, ok, int64(-2), true)
	f, ok := result(t, SumFloat(same[float32]), 0.5, 0.25)
	check("sum of floats", f, ok, 0.75, true)
	i, ok := result(t, Min(same[int]), 5, -7, 3)
	check("min", i, ok, -7, true)
	f, ok = result(t, Max(same[float64]), -5, -7)
	check("max of negatives", f, ok, -5.0, true)
	i, ok = result(t, Max(same[int]))
	check("max of nothing", i, ok, 0, false)
	i, ok = result(t, Reduce(func(a, b int) int { return a*10 + b }), 1, 2, 3)
	check("reduce", i, ok, 123, true)
	s, ok := result(t, ReduceEncoded(func(a, b string) string { return a + b }, text{}), "x", "", "yz")
	check("reduce strings", s, ok, "xyz", true)
	s, ok = result(t, ReduceEncoded(func(a, b string) string { return a + b }, text{}), "")
	check("reduce to the empty string", s, ok, "", true)
	_, ok = result(t, ReduceEncoded(func(a, b string) string { return a + b }, text{}))
	check("reduce nothing", s, ok, "", false)
}

func TestJ09SumOverflow(t *testing.T) {
	s := Sum(same[int64])
	acc := run(t, s, math.MaxInt64)
	err := s.Add(acc, 1)
	if !errors.Is(err, ErrOverflow) || !strings.Contains(err.Error(), "9223372036854775807 + 1") || *acc != math.MaxInt64 {
		t.Errorf("MaxInt64 + 1: %v, accumulator %d", err, *acc)
	}
	acc = run(t, s, math.MinInt64)
	if err := s.Merge(acc, run(t, s, -1)); !errors.Is(err, ErrOverflow) {
		t.Errorf("MinInt64 merged with -1: %v", err)
	}
	if got, _ := result(t, s, math.MinInt64, math.MaxInt64, 1); got != 0 {
		t.Errorf("MinInt64 + MaxInt64 + 1 = %d", got)
	}
	for _, ins := range [][]int32{{2147483647, 1}, {1, 2147483647}} {
		if got, _ := result(t, Sum(same[int32]), ins...); got != 2147483648 {
			t.Errorf("int32 %v: %d", ins, got)
		}
	}
	u := Sum(same[uint64])
	if err := u.Add(run(t, u), 1<<63); !errors.Is(err, ErrOverflow) {
		t.Errorf("2^63: %v", err)
	}
	if got, _ := result(t, SumWrapping(same[int64]), math.MaxInt64, 1); got != math.MinInt64 {
		t.Errorf("wrapping: %d", got)
	}
	if got, _ := result(t, SumFloat(same[int64]), math.MaxInt64, 1); got != float64(1<<63) {
		t.Errorf("as float: %v", got)
	}
	c := Count[int]()
	full := int64(math.MaxInt64)
	if err := c.Merge(&full, run(t, c, 1)); !errors.Is(err, ErrOverflow) {
		t.Errorf("count: %v", err)
	}
}

func TestJ10NothingNaNAndOne(t *testing.T) {
	nan := math.NaN()
	median, mean := Quantile(0.5, same[float64]), Avg(same[float64])
	for _, ins := range [][]float64{nil, {nan, nan}} {
		if v, ok := result(t, median, ins...); ok {
			t.Errorf("median of %v: %v", ins, v)
		}
		if v, ok := result(t, mean, ins...); ok {
			t.Errorf("mean of %v: %v", ins, v)
		}
	}
	for _, ins := range [][]float64{{1, nan, 2}, {nan, 2, 1}, {2, 1, nan}} {
		if v, ok := result(t, median, ins...); !ok || v != 1.5 {
			t.Errorf("median of %v: %v %v", ins, v, ok)
		}
		if v, ok := result(t, mean, ins...); !ok || v != 1.5 {
			t.Errorf("mean of %v: %v %v", ins, v, ok)
		}
		if n := Skipped(median, run(t, median, ins...)); n != 1 {
			t.Errorf("median left out %d", n)
		}
		if n := Skipped(mean, run(t, mean, ins...)); n != 1 {
			t.Errorf("mean left out %d", n)
		}
		if v, ok := result(t, Min(same[float64]), ins...); !ok || v != 1 {
			t.Errorf("min of %v: %v", ins, v)
		}
	}
	qs := Quantiles([]float64{0, 0.25, 0.5, 0.99, 1}, same[float64])
	if v, ok := result(t, qs, 7); !ok || !slices.Equal(v, []float64{7, 7, 7, 7, 7}) {
		t.Errorf("quantiles of a single 7: %v", v)
	}
	if v, ok := result(t, mean, 7); !ok || v != 7 {
		t.Errorf("mean of a single 7: %v", v)
	}
	if n := Skipped(Count[float64](), run(t, Count[float64](), nan)); n != 0 {
		t.Errorf("count left out %d", n)
	}
}

func TestTopN(t *testing.T) {
	top := TopN(3, func(s string) float64 {
		if s == "nan" {
			return math.NaN()
		}
		return float64(len(s))
	}, text{})
	got, ok := result(t, top, "a", "bbb", "", "cc", "nan", "dd", "eeee")
	if !ok || !slices.Equal(got, []string{"eeee", "bbb", "cc"}) {
		t.Errorf("%q", got)
	}
	if n := Skipped(top, run(t, top, "nan", "x", "nan")); n != 2 {
		t.Errorf("left out %d", n)
	}
	if got, ok := result(t, top, "nan"); ok {
		t.Errorf("top of nothing: %q", got)
	}
	a, b := run(t, top, "aa", "b"), run(t, top, "cc", "ddd")
	if err := top.Merge(a, b); err != nil {
		t.Fatal(err)
	}
	if got, _ := top.Result(a); !slices.Equal(got, []string{"ddd", "aa", "cc"}) {
		t.Errorf("merged: %q", got)
	}
}

func TestPair(t *testing.T) {
	inner := Pair(Count[float64](), Max(same[float64]))
	p := Pair(Pair(Quantile(0.5, same[float64]), Avg(same[float64])), inner)
	acc := run(t, p)
	if _, ok := p.Result(acc); ok {
		t.Error("a result of nothing")
	}
	var vs []float64
	for i := range 100 {
		v := float64((i * 37) % 100)
		vs = append(vs, v)
		if err := p.Add(acc, v); err != nil {
			t.Fatal(err)
		}
		checkPair(t, p, acc, vs)
	}
	half := run(t, p, vs[:30]...)
	if err := p.Merge(half, run(t, p, vs[30:]...)); err != nil {
		t.Fatal(err)
	}
	checkPair(t, p, half, vs)
	only := run(t, Pair(Quantile(0.5, same[float64]), Count[float64]()), math.NaN())
	r, ok := Pair(Quantile(0.5, same[float64]), Count[float64]()).Result(only)
	if !ok || r.FirstOK || !r.SecondOK || r.Second != 1 {
		t.Errorf("of a NaN: %+v", r)
	}
}

func checkPair(t *testing.T, p Aggregator[float64, []byte, Both[Both[float64, float64], Both[int64, float64]]], acc *[]byte, vs []float64) {
	t.Helper()
	r, ok := p.Result(acc)
	median, _ := result(t, Quantile(0.5, same[float64]), vs...)
	mean, _ := result(t, Avg(same[float64]), vs...)
	want := Both[Both[float64, float64], Both[int64, float64]]{
		Both[float64, float64]{median, mean, true, true}, Both[int64, float64]{int64(len(vs)), slices.Max(vs), true, true}, true, true}
	if !ok || r != want {
		t.Fatalf("%d values: %+v, want %+v", len(vs), r, want)
	}
}

func TestPairRefusesPointers(t *testing.T) {
	p := Pair(Count[string](), Reduce(func(a, b string) string { return a }))
	if err := Err(p); err == nil || !strings.Contains(err.Error(), "free of pointers") {
		t.Errorf("%v", err)
	}
}

func TestInvalidArguments(t *testing.T) {
	for part, err := range map[string]error{
		"quantile 1.5": Err(Quantile(1.5, same[float64])), "quantile NaN": Err(Quantiles([]float64{0.5, math.NaN()}, same[float64])),
		"accuracy 0.5": Err(Quantile(0.5, same[float64], Accuracy(0.5))), "accuracy 0": Err(Distinct(same[string], Accuracy(0))),
		"top 0":       Err(TopN(0, func(string) float64 { return 0 }, text{})),
		"quantile -1": Err(Pair(Count[float64](), Quantile(-1, same[float64]))),
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want one that contains %q", err, part)
		}
	}
}

// mergeEqualsAdd compares an accumulator that got all values with one merged
// from those of consecutive parts.
func mergeEqualsAdd[In, Acc, Out any](t *testing.T, a Aggregator[In, Acc, Out], r *rand.Rand, gen func(*rand.Rand) In) {
	t.Helper()
	ins := make([]In, r.IntN(400))
	for i := range ins {
		ins[i] = gen(r)
	}
	whole, merged := run(t, a, ins...), run(t, a)
	for from := 0; from < len(ins); {
		to := from + r.IntN(len(ins)-from+1)
		part := run(t, a, ins[from:to]...)
		before := reflect.ValueOf(clone(*part)).Interface()
		if err := a.Merge(merged, part); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before, reflect.ValueOf(*part).Interface()) {
			t.Fatalf("%s: Merge changed the other accumulator", a.Kind())
		}
		from = to
	}
	x, okX := a.Result(whole)
	y, okY := a.Result(merged)
	if okX != okY || okX && !reflect.DeepEqual(x, y) {
		t.Fatalf("%s of %d values: %v %v, merged %v %v", a.Kind(), len(ins), x, okX, y, okY)
	}
	if Skipped(a, whole) != Skipped(a, merged) {
		t.Fatalf("%s: %d and %d left out", a.Kind(), Skipped(a, whole), Skipped(a, merged))
	}
}

func clone[Acc any](acc Acc) Acc {
	if b, ok := any(acc).([]byte); ok {
		return any(slices.Clone(b)).(Acc)
	}
	return acc
}

func TestMergeEqualsAdd(t *testing.T) {
	ints := func(r *rand.Rand) int64 { return r.Int64N(2000) - 1000 }
	floats := func(r *rand.Rand) float64 {
		switch r.IntN(12) {
		case 0:
			return math.NaN()
		case 1:
			return 0
		case 2:
			return math.Inf(1 - 2*r.IntN(2))
		}
		return (r.Float64() - 0.3) * math.Exp(float64(r.IntN(120)-60))
	}
	whole := func(r *rand.Rand) float64 { return float64(r.IntN(50)) }
	words := func(r *rand.Rand) string { return strings.Repeat("x", r.IntN(9)) + string(rune('a'+r.IntN(26))) }
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		mergeEqualsAdd(t, Count[int64](), r, ints)
		mergeEqualsAdd(t, Sum(same[int64]), r, ints)
		mergeEqualsAdd(t, SumWrapping(same[int64]), r, ints)
		mergeEqualsAdd(t, Min(same[float64]), r, floats)
		mergeEqualsAdd(t, Max(same[float64]), r, floats)
		mergeEqualsAdd(t, Avg(same[float64]), r, whole)
		mergeEqualsAdd(t, SumFloat(same[float64]), r, whole)
		mergeEqualsAdd(t, Quantiles([]float64{0, 0.01, 0.5, 0.9, 1}, same[float64]), r, floats)
		mergeEqualsAdd(t, Quantiles([]float64{0, 0.5, 1}, same[float64], Accuracy(0.1)), r, floats)
		mergeEqualsAdd(t, Distinct(same[int64]), r, ints)
		mergeEqualsAdd(t, Distinct(same[string], Accuracy(0.1)), r, words)
		mergeEqualsAdd(t, TopN(4, func(s string) float64 { return float64(len(s)) }, text{}), r, words)
		mergeEqualsAdd(t, ReduceEncoded(func(a, b string) string { return a + b }, text{}), r, words)
		mergeEqualsAdd(t, Reduce(func(a, b int64) int64 { return max(a, b) }), r, ints)
		mergeEqualsAdd(t, Pair(Quantile(0.5, same[float64]), Min(same[float64])), r, floats)
		mergeEqualsAdd(t, Pair(Quantile(0.5, same[float64]), Quantile(0.9, same[float64])), r, floats)
	}
}

func TestFlatAddInSpareCapacityAllocatesNothing(t *testing.T) {
	q, d := Quantile(0.5, same[float64]), Distinct(same[int64])
	p := Pair(Quantile(0.5, same[float64]), Count[float64]())
	accQ, accD, accP := make([]byte, 0, 1<<13), make([]byte, 0, 1<<13), make([]byte, 0, 1<<13)
	q.Init(&accQ)
	d.Init(&accD)
	p.Init(&accP)
	for i := range 400 { // so that no form changes any more
		_ = q.Add(&accQ, float64(1+i))
		_ = d.Add(&accD, int64(i))
		_ = p.Add(&accP, float64(1+i))
	}
	v := 1.0
	n := testing.AllocsPerRun(1000, func() {
		v = math.Mod(v*1.1, 400) + 1
		if q.Add(&accQ, v) != nil || d.Add(&accD, int64(v)) != nil {
			t.Fatal("Add failed")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func fuzzFlat[In, Out any](t *testing.T, a Aggregator[In, []byte, Out], b, o []byte, in In) {
	b, o = slices.Clone(b), slices.Clone(o)
	a.Result(&b)
	Skipped(a, &b)
	if a.Add(&b, in) == nil {
		a.Result(&b)
	}
	if a.Merge(&b, &o) == nil {
		a.Result(&b)
	}
}

func FuzzForeignAccumulators(f *testing.F) {
	q := Quantiles([]float64{0, 0.3, 1}, same[float64])
	bins := run(f, q, 1, 2, -3)
	for i := range 300 {
		_ = q.Add(bins, float64(i-100))
	}
	top := TopN(2, func(s string) float64 { return float64(len(s)) }, text{})
	f.Add(*run(f, q, 1, 2), *bins)
	f.Add(*bins, *run(f, q, 1e300, -1e-300))
	f.Add(*run(f, Distinct(same[int64]), 1, 2, 3), []byte{1, 12})
	f.Add(*run(f, top, "a", "bb"), *run(f, top, "cc"))
	f.Add(*run(f, Pair(Count[float64](), q), 1, 2), []byte{4, 0, 0, 0, 1})
	wild := slices.Clone(*bins)
	binary.LittleEndian.PutUint32(wild[offStores+4:], 1<<31-1)
	f.Add(wild, wild)
	f.Fuzz(func(t *testing.T, b, o []byte) {
		fuzzFlat(t, q, b, o, 1.5)
		fuzzFlat(t, Distinct(same[int64]), b, o, 7)
		fuzzFlat(t, Distinct(same[int64], Accuracy(0.1)), b, o, 7)
		fuzzFlat(t, top, b, o, "abc")
		fuzzFlat(t, Pair(Count[float64](), q), b, o, 2)
		fuzzFlat(t, Pair(q, q), b, o, 2)
		fuzzFlat(t, ReduceEncoded(func(a, b string) string { return a + b }, text{}), b, o, "x")
	})
}
