package kafka

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// chunk is a batch of records on their way to the brokers and the memory they
// lie in, which is used again when all of them have arrived, or failed.
type chunk struct {
	records []kgo.Record
	values  []byte

	home    *chunks
	to      *produced
	left    atomic.Int64 // records without outcome
	by      identity     // of the last record that arrived
	arrived bool         // one has
	promise func(*kgo.Record, error)
}

// add appends a zero record. Earlier ones may move.
func (c *chunk) add() *kgo.Record {
	if n := len(c.records); n < cap(c.records) {
		c.records = c.records[:n+1]
	} else {
		c.records = append(c.records, kgo.Record{})
	}
	return &c.records[len(c.records)-1]
}

// done is the promise of every record. The client calls promises one after
// another, on a goroutine of its own.
func (c *chunk) done(r *kgo.Record, err error) {
	now := identity{r.ProducerID, r.ProducerEpoch}
	if err != nil || !c.arrived || now != c.by {
		c.to.done(r, err)
	}
	if err == nil {
		c.by, c.arrived = now, true
	}
	if c.left.Add(-1) == 0 {
		c.home.put(c)
	}
}

// chunks keeps chunks that are not in use: as many as were under way at a time.
type chunks struct {
	mu   sync.Mutex
	free []*chunk
}

func (h *chunks) get() *chunk {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.free); n > 0 {
		c := h.free[n-1]
		h.free = h.free[:n-1]
		return c
	}
	c := &chunk{home: h}
	c.promise = c.done
	return c
}

// maxKept is the size of a buffer that is not worth keeping.
const maxKept = 1 << 20

func (h *chunks) put(c *chunk) {
	clear(c.records)
	c.records, c.values, c.to, c.arrived = c.records[:0], c.values[:0], nil, false
	if cap(c.values) > maxKept {
		c.values = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.free = append(h.free, c)
}
