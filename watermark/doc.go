// Package watermark says how event time is taken from records and how it
// advances.
//
// A Strategy belongs to a source: it assigns each record its timestamp and
// makes one Generator per split, so that reading one split ahead of another
// makes nothing late. A watermark t promises that no record at or before t
// follows; the watermark of a source is the minimum over its splits, that of
// an operator the minimum over its input channels. Splits and Combiner compute
// them.
//
// All times are milliseconds since the epoch unless they are time.Time.
package watermark

import "math"

const (
	// None is the timestamp of a record that has none, and the watermark
	// before the first.
	None int64 = math.MinInt64
	// End is the watermark after the last record of a bounded input.
	End int64 = math.MaxInt64
)
