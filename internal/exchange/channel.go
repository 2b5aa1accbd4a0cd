// Package exchange connects the stages of one process by bounded queues.
package exchange

import (
	"sync"

	"github.com/weirstream/weir/internal/stage"
)

const (
	// Bound is how many elements a channel holds before it has no room. With
	// full batches it is a few milliseconds of work.
	Bound = 8
	// Overdraft is how many elements it takes beyond that. A stage reads
	// nothing while an output has no room, so only what a single record or
	// timer emits gets here.
	Overdraft = 64
)

// Channel is a queue from one upstream subtask to one downstream subtask: the
// producer's end is a stage.Channel, the consumer's a stage.Input.
type Channel struct {
	producer, consumer *stage.Waker
	abort              <-chan struct{}

	mu   sync.Mutex
	ring []stage.Element
	head int
	n    int
	// relief is closed when a producer that waits for the overdraft to shrink
	// may go on; nil if none waits.
	relief chan struct{}
}

// New makes a channel. producer is woken when there is room again, consumer
// when there is something to read. abort ends a wait of Push.
func New(producer, consumer *stage.Waker, abort <-chan struct{}) *Channel {
	return &Channel{producer: producer, consumer: consumer, abort: abort, ring: make([]stage.Element, 2*Bound)}
}

// Push implements stage.Channel. Data beyond the overdraft waits until the
// channel has room or the attempt is aborted, when it is dropped; control
// elements never wait.
func (c *Channel) Push(e stage.Element) {
	c.mu.Lock()
	for e.Kind == stage.Data && c.n >= Bound+Overdraft {
		if c.relief == nil {
			c.relief = make(chan struct{})
		}
		relief := c.relief
		c.mu.Unlock()
		select {
		case <-relief:
		case <-c.abort:
			return
		}
		c.mu.Lock()
	}
	if c.n == len(c.ring) {
		c.grow()
	}
	c.ring[(c.head+c.n)%len(c.ring)] = e
	c.n++
	c.mu.Unlock()
	c.consumer.Wake()
}

func (c *Channel) grow() {
	ring := make([]stage.Element, 2*len(c.ring))
	k := copy(ring, c.ring[c.head:])
	copy(ring[k:], c.ring[:c.head])
	c.ring, c.head = ring, 0
}

// HasRoom implements stage.Channel.
func (c *Channel) HasRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n < Bound
}

// Poll implements stage.Input.
func (c *Channel) Poll() (stage.Element, bool) {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return stage.Element{}, false
	}
	e := c.ring[c.head]
	c.ring[c.head] = stage.Element{}
	c.head = (c.head + 1) % len(c.ring)
	c.n--
	room := c.n == Bound-1
	if room && c.relief != nil {
		close(c.relief)
		c.relief = nil
	}
	c.mu.Unlock()
	if room {
		c.producer.Wake()
	}
	return e, true
}
