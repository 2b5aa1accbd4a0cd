// Package exchange connects the stages of one process by bounded queues.
package exchange

import (
	"sync"

	"github.com/weirstream/weir/internal/stage"
)

// Bound is how many elements a channel holds before it has no room. With full
// batches it is a few milliseconds of work.
const Bound = 8

// Channel is a queue from one upstream subtask to one downstream subtask: the
// producer's end is a stage.Channel, the consumer's a stage.Input.
type Channel struct {
	producer, consumer *stage.Waker

	mu   sync.Mutex
	ring []stage.Element
	head int
	n    int
}

// New makes a channel. producer is woken when there is room again, consumer
// when there is something to read.
func New(producer, consumer *stage.Waker) *Channel {
	return &Channel{producer: producer, consumer: consumer, ring: make([]stage.Element, 2*Bound)}
}

// Push implements stage.Channel.
func (c *Channel) Push(e stage.Element) {
	c.mu.Lock()
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
	c.mu.Unlock()
	if room {
		c.producer.Wake()
	}
	return e, true
}

// Len is the number of elements queued.
func (c *Channel) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
