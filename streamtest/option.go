package streamtest

import (
	"fmt"
	"time"
)

// Option sets something of a harness.
type Option interface{ forHarness(*options) }

// RunOption sets something of a run of a whole job.
type RunOption interface{ forRun(*script) }

// SharedOption is both.
type SharedOption interface {
	Option
	RunOption
}

// options are those of a harness.
type options struct {
	parallelism, maxParallelism int
	start                       time.Time
	from                        *Snapshot
	// timestamps is a func(In) time.Time, nil for none.
	timestamps any
}

type option func(*options)

func (o option) forHarness(to *options) { o(to) }

type parallelism int

func (p parallelism) forHarness(o *options) { o.parallelism = int(p) }
func (p parallelism) forRun(s *script)      { s.parallelism = int(p) }

// Parallelism is the number of subtasks of every operator that sets none.
// The default is that of the job's code, or 1.
func Parallelism(n int) SharedOption { return parallelism(n) }

// MaxParallelism is the number of key groups. The default is that of a job:
// 128, or more for a large parallelism.
func MaxParallelism(n int) Option { return option(func(o *options) { o.maxParallelism = n }) }

// StartAt is where the virtual clock begins. Default the Unix epoch.
func StartAt(t time.Time) Option { return option(func(o *options) { o.start = t }) }

// Timestamps gives the records of Push their event time, as the watermark
// strategy of the job's source would. The zero Time means that a record has
// none.
func Timestamps[In any](of func(In) time.Time) Option {
	return option(func(o *options) { o.timestamps = of })
}

// From begins from the snapshot of another harness: one of an earlier version
// of the pipeline, for example.
func From(s *Snapshot) Option { return option(func(o *options) { o.from = s }) }

func settle(opts []Option) options {
	o := options{parallelism: 1, start: time.Unix(0, 0)}
	for _, opt := range opts {
		opt.forHarness(&o)
	}
	return o
}

// timestampsOf returns the function given by Timestamps, nil if none was.
func timestampsOf[In any](o options) (func(In) time.Time, error) {
	if o.timestamps == nil {
		return nil, nil
	}
	of, ok := o.timestamps.(func(In) time.Time)
	if !ok {
		var in In
		return nil, fmt.Errorf("the option Timestamps is a %T; the records are of type %T", o.timestamps, in)
	}
	return of, nil
}
