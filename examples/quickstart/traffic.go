package main

import (
	"math"
	"math/rand/v2"
	"time"
)

// The shape of the traffic. Times are event time: a million records pass in
// seconds and tell of twenty minutes.
const (
	partitions = 4
	pages      = 20
	span       = 20 * time.Minute
	// disorder bounds how far a record lies behind the newest of its
	// partition. The job's watermark allows for as much.
	disorder = 5 * time.Second
	// duplicates is the share of records that repeat an earlier one.
	duplicates = 0.05
	maxLate    = 200
)

// epoch is the event time of the first click.
var epoch = time.Date(2026, time.March, 14, 9, 0, 0, 0, time.UTC).UnixMilli()

// traffic is everything that goes into the input topic.
type traffic struct {
	// clicks in the order in which they are produced, duplicates among them.
	clicks []sent
	// closing is one record for each partition, far enough ahead to close all
	// windows of clicks.
	closing []sent
	// late are for windows that are closed by then, with duplicates.
	late []sent
}

// generator draws traffic from a seed.
type generator struct {
	rand *rand.Rand
	next uint32
	// step is the event time from one record to the next, in milliseconds.
	step float64
}

// newTraffic makes the traffic of a seed; the same arguments make the same.
func newTraffic(records int, seed uint64) *traffic {
	g := &generator{
		rand: rand.New(rand.NewPCG(seed, 0x7765_6972)),
		step: float64(span.Milliseconds()) / float64(records),
	}
	t := &traffic{}
	t.clicks = g.clicks(records)
	t.closing = g.closing()
	t.late = g.late(t.clicks, min(maxLate, max(1, records/100)))
	return t
}

func (g *generator) clicks(n int) []sent {
	cs := make([]sent, 0, n)
	// The error comes after a quarter and before the half of the input.
	marked := n/4 + g.rand.IntN(max(1, n/4))
	for i := range n {
		now := epoch + int64(float64(i)*g.step)
		c, again := g.repeat(cs, now)
		if !again || i == marked {
			c = g.click(now - g.rand.Int64N(disorder.Milliseconds()))
		}
		c.partition = uint8(g.rand.IntN(partitions))
		c.marked = c.marked || i == marked
		cs = append(cs, c)
	}
	return cs
}

// repeat sometimes picks an earlier click that is not out of bounds yet.
func (g *generator) repeat(cs []sent, now int64) (c sent, ok bool) {
	if len(cs) == 0 || g.rand.Float64() >= duplicates {
		return c, false
	}
	const tries = 5
	reach := min(len(cs), 1+int(float64(disorder.Milliseconds())/g.step))
	for range tries {
		c = cs[len(cs)-1-g.rand.IntN(reach)]
		if c.at >= now-disorder.Milliseconds() {
			return c, true
		}
	}
	return c, false
}

// click makes a new click: some pages are more popular, some slower, and
// latencies have a long tail.
func (g *generator) click(at int64) sent {
	page := uint8(pages * math.Pow(g.rand.Float64(), 1.5))
	c := sent{at: at, request: g.next, page: min(page, pages-1)}
	c.latency = g.latency(c.page)
	g.next++
	return c
}

func (g *generator) latency(page uint8) int32 {
	typical := 5 + 4*float64(page)
	return int32(100*typical*math.Exp(0.6*g.rand.NormFloat64())) + 1
}

func (g *generator) closing() []sent {
	at := epoch + (span + windowSize + windowSlide + 2*disorder).Milliseconds()
	cs := make([]sent, partitions)
	for p := range cs {
		cs[p] = g.click(at)
		cs[p].partition = uint8(p)
	}
	return cs
}

// late makes n requests at the time and for the page of clicks, so that the
// results of all their windows are known to exist, and repeats some of them.
func (g *generator) late(clicks []sent, n int) []sent {
	cs := make([]sent, 0, n+n/8)
	for i := range n {
		c := clicks[g.rand.IntN(len(clicks))]
		c.request, c.latency, c.marked = g.next, g.latency(c.page), false
		c.partition = uint8(g.rand.IntN(partitions))
		g.next++
		cs = append(cs, c)
		if i%8 == 7 {
			c.partition = uint8(g.rand.IntN(partitions))
			cs = append(cs, c)
		}
	}
	return cs
}
