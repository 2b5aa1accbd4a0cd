package watermark

// Combiner computes the event time of an operator from that of its input
// channels. It is owned by one goroutine. Make one with NewCombiner.
//
// The watermark is the minimum over the channels that are active, and it only
// grows. An idle channel is left out; a channel that comes back from idle
// behind the watermark counts again when it has caught up. A channel that has
// ended counts no more; when all have ended the watermark is End. While no
// channel is active, but some are idle, the operator is idle and time stands.
type Combiner struct {
	channels []channel
	output   int64
	idle     bool
}

type channel struct {
	watermark int64
	state     channelState
	// behind marks an active channel that has not caught up yet.
	behind bool
}

type channelState uint8

const (
	active channelState = iota
	idle
	// gone: ended, or removed.
	gone
)

// Change is what an event did to the output of a Combiner. What changed is
// forwarded in this order: active, the watermark, idle.
type Change struct {
	// Advanced: Watermark has grown.
	Advanced bool
	// Switched: Idle has changed.
	Switched bool
}

// NewCombiner returns a combiner of n channels, all active and without a
// watermark.
func NewCombiner(n int) *Combiner {
	c := &Combiner{channels: make([]channel, n), output: None}
	for i := range c.channels {
		c.channels[i].watermark = None
	}
	return c
}

// Watermark is the current output.
func (c *Combiner) Watermark() int64 { return c.output }

// Idle reports whether no channel is active although some have not ended.
func (c *Combiner) Idle() bool { return c.idle }

// Advance says that channel i has reached a watermark; one that is not beyond
// the channel's last is ignored. End is the same as Ended.
func (c *Combiner) Advance(i int, watermark int64) Change {
	if watermark == End {
		return c.Ended(i)
	}
	c.raise(i, watermark)
	return c.settle(false)
}

// raise notes a watermark without computing the output.
func (c *Combiner) raise(i int, watermark int64) {
	if ch := &c.channels[i]; watermark > ch.watermark {
		ch.watermark = watermark
	}
}

// SetIdle says that channel i brings nothing for the time being.
func (c *Combiner) SetIdle(i int) Change {
	ch := &c.channels[i]
	if ch.state != active {
		return Change{}
	}
	ch.state = idle
	return c.settle(ch.watermark == c.output)
}

// SetActive says that channel i brings records again.
func (c *Combiner) SetActive(i int) Change {
	ch := &c.channels[i]
	if ch.state != idle {
		return Change{}
	}
	ch.state, ch.behind = active, ch.watermark < c.output
	return c.settle(false)
}

// Ended says that nothing more comes from channel i, idle or not.
func (c *Combiner) Ended(i int) Change {
	change := c.leave(i)
	for _, ch := range c.channels {
		if ch.state != gone {
			return change
		}
	}
	change.Advanced = change.Advanced || c.output < End
	c.output = End
	return change
}

// leave takes channel i out without ever ending time.
func (c *Combiner) leave(i int) Change {
	ch := &c.channels[i]
	held := ch.state == active && ch.watermark == c.output
	ch.state = gone
	return c.settle(held)
}

// settle computes the output. flush says that the channel which held the
// minimum has just become idle or ended: if no other is active, time goes to
// the furthest of the idle channels before it stands.
func (c *Combiner) settle(flush bool) Change {
	lowest, furthest := End, None
	someActive, someIdle, counted := false, false, false
	for i := range c.channels {
		ch := &c.channels[i]
		switch ch.state {
		case active:
			someActive = true
			ch.behind = ch.behind && ch.watermark < c.output
			if !ch.behind {
				counted, lowest = true, min(lowest, ch.watermark)
			}
		case idle:
			someIdle, furthest = true, max(furthest, ch.watermark)
		}
	}
	to := c.output
	switch {
	case counted:
		to = max(to, lowest)
	case flush && !someActive && someIdle:
		to = max(to, furthest)
	}
	nowIdle := someIdle && !someActive
	change := Change{Advanced: to > c.output, Switched: nowIdle != c.idle}
	c.output, c.idle = to, nowIdle
	return change
}
