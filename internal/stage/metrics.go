package stage

import (
	"maps"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Metrics counts what one operator of a subtask does. The stage updates it
// once per batch; anybody may read it.
type Metrics struct {
	RecordsIn  atomic.Int64
	RecordsOut atomic.Int64
	// Late counts records dropped as late, or sent to the late output.
	Late atomic.Int64
	// Watermark is the current event time in ms.
	Watermark atomic.Int64

	mu       sync.Mutex
	counters map[string]*atomic.Int64
	gauges   map[GaugeID]int64
}

// GaugeID names a value of a source: of a split, or of the source if Split is "".
type GaugeID struct{ Name, Split string }

// SetGauge sets a value.
func (m *Metrics) SetGauge(id GaugeID, value int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gauges == nil {
		m.gauges = map[GaugeID]int64{}
	}
	m.gauges[id] = value
}

// DropGauges forgets the values of a split.
func (m *Metrics) DropGauges(split string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.gauges, func(id GaugeID, _ int64) bool { return id.Split == split })
}

// Gauges returns a copy of the values.
func (m *Metrics) Gauges() map[GaugeID]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.gauges)
}

// Counter returns the named counter, made at the first call.
func (m *Metrics) Counter(name string) *atomic.Int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counters == nil {
		m.counters = map[string]*atomic.Int64{}
	}
	c := m.counters[name]
	if c == nil {
		c = new(atomic.Int64)
		m.counters[name] = c
	}
	return c
}

// Each calls fn with each named counter.
func (m *Metrics) Each(fn func(name string, value int64)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, c := range m.counters {
		fn(n, c.Load())
	}
}

// Load is how the time of a subtask is spent, in nanoseconds since its start.
type Load struct {
	Busy, Idle, BackPressured atomic.Int64
	// BarrierMax is the longest time spent in handling one barrier.
	BarrierMax atomic.Int64
	// Gaps counts the times between the beginnings of two pieces of work with
	// no wait between them.
	Gaps Histogram
}

// Histogram counts durations in buckets that are at most an eighth wide. One
// goroutine adds; anybody may read.
type Histogram struct{ counts [64 * 8]atomic.Int64 }

// Add counts a duration in nanoseconds.
func (h *Histogram) Add(nanos int64) {
	if nanos < 8 {
		nanos = 8
	}
	exp := bits.Len64(uint64(nanos)) - 1
	h.counts[exp*8+int(nanos>>(exp-3)&7)].Add(1)
}

// AddAll adds the counts of o.
func (h *Histogram) AddAll(o *Histogram) {
	for i := range o.counts {
		h.counts[i].Add(o.counts[i].Load())
	}
}

// Quantile returns the upper bound in nanoseconds of the bucket that holds
// the quantile q, 0 if nothing was counted.
func (h *Histogram) Quantile(q float64) int64 {
	var total int64
	for i := range h.counts {
		total += h.counts[i].Load()
	}
	rank := int64(math.Ceil(q * float64(total)))
	for i := range h.counts {
		if rank -= h.counts[i].Load(); rank <= 0 && total > 0 {
			exp, sub := i/8, i%8
			return int64(sub+9) << exp >> 3
		}
	}
	return 0
}
