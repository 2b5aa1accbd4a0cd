package agg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// exactQuantile interpolates between the closest ranks of sorted values.
func exactQuantile(sorted []float64, q float64) float64 {
	rank := q * float64(len(sorted)-1)
	i := int(rank)
	if part := rank - float64(i); part > 0 {
		return sorted[i]*(1-part) + sorted[i+1]*part
	}
	return sorted[i]
}

func TestSketchErrorBound(t *testing.T) {
	distributions := map[string]func(*rand.Rand) float64{
		"uniform":     func(r *rand.Rand) float64 { return r.Float64() * 1000 },
		"exponential": func(r *rand.Rand) float64 { return r.ExpFloat64() },
		"lognormal":   func(r *rand.Rand) float64 { return math.Exp(3 * r.NormFloat64()) },
		"negative":    func(r *rand.Rand) float64 { return -math.Exp(r.NormFloat64()) },
		"integers":    func(r *rand.Rand) float64 { return float64(1 + r.IntN(50)) },
		"constant":    func(*rand.Rand) float64 { return 42 },
	}
	qs := []float64{0, 0.001, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1}
	for name, draw := range distributions {
		for _, n := range []int{1, 2, 31, 32, 33, 500, 20_000} {
			for _, accuracy := range []float64{0.001, 0.01, 0.1} {
				r := rand.New(rand.NewPCG(uint64(n), 1))
				vs := make([]float64, n)
				for i := range vs {
					vs[i] = draw(r)
				}
				got, ok := result(t, Quantiles(qs, same[float64], Accuracy(accuracy)), vs...)
				slices.Sort(vs)
				for i, q := range qs {
					want := exactQuantile(vs, q)
					bound := accuracy * math.Abs(want) * (1 + 1e-9)
					if n <= maxValues {
						bound = 0
					}
					if !ok || math.Abs(got[i]-want) > bound {
						t.Errorf("%s, %d values, accuracy %v: %v-quantile %v, exact %v", name, n, accuracy, q, got[i], want)
					}
				}
			}
		}
	}
}

// Values of both signs and zero: each rank's value is within the bound.
func TestSketchMixedSigns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	vs := make([]float64, 1001)
	qs := make([]float64, len(vs))
	for i := range vs {
		vs[i] = math.Round(r.NormFloat64() * 20)
		qs[i] = float64(i) / 1000
	}
	got, _ := result(t, Quantiles(qs, same[float64]), vs...)
	slices.Sort(vs)
	for i, want := range vs {
		if math.Abs(got[i]-want) > 0.0101*math.Abs(want) {
			t.Errorf("rank %d: %v, exact %v", i, got[i], want)
		}
	}
}

func TestSketchExtremes(t *testing.T) {
	inf := math.Inf(1)
	vs := []float64{-inf, -math.MaxFloat64, -1, -math.SmallestNonzeroFloat64, 0, math.SmallestNonzeroFloat64, 1, math.MaxFloat64, inf}
	for len(vs) < 45 {
		vs = append(vs, vs[:9]...)
	}
	a := Quantiles([]float64{0, 0.5, 1}, same[float64])
	acc := run(t, a, vs...)
	got, ok := a.Result(acc)
	if !ok || got[0] != -inf || got[1] != 0 || got[2] != inf {
		t.Errorf("%v", got)
	}
	limit := binsHeader + 2*int(newScale(0.01).bins)
	if len(*acc) > limit {
		t.Errorf("%d bytes, more than %d", len(*acc), limit)
	}
}

func TestSketchSize(t *testing.T) {
	acc := run(t, Quantile(0.5, same[float64]))
	for i := range 100_000 {
		_ = Quantile(0.5, same[float64]).Add(acc, 1+float64(i%1000))
	}
	if want := binsHeader + 2*347; len(*acc) != want {
		t.Errorf("1 to 1000, each a hundred times: %d bytes, want %d", len(*acc), want)
	}
}

func TestGoldenSketch(t *testing.T) {
	a := Quantile(0.5, same[float64], Accuracy(0.1))
	if got := fmt.Sprintf("%x", *run(t, a, 1, math.NaN())); got != "00"+"0100000000000000"+"000000000000f03f" {
		t.Errorf("values: %s", got)
	}
	acc := run(t, a, 0, -2)
	for range 300 {
		_ = a.Add(acc, 1)
	}
	want := "01020000" + "01000000" + "04000000" + "01000000" + "00000000" + "0000000000000000" + "0100000000000000" +
		"00000000000000c0" + "000000000000f03f" + "0100" + "2c01"
	if got := fmt.Sprintf("%x", *acc); got != want {
		t.Errorf("bins: %s, want %s", got, want)
	}
}

func TestDistinctCounts(t *testing.T) {
	d := Distinct(same[int64])
	acc := run(t, d)
	for i := range int64(100_000) {
		for range 2 {
			if err := d.Add(acc, i*7919); err != nil {
				t.Fatal(err)
			}
		}
		if i > 2000 && i%97 != 0 {
			continue
		}
		n, ok := d.Result(acc)
		if i < 256 && (n != i+1 || !ok) {
			t.Fatalf("%d different values: %d", i+1, n)
		}
		if e := math.Abs(float64(n)/float64(i+1) - 1); e > 0.06 {
			t.Fatalf("%d different values: %d, off by %.3f", i+1, n, e)
		}
	}
	if len(*acc) != 2+4096 {
		t.Errorf("%d bytes", len(*acc))
	}
	if n, ok := result(t, d); n != 0 || !ok {
		t.Errorf("nothing: %d %v", n, ok)
	}
}

// The standard error over many counts is what Accuracy promises.
func TestDistinctStandardError(t *testing.T) {
	for _, accuracy := range []float64{0.02, 0.1} {
		d := Distinct(same[int64], Accuracy(accuracy))
		for _, n := range []int64{1000, 10_000} {
			const runs = 100
			var squares, bias float64
			for i := range int64(runs) {
				acc := run(t, d)
				for v := range n {
					_ = d.Add(acc, i<<32|v)
				}
				got, _ := d.Result(acc)
				e := float64(got)/float64(n) - 1
				squares, bias = squares+e*e/runs, bias+e/runs
			}
			if s := math.Sqrt(squares); s > accuracy*1.1 || math.Abs(bias) > accuracy/2 {
				t.Errorf("accuracy %v, %d values: standard error %.4f, bias %.4f", accuracy, n, s, bias)
			}
		}
	}
}

func TestDistinctIsAlikeForAllIntegers(t *testing.T) {
	want := *run(t, Distinct(same[int64]), -1, 5)
	for name, got := range map[string][]byte{
		"int8": *run(t, Distinct(same[int8]), -1, 5), "int16": *run(t, Distinct(same[int16]), -1, 5),
		"int32": *run(t, Distinct(same[int32]), -1, 5), "int": *run(t, Distinct(same[int]), -1, 5),
	} {
		if !slices.Equal(got, want) {
			t.Errorf("%s is hashed otherwise", name)
		}
	}
	want = *run(t, Distinct(same[uint64]), 200, 5)
	for name, got := range map[string][]byte{
		"uint8": *run(t, Distinct(same[uint8]), 200, 5), "uint16": *run(t, Distinct(same[uint16]), 200, 5),
		"uint32": *run(t, Distinct(same[uint32]), 200, 5),
	} {
		if !slices.Equal(got, want) {
			t.Errorf("%s is hashed otherwise", name)
		}
	}
}

func BenchmarkQuantileAdd(b *testing.B) {
	a := Quantile(0.99, same[float64])
	acc := make([]byte, 0, 4096)
	vs := make([]float64, 1024)
	for i := range vs {
		vs[i] = math.Exp(rand.NormFloat64())
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := a.Add(&acc, vs[i&1023]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkQuantileMerge(b *testing.B) {
	a := Quantile(0.99, same[float64])
	for _, n := range []int{10, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			part := run(b, a)
			for range n {
				_ = a.Add(part, math.Exp(rand.NormFloat64()))
			}
			acc := make([]byte, 0, 8192)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%60 == 0 {
					acc = acc[:0]
				}
				if err := a.Merge(&acc, part); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPairAdd(b *testing.B) {
	a := Pair(Quantile(0.99, same[float64]), Count[float64]())
	acc := make([]byte, 0, 4096)
	for i := range 1000 {
		_ = a.Add(&acc, float64(i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := a.Add(&acc, float64(i&511)); err != nil {
			b.Fatal(err)
		}
	}
}
