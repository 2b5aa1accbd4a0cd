package window

import (
	"fmt"
	"math"
	"time"
)

// Span is the time of a window: from Start up to, not including, End, both in
// milliseconds since the epoch.
type Span struct{ Start, End int64 }

// StartTime is the first instant of the window, in UTC.
func (s Span) StartTime() time.Time { return time.UnixMilli(s.Start).UTC() }

// EndTime is the first instant after the window, in UTC.
func (s Span) EndTime() time.Time { return time.UnixMilli(s.End).UTC() }

// MaxTimestamp is the last millisecond of the window. The window is complete
// when the watermark reaches it, and results of the window bear it.
func (s Span) MaxTimestamp() int64 { return s.End - 1 }

// Contains reports whether a record at ts falls into the span.
func (s Span) Contains(ts int64) bool { return s.Start <= ts && ts < s.End }

// Expiry is the watermark, in milliseconds, at which nothing more is accepted
// for the window and its state goes: MaxTimestamp plus the allowed lateness,
// at most the largest time there is.
func (s Span) Expiry(lateness int64) int64 { return expiry(s.End, lateness) }

// String shows the span in UTC.
func (s Span) String() string {
	const layout = "2006-01-02T15:04:05.999Z"
	return fmt.Sprintf("[%s,%s)", s.StartTime().Format(layout), s.EndTime().Format(layout))
}

func expiry(end, lateness int64) int64 {
	if last := end - 1; last <= math.MaxInt64-lateness {
		return last + lateness
	}
	return math.MaxInt64
}
