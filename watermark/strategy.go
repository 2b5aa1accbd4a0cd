package watermark

import (
	"fmt"
	"math"
	"time"
)

// Strategy assigns timestamps to records of T and makes the watermarks of a
// source. The zero value keeps the source's timestamps and makes no
// watermark. It is a value: methods return a changed copy.
type Strategy[T any] struct {
	assign   func(T) time.Time
	assignAt func(v T, source int64) int64
	generate func() Generator[T]
	idle     int64
	maxAhead int64
	limited  bool
	align    Alignment
	err      error
}

// Monotonous is for splits whose timestamps never fall: the watermark is one
// millisecond behind the greatest one. A smaller timestamp is tolerated, but
// its record may be late. assign is as for Bounded.
func Monotonous[T any](assign func(T) time.Time) Strategy[T] {
	return Bounded(0, assign)
}

// Bounded is for splits whose records are at most d out of order: the
// watermark is d and a millisecond behind the greatest timestamp. assign reads
// the event time of a record; the zero Time means that it has none. With a nil
// assign records keep the timestamp of the source. d is a whole number of
// milliseconds, not negative.
func Bounded[T any](d time.Duration, assign func(T) time.Time) Strategy[T] {
	bound, err := millis("out-of-orderness", d)
	return Strategy[T]{
		assign:   assign,
		generate: func() Generator[T] { return &bounded[T]{highest: None, bound: bound} },
		err:      err,
	}
}

// Custom makes the watermarks of each split with a generator of its own;
// assign is as for Bounded.
func Custom[T any](generator func() Generator[T], assign func(T) time.Time) Strategy[T] {
	s := Strategy[T]{assign: assign, generate: generator}
	if generator == nil {
		s.err = fmt.Errorf("watermark.Custom: the generator function is nil")
	}
	return s
}

// WithTimestamps replaces the timestamp assigner by one that also sees the
// timestamp of the source, None if it has none. It returns milliseconds, or
// None for a record without event time.
func (s Strategy[T]) WithTimestamps(assign func(v T, source int64) int64) Strategy[T] {
	s.assign, s.assignAt = nil, assign
	return s
}

// Idle leaves a split out of the minimum once it has brought no record for d.
// The clock of a split stands still while the split is paused or the source
// back-pressured. Without Idle a silent split holds event time. d is a
// positive whole number of milliseconds.
func (s Strategy[T]) Idle(d time.Duration) Strategy[T] {
	var err error
	if s.idle, err = millis("idle timeout", d); err == nil && d == 0 {
		err = fmt.Errorf("idle timeout 0s: it must be positive")
	}
	return s.failed(err)
}

// MaxAhead keeps records that are more than d ahead of the wall clock from
// moving the watermark: one absurd timestamp then makes nothing late. The
// records themselves pass. Without it they move the watermark as any other.
func (s Strategy[T]) MaxAhead(d time.Duration) Strategy[T] {
	var err error
	s.maxAhead, err = millis("watermark.MaxAhead", d)
	s.limited = true
	return s.failed(err)
}

func (s Strategy[T]) failed(err error) Strategy[T] {
	if s.err == nil {
		s.err = err
	}
	return s
}

func millis(what string, d time.Duration) (int64, error) {
	if d < 0 || d%time.Millisecond != 0 {
		return 0, fmt.Errorf("%s %v: it must be a whole number of milliseconds, not negative", what, d)
	}
	return d.Milliseconds(), nil
}

// TimestampsOnly is the strategy without watermarks, idle splits and alignment:
// records keep their event times, and time stands still until the input ends.
// Batch mode reads sources so.
func (s Strategy[T]) TimestampsOnly() Strategy[T] {
	return Strategy[T]{assign: s.assign, assignAt: s.assignAt, err: s.err}
}

// Err says what is wrong with the arguments the strategy was made from.
func (s Strategy[T]) Err() error { return s.err }

// Generates reports whether the strategy makes watermarks at all; the zero
// Strategy does not.
func (s Strategy[T]) Generates() bool { return s.generate != nil }

// IdleTimeout is the idle timeout in milliseconds, 0 if there is none.
func (s Strategy[T]) IdleTimeout() int64 { return s.idle }

// Assign returns the event time of v, whose source gave it the timestamp
// source; None if it has none.
func (s Strategy[T]) Assign(v T, source int64) int64 {
	switch {
	case s.assignAt != nil:
		return s.assignAt(v, source)
	case s.assign != nil:
		return toMillis(s.assign(v))
	}
	return source
}

// AssignAll replaces the timestamps that the source gave to vals, in times, by
// their event times.
func (s Strategy[T]) AssignAll(vals []T, times []int64) {
	times = times[:len(vals)]
	switch {
	case s.assignAt != nil:
		for i := range vals {
			times[i] = s.assignAt(vals[i], times[i])
		}
	case s.assign != nil:
		for i := range vals {
			times[i] = toMillis(s.assign(vals[i]))
		}
	}
}

func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return None
	}
	return t.UnixMilli()
}

// limit is the latest timestamp that may move the watermark at the given wall
// clock.
func (s *Strategy[T]) limit(wall int64) int64 {
	if !s.limited {
		return math.MaxInt64
	}
	return after(wall, s.maxAhead)
}

// after is t + d, at most the largest time; d is not negative.
func after(t, d int64) int64 {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}
