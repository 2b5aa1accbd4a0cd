package ratelimit

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/weirstream/weir/connector"
)

const (
	// burst is how much of the time in which a reader emitted nothing it makes
	// up for.
	burst = 100 * time.Millisecond
	// soonest bounds how often a reader is woken.
	soonest = time.Millisecond
)

// Rate is a limit of records per second. It is divided evenly among the readers
// that have something to emit. Its methods may be called from any goroutine.
type Rate struct {
	mu        sync.Mutex
	perSecond float64
	shares    map[*share]struct{}
	busy      int // shares that have something to emit
	err       error
}

// PerSecond makes a limit of n records per second for all readers together. 0
// lets nothing pass until Set raises it.
func PerSecond(n float64) *Rate {
	return &Rate{perSecond: n, shares: map[*share]struct{}{}, err: check(n)}
}

func check(n float64) error {
	if n >= 0 { // not NaN
		return nil
	}
	return fmt.Errorf("rate limit of %v records per second; give a number that is not below 0", n)
}

// Set changes the limit, also while a job runs.
func (r *Rate) Set(perSecond float64) error {
	if err := check(perSecond); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.shares { // what has come in at the old rate
		s.refill(time.Now())
	}
	r.perSecond, r.err = perSecond, nil
	for s := range r.shares {
		s.wake()
	}
	return nil
}

// PerSecond returns the limit.
func (r *Rate) PerSecond() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.perSecond
}

// Join implements Limiter.
func (r *Rate) Join(ctx connector.ReaderContext) (Share, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	s := &share{rate: r, wake: ctx.Wake, last: time.Now()}
	r.shares[s] = struct{}{}
	return s, nil
}

// share is one reader's part of a Rate, a bucket of tokens. The mutex of the
// Rate guards it.
type share struct {
	rate   *Rate
	wake   func()
	busy   bool
	last   time.Time // when tokens was right
	tokens float64   // below 0 after more was emitted than allowed
	timer  *time.Timer
}

func (s *share) Allow(want int) int {
	s.rate.mu.Lock()
	defer s.rate.mu.Unlock()
	s.setBusy(true)
	s.refill(time.Now())
	// A record is due a hair early rather than a wake-up for nothing.
	if n := min(float64(want), math.Floor(s.tokens+1e-6)); n >= 1 {
		return int(n)
	}
	if own := s.perSecond(); own > 0 {
		wait := min((1-s.tokens)/own, math.MaxInt32)
		s.arm(max(time.Duration(wait*float64(time.Second)), soonest))
	}
	return 0
}

func (s *share) Used(n int, more bool) {
	s.rate.mu.Lock()
	defer s.rate.mu.Unlock()
	s.tokens -= float64(n)
	s.setBusy(more)
}

// refill adds what has come in since the last time.
func (s *share) refill(now time.Time) {
	if !s.busy {
		return
	}
	own := s.perSecond()
	most := max(1, own*burst.Seconds())
	if passed := now.Sub(s.last).Seconds(); passed > 0 {
		s.tokens += own * passed
	}
	if math.IsInf(own, 1) {
		s.tokens = math.MaxInt32 // a finite number, to go on counting with
	}
	s.tokens, s.last = min(s.tokens, most), now
}

// perSecond is what a busy share has of the rate.
func (s *share) perSecond() float64 { return s.rate.perSecond / float64(max(1, s.rate.busy)) }

// setBusy says whether there is something to emit. The shares of the others
// change with it from now on.
func (s *share) setBusy(busy bool) {
	if s.busy == busy {
		return
	}
	now := time.Now()
	for other := range s.rate.shares {
		other.refill(now)
	}
	s.busy = busy
	if busy {
		s.rate.busy++
	} else {
		s.rate.busy--
	}
}

func (s *share) arm(d time.Duration) {
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.wake)
		return
	}
	s.timer.Reset(d)
}

func (s *share) CheckpointComplete() {}

func (s *share) Close() {
	s.rate.mu.Lock()
	defer s.rate.mu.Unlock()
	s.setBusy(false)
	delete(s.rate.shares, s)
	if s.timer != nil {
		s.timer.Stop()
	}
}
