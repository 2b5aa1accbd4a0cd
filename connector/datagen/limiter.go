package datagen

import "time"

// burst is how much of an idle time a limiter makes up for.
const burst = 100 * time.Millisecond

// limiter spreads records over time. It is asked once per batch.
type limiter struct {
	perSecond float64
	wake      func()
	timer     *time.Timer
	last      time.Time
	tokens    float64
}

func newLimiter(perSecond float64, wake func()) *limiter {
	return &limiter{perSecond: perSecond, wake: wake}
}

func (l *limiter) start() { l.last = time.Now() }

// take returns how many of k records may go now. If none, wake is called when
// the next one may.
func (l *limiter) take(k int64) int64 {
	now := time.Now()
	l.tokens += l.perSecond * now.Sub(l.last).Seconds()
	l.tokens = min(l.tokens, max(1, l.perSecond*burst.Seconds()))
	l.last = now
	// A record is due a hair early rather than a wake-up for nothing.
	if got := min(k, int64(l.tokens+1e-6)); got > 0 {
		l.tokens -= float64(got)
		return got
	}
	wait := time.Duration((1 - l.tokens) / l.perSecond * float64(time.Second))
	// At high rates waiting for single records would cost a wake-up each.
	l.arm(max(wait, time.Millisecond))
	return 0
}

func (l *limiter) arm(d time.Duration) {
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.wake)
		return
	}
	l.timer.Reset(d)
}

func (l *limiter) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
