package agg

import (
	"math"
	"slices"
)

// total is the number of values in a sketch, 0 if b is none.
func total(b []byte) uint64 {
	if len(b) == 0 || !valid(b) {
		return 0
	}
	if b[0] == formValues {
		return uint64(len(b)-valuesHeader) / 8
	}
	n := u64(b, offZeros)
	width := int(b[offWidth])
	for at := binsHeader; at < len(b); at += width {
		n += binCount(b, at, width)
	}
	return n
}

// quantile returns the q-quantile of the n > 0 values of a valid sketch. Between
// two values it interpolates: of 1 and 2 the median is 1.5.
func (s *scale) quantile(b []byte, n uint64, q float64) float64 {
	rank := q * float64(n-1)
	low := uint64(rank)
	part := rank - float64(low)
	if b[0] == formValues {
		var values [maxValues]float64
		vs := valuesIn(b, &values)
		slices.Sort(vs)
		return between(vs[low], vs[min(low+1, n-1)], part)
	}
	x, y := s.ranked(b, low)
	switch low {
	case 0:
		x = f64(b, offMin)
	case n - 1:
		x = f64(b, offMax)
	}
	return between(x, y, part)
}

// between interpolates. Of two infinities of unlike sign it is the first.
func between(x, y, part float64) float64 {
	if part == 0 || x == y || math.IsInf(x, 0) && math.IsInf(y, 0) {
		return x
	}
	return x*(1-part) + y*part
}

// ranked returns the values of rank k, from 0, and of the next rank, in the
// bins form.
func (s *scale) ranked(b []byte, k uint64) (x, y float64) {
	lowest, highest := f64(b, offMin), f64(b, offMax)
	clamp := func(v float64) float64 { return max(min(v, highest), lowest) }
	found := false
	x, y = highest, highest
	s.ascend(b, func(v float64, n uint64) bool {
		switch {
		case found:
			y = clamp(v)
			return false
		case k+1 < n:
			x, y = clamp(v), clamp(v)
			return false
		case k < n:
			x, found = clamp(v), true
		}
		k -= min(k, n)
		return true
	})
	return x, y
}

// ascend calls fn with the value and the count of each bin that is not empty,
// in ascending order, until it returns false.
func (s *scale) ascend(b []byte, fn func(v float64, n uint64) bool) {
	width := int(b[offWidth])
	at, first := binStart(b, negative), firstOf(b, negative)
	for i := binsOf(b, negative) - 1; i >= 0; i-- {
		if n := binCount(b, at+i*width, width); n > 0 && !fn(-s.value(first+int64(i)), n) {
			return
		}
	}
	if n := u64(b, offZeros); n > 0 && !fn(0, n) {
		return
	}
	at, first = binStart(b, positive), firstOf(b, positive)
	for i := range binsOf(b, positive) {
		if n := binCount(b, at+i*width, width); n > 0 && !fn(s.value(first+int64(i)), n) {
			return
		}
	}
}

// checkQuantiles says which of qs is not between 0 and 1.
func checkQuantiles(qs []float64) error {
	for _, q := range qs {
		if !(q >= 0 && q <= 1) || math.IsNaN(q) {
			return errQuantile(q)
		}
	}
	return nil
}
