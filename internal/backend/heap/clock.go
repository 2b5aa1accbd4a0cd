package heap

import "math"

// maxPace bounds how many records share a reading of the clock.
const maxPace = 128

// readTime sets the time of the cursor, if a field has a time to live.
func (c *core) readTime() {
	if c.now != nil {
		c.cur.Now = c.now()
	}
}

// Tick reads the clock of the time to live again and returns after how many
// records it wants to be called next. The pace follows the records: while many
// pass within a millisecond the clock is read seldom, and for each record
// where one takes milliseconds.
func (c *core) Tick() (records int) {
	if c.now == nil {
		return math.MaxInt
	}
	before := c.cur.Now
	c.readTime()
	switch passed := c.cur.Now - before; {
	case passed > 1 || passed < 0:
		c.pace = 1
	case passed == 0:
		c.pace = min(2*c.pace, maxPace)
	}
	return c.pace
}

// Pace is after how many records from a Bind on Tick wants to be called.
func (c *core) Pace() (records int) {
	if c.now == nil {
		return math.MaxInt
	}
	c.pace = max(c.pace, 1)
	return c.pace
}
