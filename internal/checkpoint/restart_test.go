package checkpoint

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector"
)

// failure is one failure: when the attempt began and failed, in seconds, the
// random number then drawn, and what should come of it; -1 is the end.
type failure struct {
	begin, at float64
	random    float64
	want      float64
}

func TestRestarts(t *testing.T) {
	exponential := checkpoint.DefaultRestart(checkpoint.ExponentialDelay{Jitter: -1}, true)
	for name, test := range map[string]struct {
		strategy checkpoint.Restart
		failures []failure
	}{
		"none":          {checkpoint.None{}, []failure{{0, 1, 0, -1}}},
		"fixed default": {checkpoint.DefaultRestart(checkpoint.FixedDelay{}, true), []failure{{0, 1, 0, 1}, {2, 9999, 0, -1}}},
		"fixed three": {checkpoint.FixedDelay{Attempts: 3, Delay: 5 * time.Second},
			[]failure{{0, 1, 0, 5}, {6, 7, 0, 5}, {12, 13, 0, 5}, {18, 19, 0, -1}}},
		"rate": {checkpoint.FailureRate{Max: 2, Interval: 10 * time.Second, Delay: 2 * time.Second},
			[]failure{{0, 1, 0, 2}, {3, 4, 0, 2}, {6, 11, 0, 2}, {13, 14, 0, 2}, {15, 16, 0, -1}}},
		"exponential": {exponential,
			[]failure{{0, 1, 0, 1}, {2, 3, 0, 1.5}, {5, 6, 0, 2.25}, {9, 10, 0, 3.375}}},
		"exponential up to the bound": {checkpoint.ExponentialDelay{Initial: 40 * time.Second, Max: time.Minute, Multiplier: 2, ResetAfter: time.Hour, Attempts: -1},
			[]failure{{0, 1, 0, 40}, {41, 42, 0, 60}, {102, 103, 0, 60}}},
		"exponential reset": {exponential,
			[]failure{{0, 1, 0, 1}, {2, 3, 0, 1.5}, {5, 604.9, 0, 2.25}, {610, 1210, 0, 1}, {1212, 1213, 0, 1.5}}},
		"exponential attempts": {checkpoint.DefaultRestart(checkpoint.ExponentialDelay{Attempts: 2, Jitter: -1}, true),
			[]failure{{0, 1, 0, 1}, {2, 3, 0, 1.5}, {5, 6, 0, -1}, {6, 606, 0, 1}}},
		"jitter": {checkpoint.DefaultRestart(nil, true),
			[]failure{{0, 1, 0, 0.9}, {2, 3, 0.5, 1.5}, {5, 6, 0.75, 2.25 * 1.05}}},
		"jitter within the bound": {checkpoint.ExponentialDelay{Initial: time.Minute, Max: time.Minute, Multiplier: 1, Jitter: 0.5, ResetAfter: time.Hour, Attempts: -1},
			[]failure{{0, 1, 0.99, 60}, {2, 3, 0, 30}}},
	} {
		t.Run(name, func(t *testing.T) {
			random := 0.0
			r := NewRestarter(test.strategy, func() float64 { return random })
			at := func(seconds float64) time.Time { return time.Unix(0, int64(seconds*1e9)) }
			for i, f := range test.failures {
				random = f.random
				delay, ok := r.Failure(at(f.begin), at(f.at))
				got := delay.Seconds()
				if !ok {
					got = -1
				}
				if got != f.want {
					t.Errorf("failure %d: %v s, want %v s", i, got, f.want)
				}
			}
		})
	}
}

func TestFatal(t *testing.T) {
	for _, err := range []error{
		ErrFinished, ErrRefused, ErrFenced, connector.ErrTransactionLost, connector.ErrTransactionUnknown,
		AsFatal(errors.New("bad state")), &UncommittedError{Err: errors.New("x")},
	} {
		if !Fatal(fmt.Errorf("job: %w", err)) {
			t.Errorf("not fatal: %v", err)
		}
	}
	reset := errors.New("connection reset")
	lost := &connector.CommitError{Err: fmt.Errorf("transaction x: %w", fmt.Errorf("aborted: %w: %w", connector.ErrTransactionLost, reset))}
	if !Fatal(fmt.Errorf("commit: %w", errors.Join(lost, lost))) {
		t.Error("two losses are not fatal")
	}
	for _, err := range []error{nil, reset, errors.Join(lost, reset), errors.Join(&connector.CommitError{Index: 1, Err: reset}, lost)} {
		if Fatal(err) {
			t.Errorf("what may pass is fatal: %v", err)
		}
	}
	if AsFatal(nil) != nil {
		t.Error("AsFatal makes an error of none")
	}
	cause := errors.New("cause")
	if !errors.Is(AsFatal(cause), cause) {
		t.Error("AsFatal hides the cause")
	}
}
