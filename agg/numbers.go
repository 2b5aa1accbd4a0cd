package agg

import (
	"errors"
	"fmt"
	"math"
)

// Integer is any integer type.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Float is any floating-point type.
type Float interface{ ~float32 | ~float64 }

// Number is any integer or floating-point type.
type Number interface{ Integer | Float }

// ErrOverflow says that a sum does not fit into an int64.
var ErrOverflow = errors.New("aggregate overflow")

// Count counts records.
func Count[T any]() Aggregator[T, int64, int64] { return count[T]{} }

type count[T any] struct{}

func (count[T]) Init(acc *int64) { *acc = 0 }

func (count[T]) Add(acc *int64, _ T) error {
	*acc++
	return nil
}

func (count[T]) Merge(acc, other *int64) error   { return addInt(acc, *other) }
func (count[T]) Result(acc *int64) (int64, bool) { return *acc, true }
func (count[T]) Kind() string                    { return "count" }

// Sum adds up the integers that of reads from records, whatever their type, in
// an int64. A sum that leaves its range fails with ErrOverflow; SumWrapping
// and SumFloat do not.
func Sum[T any, N Integer](of func(T) N) Aggregator[T, int64, int64] { return sum[T, N]{of} }

type sum[T any, N Integer] struct{ of func(T) N }

func (sum[T, N]) Init(acc *int64) { *acc = 0 }

func (s sum[T, N]) Add(acc *int64, in T) error {
	n := s.of(in)
	v := int64(n)
	if (n > 0) != (v > 0) {
		return fmt.Errorf("%w: %d is beyond an int64", ErrOverflow, n)
	}
	return addInt(acc, v)
}

func (sum[T, N]) Merge(acc, other *int64) error   { return addInt(acc, *other) }
func (sum[T, N]) Result(acc *int64) (int64, bool) { return *acc, true }
func (sum[T, N]) Kind() string                    { return "sum" }

func addInt(acc *int64, v int64) error {
	to := *acc + v
	if (to > *acc) != (v > 0) && v != 0 {
		return fmt.Errorf("%w: %d + %d is beyond an int64", ErrOverflow, *acc, v)
	}
	*acc = to
	return nil
}

// SumWrapping adds up integers modulo 2^64, without an error on overflow.
func SumWrapping[T any, N Integer](of func(T) N) Aggregator[T, int64, int64] {
	return wrapping[T, N]{of}
}

type wrapping[T any, N Integer] struct{ of func(T) N }

func (wrapping[T, N]) Init(acc *int64) { *acc = 0 }

func (s wrapping[T, N]) Add(acc *int64, in T) error {
	*acc += int64(s.of(in))
	return nil
}

func (wrapping[T, N]) Merge(acc, other *int64) error {
	*acc += *other
	return nil
}

func (wrapping[T, N]) Result(acc *int64) (int64, bool) { return *acc, true }
func (wrapping[T, N]) Kind() string                    { return "sum-wrapping" }

// Mean is the accumulator of SumFloat and Avg.
type Mean struct {
	Sum float64
	// N counts the values in Sum, NaN those left out.
	N, NaN int64
}

func (m *Mean) add(v float64) {
	if math.IsNaN(v) {
		m.NaN++
		return
	}
	m.Sum += v
	m.N++
}

func (m *Mean) merge(o *Mean) {
	m.Sum += o.Sum
	m.N += o.N
	m.NaN += o.NaN
}

// SumFloat adds up numbers in a float64. NaN are left out and counted; the sum
// of nothing else has no result.
func SumFloat[T any, N Number](of func(T) N) Aggregator[T, Mean, float64] {
	return sumFloat[T, N]{mean[T, N]{of}}
}

// Avg is the arithmetic mean. NaN are left out and counted; the mean of
// nothing else has no result.
func Avg[T any, N Number](of func(T) N) Aggregator[T, Mean, float64] {
	return avg[T, N]{mean[T, N]{of}}
}

type mean[T any, N Number] struct{ of func(T) N }

func (mean[T, N]) Init(acc *Mean) { *acc = Mean{} }

func (s mean[T, N]) Add(acc *Mean, in T) error {
	acc.add(float64(s.of(in)))
	return nil
}

func (mean[T, N]) Merge(acc, other *Mean) error {
	acc.merge(other)
	return nil
}

func (mean[T, N]) Skipped(acc *Mean) int64 { return acc.NaN }

type sumFloat[T any, N Number] struct{ mean[T, N] }

func (sumFloat[T, N]) Result(acc *Mean) (float64, bool) { return acc.Sum, acc.N > 0 }
func (sumFloat[T, N]) Kind() string                     { return "sum-float" }

type avg[T any, N Number] struct{ mean[T, N] }

func (avg[T, N]) Result(acc *Mean) (float64, bool) { return acc.Sum / float64(acc.N), acc.N > 0 }
func (avg[T, N]) Kind() string                     { return "avg" }

// Extreme is the accumulator of Min and Max.
type Extreme[N Number] struct {
	Value N
	// Seen: Value is one of the values; NaN counts those left out.
	Seen bool
	NaN  int64
}

// Min is the smallest of the numbers. NaN are left out and counted; of nothing
// else there is no result.
func Min[T any, N Number](of func(T) N) Aggregator[T, Extreme[N], N] {
	return extreme[T, N]{of, false}
}

// Max is the greatest of the numbers; otherwise it is as Min.
func Max[T any, N Number](of func(T) N) Aggregator[T, Extreme[N], N] {
	return extreme[T, N]{of, true}
}

type extreme[T any, N Number] struct {
	of  func(T) N
	max bool
}

func (extreme[T, N]) Init(acc *Extreme[N]) { *acc = Extreme[N]{} }

func (s extreme[T, N]) Add(acc *Extreme[N], in T) error {
	v := s.of(in)
	if v != v {
		acc.NaN++
		return nil
	}
	s.take(acc, v)
	return nil
}

func (s extreme[T, N]) take(acc *Extreme[N], v N) {
	if !acc.Seen || s.max && v > acc.Value || !s.max && v < acc.Value {
		acc.Value, acc.Seen = v, true
	}
}

func (s extreme[T, N]) Merge(acc, other *Extreme[N]) error {
	acc.NaN += other.NaN
	if other.Seen {
		s.take(acc, other.Value)
	}
	return nil
}

func (extreme[T, N]) Result(acc *Extreme[N]) (N, bool) { return acc.Value, acc.Seen }
func (extreme[T, N]) Skipped(acc *Extreme[N]) int64    { return acc.NaN }

func (s extreme[T, N]) Kind() string {
	if s.max {
		return "max"
	}
	return "min"
}
