package agg

import (
	"errors"
	"fmt"
	"slices"
)

// Quantile estimates the q-quantile, 0 <= q <= 1, of the numbers that of reads
// from records: 0.5 is the median, 0.99 the 99th percentile. It interpolates
// between the two closest ranks. Of up to 32 numbers per slice and window it
// is exact; beyond, each rank's value is within a relative error (see
// Accuracy) of 0.01 of the exact one. NaN are left out and counted; of nothing
// else there is no result.
//
// The accumulator is a sketch that takes about a byte for each percent by which
// magnitudes differ (a few hundred bytes where they differ a thousandfold),
// more where a bin counts above 255, and never more than 35 decimal orders'
// worth: numbers smaller than that below the greatest lose accuracy.
func Quantile[T any](q float64, of func(T) float64, opts ...Option) Aggregator[T, []byte, float64] {
	return &quantile[T]{newQuantiles([]float64{q}, of, opts)}
}

// Quantiles estimates several quantiles at once, from one sketch; the result
// has them in the order of qs. Otherwise it is as Quantile.
func Quantiles[T any](qs []float64, of func(T) float64, opts ...Option) Aggregator[T, []byte, []float64] {
	a := newQuantiles(slices.Clone(qs), of, opts)
	return &a
}

func newQuantiles[T any](qs []float64, of func(T) float64, opts []Option) quantiles[T] {
	o := collect(0.01, opts)
	return quantiles[T]{of, qs, newScale(o.accuracy), errors.Join(o.err, checkQuantiles(qs))}
}

func errQuantile(q float64) error {
	return fmt.Errorf("quantile %v: it must be between 0 and 1", q)
}

type quantiles[T any] struct {
	of    func(T) float64
	qs    []float64
	scale scale
	err   error
}

func (a *quantiles[T]) Err() error { return a.err }

func (*quantiles[T]) Init(acc *[]byte) { *acc = (*acc)[:0] }

func (a *quantiles[T]) Add(acc *[]byte, in T) error {
	b := *acc
	if !valid(b) {
		return errSketch
	}
	if v := a.of(in); v == v {
		*acc = a.scale.add(b, v)
	} else {
		*acc = a.scale.skip(b)
	}
	return nil
}

func (a *quantiles[T]) Merge(acc, other *[]byte) error {
	if !valid(*acc) || !valid(*other) {
		return errSketch
	}
	*acc = a.scale.merge(*acc, *other)
	return nil
}

func (a *quantiles[T]) Result(acc *[]byte) ([]float64, bool) {
	b := *acc
	n := total(b)
	if n == 0 {
		return nil, false
	}
	out := make([]float64, len(a.qs))
	for i, q := range a.qs {
		out[i] = a.scale.quantile(b, n, q)
	}
	return out, true
}

func (*quantiles[T]) Skipped(acc *[]byte) int64 {
	if b := *acc; len(b) > 0 && valid(b) {
		return int64(u64(b, skippedOff(b)))
	}
	return 0
}

// Kind does not name the quantiles: which are asked for may change.
func (a *quantiles[T]) Kind() string { return fmt.Sprintf("quantile(%v)", a.scale.accuracy) }

// quantile is quantiles of one.
type quantile[T any] struct{ quantiles[T] }

func (a *quantile[T]) Result(acc *[]byte) (float64, bool) {
	b := *acc
	n := total(b)
	if n == 0 {
		return 0, false
	}
	return a.scale.quantile(b, n, a.qs[0]), true
}
