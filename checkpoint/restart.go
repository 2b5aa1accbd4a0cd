package checkpoint

import (
	"errors"
	"fmt"
	"time"
)

// Restart says whether and when a job that failed starts again: None,
// FixedDelay, FailureRate or ExponentialDelay. Nil means the default.
type Restart interface {
	// Validate reports everything that is wrong with it, in one error.
	Validate() error
	// String describes it for people.
	String() string
	withDefaults() Restart
}

// DefaultRestart returns r with what is not set filled in. For nil it returns
// ExponentialDelay if the job has checkpoints and None if it has not.
func DefaultRestart(r Restart, checkpoints bool) Restart {
	switch {
	case r != nil:
		return r.withDefaults()
	case checkpoints:
		return ExponentialDelay{}.withDefaults()
	}
	return None{}
}

// None never restarts: the first failure is the job's end.
type None struct{}

// FixedDelay restarts a number of times, after the same delay each time.
type FixedDelay struct {
	// Attempts is the number of restarts over the life of the process,
	// Unlimited for any number. Default 1.
	Attempts int
	// Delay before each restart. Default 1 second.
	Delay time.Duration
}

// FailureRate restarts unless failures come too often.
type FailureRate struct {
	// Max is how many failures within Interval are put up with; one more ends
	// the job. Default 1.
	Max int
	// Interval over which failures are counted. Default 1 minute.
	Interval time.Duration
	// Delay before each restart. Default 1 second.
	Delay time.Duration
}

// ExponentialDelay restarts after a delay that grows from failure to failure.
type ExponentialDelay struct {
	// Initial is the delay after the first failure. Default 1 second.
	Initial time.Duration
	// Max bounds the delay. Default 1 minute.
	Max time.Duration
	// Multiplier is the growth per failure. Default 1.5.
	Multiplier float64
	// Jitter is the part of the delay, 0 to 1, by which chance may lengthen or
	// shorten it. Default 0.1; negative for none.
	Jitter float64
	// ResetAfter is how long the job must have run without failure for the
	// delay and the count of attempts to start anew. Default 10 minutes.
	ResetAfter time.Duration
	// Attempts is the number of restarts in a row before the job fails.
	// Default Unlimited, as is 0.
	Attempts int
}

func (n None) withDefaults() Restart { return n }

func (f FixedDelay) withDefaults() Restart {
	setDefault(&f.Attempts, 1)
	setDefault(&f.Delay, time.Second)
	return f
}

func (f FailureRate) withDefaults() Restart {
	setDefault(&f.Max, 1)
	setDefault(&f.Interval, time.Minute)
	setDefault(&f.Delay, time.Second)
	return f
}

func (e ExponentialDelay) withDefaults() Restart {
	setDefault(&e.Initial, time.Second)
	setDefault(&e.Max, time.Minute)
	setDefault(&e.Multiplier, 1.5)
	setDefault(&e.Jitter, 0.1)
	e.Jitter = max(e.Jitter, 0)
	setDefault(&e.ResetAfter, 10*time.Minute)
	setDefault(&e.Attempts, Unlimited)
	return e
}

// Validate returns nil.
func (None) Validate() error { return nil }

// Validate reports everything that is wrong, in one error.
func (f FixedDelay) Validate() error {
	return errors.Join(
		wrong(f.Attempts < Unlimited, "fixed-delay: Attempts is %d: it must be %d (any number) or more", f.Attempts, Unlimited),
		wrong(f.Delay < 0, "fixed-delay: Delay is %v: it must not be negative", f.Delay))
}

// Validate reports everything that is wrong, in one error.
func (f FailureRate) Validate() error {
	return errors.Join(
		wrong(f.Max < 0, "failure-rate: Max is %d: it must not be negative", f.Max),
		wrong(f.Interval < 0, "failure-rate: Interval is %v: it must not be negative", f.Interval),
		wrong(f.Delay < 0, "failure-rate: Delay is %v: it must not be negative", f.Delay))
}

// Validate reports everything that is wrong, in one error.
func (e ExponentialDelay) Validate() error {
	return errors.Join(
		wrong(e.Initial < 0, "exponential-delay: Initial is %v: it must not be negative", e.Initial),
		wrong(e.Max < e.Initial, "exponential-delay: Max %v is below Initial %v", e.Max, e.Initial),
		wrong(!(e.Multiplier >= 1), "exponential-delay: Multiplier is %v: it must be at least 1", e.Multiplier),
		wrong(!(e.Jitter <= 1), "exponential-delay: Jitter is %v: it must be between 0 and 1", e.Jitter),
		wrong(e.ResetAfter < 0, "exponential-delay: ResetAfter is %v: it must not be negative", e.ResetAfter),
		wrong(e.Attempts < Unlimited, "exponential-delay: Attempts is %d: it must be %d (any number) or more", e.Attempts, Unlimited))
}

func wrong(when bool, format string, args ...any) error {
	if !when {
		return nil
	}
	return fmt.Errorf("restart: "+format, args...)
}

// String is "none".
func (None) String() string { return "none" }

// String is like "fixed-delay: 3 attempts, 1s apart".
func (f FixedDelay) String() string {
	return fmt.Sprintf("fixed-delay: %s, %v apart", attempts(f.Attempts), f.Delay)
}

// String is like "failure-rate: at most 3 failures in 1m0s, 1s apart".
func (f FailureRate) String() string {
	return fmt.Sprintf("failure-rate: at most %d failures in %v, %v apart", f.Max, f.Interval, f.Delay)
}

// String is like "exponential-delay: 1s to 1m0s, x1.5, jitter 0.1, reset after 10m0s, any number of attempts".
func (e ExponentialDelay) String() string {
	return fmt.Sprintf("exponential-delay: %v to %v, x%v, jitter %v, reset after %v, %s",
		e.Initial, e.Max, e.Multiplier, e.Jitter, e.ResetAfter, attempts(e.Attempts))
}

func attempts(n int) string {
	if n == Unlimited {
		return "any number of attempts"
	}
	return fmt.Sprintf("%d attempts", n)
}
