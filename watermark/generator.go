package watermark

import (
	"math"
	"time"
)

// Generator makes the watermarks of one split from its records. It is called
// from one goroutine. Records without timestamp, and those beyond MaxAhead,
// are kept from it.
type Generator[T any] interface {
	// OnBatch sees records of the split in order, at least one. taken is how
	// many it took, at least one; the others are offered again. forward asks
	// to forward Current before the records that follow those taken; without
	// it Current is forwarded at the watermark interval of the job.
	OnBatch(vals []T, times []int64) (taken int, forward bool)
	// Current is the watermark after the records seen so far, None before
	// there is one. A smaller value than before is ignored.
	Current() int64
}

// bounded trails the greatest timestamp by bound and a millisecond.
type bounded[T any] struct{ highest, bound int64 }

func (g *bounded[T]) OnBatch(_ []T, times []int64) (int, bool) {
	h := g.highest
	for _, t := range times {
		h = max(h, t)
	}
	g.highest = h
	return len(times), false
}

func (g *bounded[T]) Current() int64 {
	if g.highest <= math.MinInt64+g.bound {
		return None
	}
	return g.highest - g.bound - 1
}

// Punctuated makes generators, for Custom, that read watermarks off the
// records themselves: punctuate is called for each record with its event time
// and says whether the record carries a watermark, which is then forwarded
// before the next record.
func Punctuated[T any](punctuate func(v T, at time.Time) (watermark time.Time, ok bool)) func() Generator[T] {
	return func() Generator[T] { return &punctuated[T]{punctuate, None} }
}

type punctuated[T any] struct {
	punctuate func(T, time.Time) (time.Time, bool)
	current   int64
}

func (g *punctuated[T]) OnBatch(vals []T, times []int64) (int, bool) {
	for i, v := range vals {
		w, ok := g.punctuate(v, time.UnixMilli(times[i]).UTC())
		if m := w.UnixMilli(); ok && m > g.current {
			g.current = m
			return i + 1, true
		}
	}
	return len(vals), false
}

func (g *punctuated[T]) Current() int64 { return g.current }
