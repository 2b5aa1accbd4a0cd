// Package checkpoint holds the options of a job's checkpoints and of its
// restarts after a failure.
//
// Every zero value is usable: EnsureDefaults fills in what is not set.
package checkpoint

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Mode says how often a record may take effect on state after a failure.
type Mode string

const (
	// ExactlyOnce aligns barriers: each record takes effect on state once.
	ExactlyOnce Mode = "exactly-once"
	// AtLeastOnce does not hold back channels whose barrier has come: lower
	// latency while a checkpoint is under way, but a failure may apply
	// records to state twice. Not for jobs with exactly-once sinks.
	AtLeastOnce Mode = "at-least-once"
)

// Retention says what becomes of completed checkpoints when the job ends.
// After a failure, and after a suspend, they are kept in any case.
type Retention string

const (
	// RetainAlways keeps them. They are the user's to delete.
	RetainAlways Retention = "retain"
	// DeleteOnCancel deletes them when the job is cancelled.
	DeleteOnCancel Retention = "delete-on-cancel"
	// DeleteAtEnd deletes them when the job is cancelled or its input ends.
	DeleteAtEnd Retention = "delete"
)

// Memory is the Dir that keeps checkpoints in the memory of the process:
// recovery inside the process works, nothing survives it. For tests.
const Memory = "memory:"

// Unlimited, as TolerableFailures, lets the job run on however many
// checkpoints fail.
const Unlimited = -1

// Options are the options of a job's checkpoints.
type Options struct {
	// Interval is the time from the start of one periodic checkpoint to that
	// of the next; a checkpoint that takes longer delays the next one. The
	// first comes after a random part of it. Zero, the default, means no
	// periodic checkpoints. Needs Dir.
	Interval time.Duration
	// Mode defaults to ExactlyOnce.
	Mode Mode
	// Timeout is how long a checkpoint may take before it is abandoned.
	// Default 10 minutes.
	Timeout time.Duration
	// MinPause is the least time between the completion of a checkpoint and
	// the start of the next periodic one. Default 0. Not with MaxConcurrent
	// above 1; raises an Interval below it.
	MinPause time.Duration
	// MaxConcurrent is how many checkpoints may be under way at once.
	// Default 1. Savepoints do not count and may exceed it.
	MaxConcurrent int
	// TolerableFailures is how many checkpoints in a row may fail before the
	// job fails, Unlimited for any number. Default 0. Only failures of the
	// storage and timeouts count: a failing function or sink fails its task.
	TolerableFailures int
	// Retained is how many completed checkpoints are kept. Default 3.
	Retained int
	// Retention defaults to RetainAlways.
	Retention Retention
	// Incremental writes only what has changed since the checkpoint before where
	// keyed state lies in memory, and from time to time a part of the rest, so that what a
	// restore has to read stays within bounds. It takes 8 bytes of memory per
	// key and operator. Checkpoints of the lsm backend are always incremental,
	// savepoints never.
	Incremental bool
	// Dir is where checkpoints and the ledger are kept, each job in a
	// subdirectory of its own: a path, a URL (see runner.WithStorage), or
	// Memory. Empty, the default, means
	// that there are no checkpoints.
	Dir string
	// SavepointDir is where savepoints go that are asked for without a
	// directory. Default none.
	SavepointDir string
	// PreferCheckpoint is accepted for configurations written for other
	// engines and has no effect: a recovery uses the newest snapshot.
	PreferCheckpoint bool
}

// Enabled reports whether the job has a place for checkpoints.
func (o *Options) Enabled() bool { return o.Dir != "" }

// EnsureDefaults fills in what is not set and raises an Interval below
// MinPause.
func (o *Options) EnsureDefaults() {
	setDefault(&o.Mode, ExactlyOnce)
	setDefault(&o.Timeout, 10*time.Minute)
	setDefault(&o.MaxConcurrent, 1)
	setDefault(&o.Retained, 3)
	setDefault(&o.Retention, RetainAlways)
	if o.Interval > 0 {
		o.Interval = max(o.Interval, o.MinPause)
	}
}

// Validate reports everything that is wrong with the options, in one error.
// It is called after EnsureDefaults.
func (o *Options) Validate() error {
	var errs []error
	bad := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf("checkpoint: "+format, args...))
		}
	}
	bad(o.Interval < 0, "Interval is %v: it must not be negative", o.Interval)
	bad(o.Interval > 0 && o.Interval < time.Millisecond, "Interval is %v: the least is 1ms", o.Interval)
	bad(o.Interval > 0 && o.Dir == "",
		"Interval is %v but there is no directory to write to: add Dir: \"/path/to/checkpoints\" "+
			"(execution.checkpointing.dir, --checkpoint-dir), or %q to keep checkpoints in memory", o.Interval, Memory)
	bad(o.Mode != ExactlyOnce && o.Mode != AtLeastOnce, "Mode is %q: it must be %q or %q", o.Mode, ExactlyOnce, AtLeastOnce)
	bad(o.Timeout < time.Millisecond, "Timeout is %v: the least is 1ms", o.Timeout)
	bad(o.MinPause < 0, "MinPause is %v: it must not be negative", o.MinPause)
	bad(o.MaxConcurrent < 1, "MaxConcurrent is %d: it must be at least 1", o.MaxConcurrent)
	bad(o.MinPause > 0 && o.MaxConcurrent > 1,
		"MinPause %v and MaxConcurrent %d exclude each other: a pause leaves no room for a second checkpoint; set MaxConcurrent to 1 or MinPause to 0",
		o.MinPause, o.MaxConcurrent)
	bad(o.TolerableFailures < Unlimited, "TolerableFailures is %d: it must be %d (any number) or more", o.TolerableFailures, Unlimited)
	bad(o.Retained < 1, "Retained is %d: it must be at least 1", o.Retained)
	bad(o.Retention != RetainAlways && o.Retention != DeleteOnCancel && o.Retention != DeleteAtEnd,
		"Retention is %q: it must be %q, %q or %q", o.Retention, RetainAlways, DeleteOnCancel, DeleteAtEnd)
	return errors.Join(errs...)
}

// Warn logs what is accepted without effect.
func (o *Options) Warn(log *slog.Logger) {
	if o.PreferCheckpoint {
		log.Warn("prefer-checkpoint has no effect: a recovery always uses the newest snapshot")
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
