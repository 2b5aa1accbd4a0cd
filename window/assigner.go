package window

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"
)

var (
	// ErrNoTimestamp says that a record has no event time.
	ErrNoTimestamp = errors.New("record has no timestamp")
	// ErrOutOfRange says that an event time lies so far from the epoch that
	// the bounds of its windows cannot be expressed.
	ErrOutOfRange = errors.New("timestamp out of range")
)

// exact bounds the integers between which a float64 holds each one.
const exact = 1 << 52

// noTimestamp is the event time of a record that has none.
const noTimestamp int64 = math.MinInt64

// Assigner assigns event times to windows of one fixed size that begin at
// regular distances. It is an immutable value. Make one with Tumbling or
// Sliding; of one whose Err is not nil nothing else may be called.
type Assigner struct{ *shape }

// shape is behind a pointer so that passing an Assigner costs nothing.
type shape struct {
	size, slide, offset int64
	// cut is where, after the start of a window, an earlier window ends; 0 if
	// windows end only where others start.
	cut int64
	// lowest and highest are the event times that can be assigned.
	lowest, highest int64
	// perMilli is the number of slides in a millisecond.
	perMilli float64
	err      error
}

// Option changes an assigner.
type Option func(*shape) error

// Offset moves all windows by d, which is shorter than the distance between
// two windows and may be negative. Without it windows are aligned to the
// epoch in UTC: Tumbling(24*time.Hour, Offset(-8*time.Hour)) has the days of a
// zone eight hours ahead of UTC. The offset is fixed: windows know nothing of
// daylight-saving time.
func Offset(d time.Duration) Option {
	return func(a *shape) (err error) {
		a.offset, err = millis("window offset", d)
		return err
	}
}

// Tumbling returns windows of the given size, each beginning where the one
// before ends.
func Tumbling(size time.Duration, opts ...Option) Assigner {
	return Sliding(size, size, opts...)
}

// Sliding returns windows of the given size of which one begins every slide.
// A record belongs to all windows that cover it; if slide is greater than
// size there are gaps, and a record in a gap belongs to no window.
func Sliding(size, slide time.Duration, opts ...Option) Assigner {
	a := Assigner{&shape{}}
	a.err = a.set(size, slide, opts)
	return a
}

func (a *shape) set(size, slide time.Duration, opts []Option) (err error) {
	if a.size, err = millis("window size", size); err != nil {
		return err
	}
	if a.slide, err = millis("window slide", slide); err != nil {
		return err
	}
	if a.size <= 0 {
		return fmt.Errorf("window size %v: it must be positive", size)
	}
	if a.slide <= 0 {
		return fmt.Errorf("window slide %v: it must be positive", slide)
	}
	for _, o := range opts {
		if err := o(a); err != nil {
			return err
		}
	}
	if a.offset <= -a.slide || a.offset >= a.slide {
		return fmt.Errorf("window offset %v: it must be shorter than the %v between two windows",
			time.Duration(a.offset)*time.Millisecond, slide)
	}
	a.cut = a.size % a.slide
	a.perMilli = 1 / float64(a.slide)
	reach := a.size + 2*a.slide
	a.lowest, a.highest = math.MinInt64+reach, math.MaxInt64-reach
	return nil
}

func millis(what string, d time.Duration) (int64, error) {
	if d%time.Millisecond != 0 {
		return 0, fmt.Errorf("%s %v: it must be a whole number of milliseconds", what, d)
	}
	return d.Milliseconds(), nil
}

// Err says what is wrong with the arguments the assigner was made from.
func (a Assigner) Err() error {
	if a.shape == nil {
		return errors.New("no window is given; use window.Tumbling or window.Sliding")
	}
	return a.err
}

// Size is the length of a window in milliseconds.
func (a Assigner) Size() int64 { return a.size }

// Slide is the distance between the starts of two windows in milliseconds.
func (a Assigner) Slide() int64 { return a.slide }

// Offset is what windows are shifted by, in milliseconds.
func (a Assigner) Offset() int64 { return a.offset }

// String names the assigner and its parameters, as a snapshot stores it:
// "tumbling(10s)", "sliding(1h0m0s,1m0s)", "tumbling(24h0m0s,offset=5h0m0s)".
func (a Assigner) String() string {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	args := ms(a.size).String()
	name := "tumbling"
	if a.size != a.slide {
		name, args = "sliding", args+","+ms(a.slide).String()
	}
	if a.offset != 0 {
		args += ",offset=" + ms(a.offset).String()
	}
	return name + "(" + args + ")"
}

// Check returns nil for an event time that can be assigned, else an error
// that wraps ErrNoTimestamp or ErrOutOfRange.
func (a Assigner) Check(ts int64) error {
	switch {
	case ts == noTimestamp:
		return fmt.Errorf("%w: event-time windows need one; give the source a timestamp assigner", ErrNoTimestamp)
	case ts < a.lowest || ts > a.highest:
		return fmt.Errorf("%w: %d ms is beyond what %v windows can express", ErrOutOfRange, ts, a)
	}
	return nil
}

// Slice returns the slice that ts falls into. ok is false where ts belongs to
// no window: in a gap between windows, or if Check refuses it.
func (a Assigner) Slice(ts int64) (s Span, ok bool) {
	if ts < a.lowest || ts > a.highest {
		return Span{}, false
	}
	start := a.lastStart(ts)
	switch edge := start + a.cut; {
	case ts < edge:
		return Span{start, edge}, true
	case a.slide > a.size:
		return Span{}, false
	default:
		return Span{edge, start + a.slide}, true
	}
}

// SliceStart is the start of the slice that ts falls into; ok is as for Slice.
func (a Assigner) SliceStart(ts int64) (start int64, ok bool) {
	s, ok := a.Slice(ts)
	return s.Start, ok
}

// MaxSlices is the number of slices in a window.
func (a Assigner) MaxSlices() int {
	n := a.size / a.slide
	if a.cut == 0 {
		return int(n)
	}
	return int(2*n + 1)
}

// Windows lists the windows that cover ts, in ascending order; none if Slice
// finds none.
func (a Assigner) Windows(ts int64) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		first, last, ok := a.ends(ts)
		for end := first; ok && end <= last; end += a.slide {
			if !yield(a.Ending(end)) {
				return
			}
		}
	}
}

// Ending is the window that ends at end, which is the end of a window.
func (a Assigner) Ending(end int64) Span { return Span{end - a.size, end} }

// FirstEnd is the earliest end of a window that covers ts, and so of one that
// covers all of ts's slice.
func (a Assigner) FirstEnd(ts int64) (end int64, ok bool) {
	first, _, ok := a.ends(ts)
	return first, ok
}

// LastEnd is the latest end of a window that covers ts.
func (a Assigner) LastEnd(ts int64) (end int64, ok bool) {
	_, last, ok := a.ends(ts)
	return last, ok
}

// EndAfter is the earliest end, above after, of a window that covers ts. It
// takes constant time however far apart the two are.
func (a Assigner) EndAfter(ts, after int64) (end int64, ok bool) {
	first, last, ok := a.ends(ts)
	switch {
	case !ok || after >= last:
		return 0, false
	case after < first:
		return first, true
	}
	return first + ((after-first)/a.slide+1)*a.slide, true
}

// Late reports whether a record at ts is too late: it has windows, and all of
// them have expired at the watermark. All times are in milliseconds.
func (a Assigner) Late(ts, watermark, lateness int64) bool {
	last, ok := a.LastEnd(ts)
	return ok && expiry(last, lateness) <= watermark
}

// ends returns the first and the last end of the windows that cover ts.
func (a *shape) ends(ts int64) (first, last int64, ok bool) {
	if ts < a.lowest || ts > a.highest {
		return 0, 0, false
	}
	start := a.lastStart(ts)
	into := ts - start
	if into >= a.size {
		return 0, 0, false
	}
	last = start + a.size
	return last - (a.size-1-into)/a.slide*a.slide, last, true
}

// lastStart is the latest start of a window that is not after ts, which is in
// range.
func (a *shape) lastStart(ts int64) int64 {
	x := ts - a.offset
	if -exact < x && x < exact {
		// Floats hold x exactly, and a multiplication is faster than a
		// division; its rounding is at most one slide off.
		into := x - int64(float64(x)*a.perMilli)*a.slide
		if into < 0 {
			into += a.slide
		} else if into >= a.slide {
			into -= a.slide
		}
		return ts - into
	}
	into := x % a.slide
	if into < 0 {
		into += a.slide
	}
	return ts - into
}
