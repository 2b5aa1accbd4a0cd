package checkpoint

import (
	"math"
	"time"

	"github.com/weirstream/weir/checkpoint"
)

// Restarter decides, failure by failure, whether and when a job starts again.
// It is pure: it is told the time, and reads no clock. One goroutine uses it.
type Restarter struct {
	strategy checkpoint.Restart
	random   func() float64
	// count is the number of restarts, for exponential delay since the last
	// reset.
	count int
	// recent are the failures within the interval of a failure rate.
	recent []time.Time
	delay  time.Duration
}

// NewRestarter returns the decider of a strategy with its defaults filled in
// (checkpoint.DefaultRestart). random gives numbers in [0, 1), for the jitter.
func NewRestarter(r checkpoint.Restart, random func() float64) *Restarter {
	return &Restarter{strategy: r, random: random}
}

// Failure tells of a failure now, of an attempt that began at begin. It
// returns the pause before the next attempt, or false if there is none.
func (r *Restarter) Failure(begin, now time.Time) (delay time.Duration, ok bool) {
	switch s := r.strategy.(type) {
	case checkpoint.FixedDelay:
		return s.Delay, r.another(s.Attempts)
	case checkpoint.FailureRate:
		return s.Delay, r.seldom(s, now)
	case checkpoint.ExponentialDelay:
		if now.Sub(begin) >= s.ResetAfter {
			r.count, r.delay = 0, 0
		}
		return r.backOff(s), r.another(s.Attempts)
	}
	return 0, false
}

// another counts a restart, if that is not one too many.
func (r *Restarter) another(attempts int) bool {
	if attempts != checkpoint.Unlimited && r.count >= attempts {
		return false
	}
	r.count++
	return true
}

// seldom reports whether there were at most Max failures in the last Interval.
func (r *Restarter) seldom(s checkpoint.FailureRate, now time.Time) bool {
	r.recent = append(r.recent, now)
	for now.Sub(r.recent[0]) >= s.Interval {
		r.recent = r.recent[1:]
		if len(r.recent) == 0 {
			return true // an interval of nothing
		}
	}
	return len(r.recent) <= s.Max
}

// backOff is the next delay: it grows up to the bound, which holds with jitter
// as well.
func (r *Restarter) backOff(s checkpoint.ExponentialDelay) time.Duration {
	if r.delay == 0 {
		r.delay = s.Initial
	} else {
		r.delay = clamp(float64(r.delay)*s.Multiplier, s.Max)
	}
	jitter := float64(r.delay) * s.Jitter * (2*r.random() - 1)
	return clamp(float64(r.delay)+jitter, s.Max)
}

func clamp(d float64, bound time.Duration) time.Duration {
	if d >= float64(bound) {
		return bound
	}
	return time.Duration(math.Round(max(d, 0)))
}
