package main

import (
	"fmt"
	"strconv"
	"time"
)

// click is one view of a page, as it stands in the input topic.
type click struct {
	ID      string  `json:"id"`
	Page    string  `json:"page"`
	Latency float64 `json:"latency_ms"`
	// At is the event time in milliseconds since the epoch.
	At int64 `json:"at"`
	// Marked is set in the record at which the job raises its error.
	Marked bool `json:"marked,omitempty"`
}

// RequestID identifies the click; a client that repeats a request keeps it.
func (c click) RequestID() string { return c.ID }

// PageName is the page that was viewed.
func (c click) PageName() string { return c.Page }

// LatencyMS is how long the page took, in milliseconds.
func (c click) LatencyMS() float64 { return c.Latency }

// EventTime is when the page was viewed.
func (c click) EventTime() time.Time { return time.UnixMilli(c.At) }

// result is what the job computes for a page and a window.
type result struct {
	Page string `json:"page"`
	// Start and End bound the window, End excluded, in milliseconds since the
	// epoch.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Count is the number of distinct requests.
	Count int64 `json:"count"`
	// P75 and P99 are percentiles of the latency in milliseconds.
	P75 float64 `json:"p75_ms"`
	P99 float64 `json:"p99_ms"`
}

// sent is a click as the generator keeps it: small, for there are millions.
type sent struct {
	at        int64
	request   uint32
	latency   int32 // hundredths of a millisecond
	page      uint8
	partition uint8
	marked    bool
}

func (s sent) id() string         { return fmt.Sprintf("req-%08d", s.request) }
func (s sent) pageName() string   { return fmt.Sprintf("/page/%02d", s.page) }
func (s sent) latencyMS() float64 { return float64(s.latency) / 100 }

func (s sent) click() click {
	return click{ID: s.id(), Page: s.pageName(), Latency: s.latencyMS(), At: s.at, Marked: s.marked}
}

// append appends the record's JSON. Duplicates of a request have the same
// bytes.
func (s sent) append(dst []byte) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(dst, s.id()...)
	dst = append(dst, `","page":"`...)
	dst = append(dst, s.pageName()...)
	dst = append(dst, `","latency_ms":`...)
	dst = strconv.AppendFloat(dst, s.latencyMS(), 'f', 2, 64)
	dst = append(dst, `,"at":`...)
	dst = strconv.AppendInt(dst, s.at, 10)
	if s.marked {
		dst = append(dst, `,"marked":true`...)
	}
	return append(dst, '}')
}
