package watermark

import (
	"math/rand/v2"
	"testing"
)

func want(t *testing.T, what string, c *Combiner, watermark int64, idle bool) {
	t.Helper()
	if c.Watermark() != watermark || c.Idle() != idle {
		t.Errorf("%s: watermark %d, idle %v; want %d, %v", what, c.Watermark(), c.Idle(), watermark, idle)
	}
}

func TestMinimumOverChannels(t *testing.T) {
	c := NewCombiner(2)
	if ch := c.Advance(0, 10); ch != (Change{}) {
		t.Errorf("one of two channels has a watermark: %+v", ch)
	}
	want(t, "one of two", c, None, false)
	if ch := c.Advance(1, 7); ch != (Change{Advanced: true}) {
		t.Errorf("%+v", ch)
	}
	if ch := c.Advance(1, 5); ch != (Change{}) {
		t.Errorf("a watermark that falls: %+v", ch)
	}
	want(t, "both", c, 7, false)
}

func TestM06FinishedAndIdle(t *testing.T) {
	for _, finishFirst := range []bool{true, false} {
		c := NewCombiner(2)
		c.Advance(0, 0)
		if finishFirst {
			c.Ended(0)
		}
		c.Advance(1, 20)
		c.SetIdle(1)
		if !finishFirst {
			want(t, "B idle", c, 0, false)
			c.Ended(0)
		}
		want(t, "A ended, B idle", c, 20, true)
		if ch := c.SetActive(1); ch != (Change{Switched: true}) {
			t.Errorf("B returns: %+v", ch)
		}
		want(t, "B active", c, 20, false)
		c.Advance(1, 30)
		want(t, "B at 30", c, 30, false)
		if ch := c.Ended(1); ch != (Change{Advanced: true}) {
			t.Errorf("B ended: %+v", ch)
		}
		want(t, "all ended", c, End, false)
	}
}

func TestM06MaximumWatermarkIsEnd(t *testing.T) {
	c := NewCombiner(2)
	c.Advance(1, 20)
	c.SetIdle(1)
	c.Advance(0, End)
	want(t, "A at its end, B idle", c, 20, true)
}

func TestM07IdleThenEnd(t *testing.T) {
	c := NewCombiner(1)
	c.Advance(0, 1)
	c.SetIdle(0)
	want(t, "idle", c, 1, true)
	if ch := c.Ended(0); ch != (Change{Advanced: true, Switched: true}) {
		t.Errorf("%+v", ch)
	}
	want(t, "ended", c, End, false)
}

func TestM09IdleChannelComesBackBehind(t *testing.T) {
	c := NewCombiner(2)
	c.SetIdle(1)
	c.Advance(0, 10)
	want(t, "A at 10", c, 10, false)
	c.SetActive(1)
	c.Advance(1, 3)
	want(t, "B at 3", c, 10, false)
	c.Advance(0, 15)
	want(t, "A at 15", c, 15, false)
	c.Advance(1, 12)
	want(t, "B at 12", c, 15, false)
	c.Advance(1, 16)
	want(t, "B at 16", c, 15, false)
	c.Advance(0, 20)
	want(t, "A at 20, B counts again", c, 16, false)
}

func TestM14UnionWithItself(t *testing.T) {
	c := NewCombiner(2)
	c.Advance(0, 9)
	want(t, "first edge", c, None, false)
	c.Advance(1, 9)
	want(t, "both edges", c, 9, false)
	c.Ended(0)
	c.Ended(1)
	want(t, "ended", c, End, false)
}

func TestM15OneSourceEnded(t *testing.T) {
	c := NewCombiner(2)
	c.Advance(0, 0)
	c.Ended(0)
	if ch := c.Advance(1, 11); !ch.Advanced {
		t.Error("an ended source holds time")
	}
	want(t, "S2 at 11", c, 11, false)
}

func TestAllIdleFlushesTheFurthest(t *testing.T) {
	c := NewCombiner(2)
	c.Advance(0, 10)
	c.Advance(1, 20)
	c.SetIdle(1)
	if ch := c.SetIdle(0); ch != (Change{Advanced: true, Switched: true}) {
		t.Errorf("the one that held time is the last to idle: %+v", ch)
	}
	want(t, "all idle", c, 20, true)

	c = NewCombiner(2)
	c.Advance(0, 10)
	c.Advance(1, 20)
	c.SetIdle(0)
	c.SetIdle(1)
	want(t, "the furthest is the last to idle", c, 20, true)
}

// The last channel to idle is one that had not caught up: it did not hold time.
func TestNoFlushByOneThatIsBehind(t *testing.T) {
	c := NewCombiner(3)
	c.Advance(0, 10)
	c.SetIdle(1)
	c.Advance(2, 20)
	c.SetIdle(2)
	c.SetActive(1)
	c.Advance(1, 3)
	c.SetIdle(0)
	want(t, "only the one behind is active", c, 10, false)
	c.SetIdle(1)
	want(t, "all idle", c, 10, true)
}

func TestCombinerProperties(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		c := NewCombiner(1 + r.IntN(4))
		ended := map[int]bool{}
		for range 200 {
			before, idleBefore := c.Watermark(), c.Idle()
			i := r.IntN(len(c.channels))
			var ch Change
			switch r.IntN(8) {
			case 0:
				ch = c.SetIdle(i)
			case 1, 2:
				ch = c.SetActive(i)
			case 3:
				if r.IntN(20) == 0 {
					ch, ended[i] = c.Ended(i), true
				}
			default:
				ch = c.Advance(i, r.Int64N(1000))
			}
			if c.Watermark() < before {
				t.Fatalf("seed %d: watermark fell from %d to %d", seed, before, c.Watermark())
			}
			if ch != (Change{c.Watermark() > before, c.Idle() != idleBefore}) {
				t.Fatalf("seed %d: change %+v for %d,%v -> %d,%v", seed, ch, before, idleBefore, c.Watermark(), c.Idle())
			}
			if (c.Watermark() == End) != (len(ended) == len(c.channels)) {
				t.Fatalf("seed %d: watermark %d with %d of %d channels ended", seed, c.Watermark(), len(ended), len(c.channels))
			}
			for _, ch := range c.channels {
				if ch.state == active && !ch.behind && ch.watermark < c.output && c.output != End {
					t.Fatalf("seed %d: output %d is beyond the active channel %+v", seed, c.output, ch)
				}
			}
		}
	}
}
