package checkpoint

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) {
	var o Options
	o.EnsureDefaults()
	want := Options{Mode: ExactlyOnce, Timeout: 10 * time.Minute, MaxConcurrent: 1, Retained: 3, Retention: RetainAlways}
	if o != want {
		t.Errorf("got %+v, want %+v", o, want)
	}
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	if o.Enabled() {
		t.Error("enabled without a directory")
	}
}

func TestIntervalRaisedToMinPause(t *testing.T) {
	o := Options{Interval: time.Second, MinPause: 3 * time.Second, Dir: Memory}
	o.EnsureDefaults()
	if o.Interval != 3*time.Second {
		t.Errorf("interval %v, want 3s", o.Interval)
	}
	off := Options{MinPause: 3 * time.Second}
	off.EnsureDefaults()
	if off.Interval != 0 {
		t.Errorf("interval %v: a pause alone must not turn checkpoints on", off.Interval)
	}
}

func TestValidateReportsAll(t *testing.T) {
	o := Options{
		Interval: time.Second, Mode: "sometimes", Timeout: -1, MinPause: time.Second, MaxConcurrent: 2,
		TolerableFailures: -2, Retained: -1, Retention: "maybe",
	}
	o.EnsureDefaults()
	err := o.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{
		`add Dir: "/path/to/checkpoints"`, `Mode is "sometimes"`, "Timeout is -1ns", "MinPause 1s and MaxConcurrent 2",
		"TolerableFailures is -2", "Retained is -1", `Retention is "maybe"`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in:\n%v", part, err)
		}
	}
}

func TestPreferCheckpointWarns(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	(&Options{}).Warn(log)
	if out.Len() > 0 {
		t.Errorf("warned of nothing: %s", &out)
	}
	(&Options{PreferCheckpoint: true}).Warn(log)
	if !strings.Contains(out.String(), "prefer-checkpoint has no effect") {
		t.Errorf("no warning: %q", &out)
	}
}

func TestRestartDefaults(t *testing.T) {
	if got := DefaultRestart(nil, false); got != (None{}) {
		t.Errorf("without checkpoints: %v", got)
	}
	want := ExponentialDelay{Initial: time.Second, Max: time.Minute, Multiplier: 1.5, Jitter: 0.1, ResetAfter: 10 * time.Minute, Attempts: Unlimited}
	if got := DefaultRestart(nil, true); got != want {
		t.Errorf("with checkpoints: %v", got)
	}
	if got := DefaultRestart(FixedDelay{Attempts: 3}, true); got != (FixedDelay{Attempts: 3, Delay: time.Second}) {
		t.Errorf("fixed delay: %v", got)
	}
	if got := DefaultRestart(FailureRate{}, true); got != (FailureRate{Max: 1, Interval: time.Minute, Delay: time.Second}) {
		t.Errorf("failure rate: %v", got)
	}
	if got := DefaultRestart(ExponentialDelay{Jitter: -1}, true).(ExponentialDelay).Jitter; got != 0 {
		t.Errorf("jitter %v, want none", got)
	}
}

func TestRestartValidate(t *testing.T) {
	for _, r := range []Restart{
		FixedDelay{Attempts: -2}, FixedDelay{Delay: -1}, FailureRate{Max: -1}, FailureRate{Interval: -1},
		FailureRate{Delay: -1}, ExponentialDelay{Initial: time.Hour}, ExponentialDelay{Multiplier: 0.5},
		ExponentialDelay{Jitter: 2}, ExponentialDelay{Attempts: -3}, ExponentialDelay{ResetAfter: -1},
	} {
		if r.withDefaults().Validate() == nil {
			t.Errorf("accepted: %v", r)
		}
	}
	for _, r := range []Restart{None{}, FixedDelay{}, FailureRate{}, ExponentialDelay{}} {
		if err := r.withDefaults().Validate(); err != nil {
			t.Errorf("%v: %v", r, err)
		}
	}
}
