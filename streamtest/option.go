package streamtest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
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
	// start is nil where none was given.
	start *time.Time
	from  *Snapshot
	// timestamps are each a func(In) time.Time, of different types.
	timestamps []any
	refusals
}

// refusals are what is wrong with options.
type refusals []error

func (r *refusals) refuse(format string, args ...any) { *r = append(*r, fmt.Errorf(format, args...)) }

func (r refusals) err() error { return errors.Join(r...) }

type option func(*options)

func (o option) forHarness(to *options) { o(to) }

type parallelism int

func (p parallelism) forHarness(o *options) { o.parallelism = p.checked(&o.refusals) }
func (p parallelism) forRun(s *script)      { s.parallelism = p.checked(&s.refusals) }

func (p parallelism) checked(r *refusals) int {
	if p < 1 {
		r.refuse("Parallelism(%d): an operator has 1 subtask or more", p)
	}
	return int(p)
}

// Parallelism is the number of subtasks of every operator that sets none.
// The default is that of the job's code, or 1.
func Parallelism(n int) SharedOption { return parallelism(n) }

// MaxParallelism is the number of key groups. The default is that of a job:
// 128, or more for a large parallelism.
func MaxParallelism(n int) Option {
	return option(func(o *options) {
		if o.maxParallelism = n; n < 1 {
			o.refuse("MaxParallelism(%d): there is 1 key group or more", n)
		}
	})
}

// StartAt is where the virtual clock begins. The default is the Unix epoch; with
// From, where the clock of the snapshot stood.
func StartAt(t time.Time) Option { return option(func(o *options) { o.start = &t }) }

// Timestamps gives the records of Push their event time, as the watermark
// strategy of the job's source would. The zero Time means that a record has
// none.
func Timestamps[In any](of func(In) time.Time) Option {
	return option(func(o *options) { o.timestamps = append(o.timestamps, of) })
}

// From begins from the snapshot of another harness: one of an earlier version
// of the pipeline, for example. The wall clock goes on from the snapshot's. If
// the input had ended there, it has ended.
func From(s *Snapshot) Option {
	return option(func(o *options) {
		if o.from = s; s == nil {
			o.refuse("From(nil): take a Snapshot first")
		}
	})
}

func optionsOf(opts []Option) (options, error) {
	o := options{parallelism: 1}
	for i, opt := range opts {
		o.apply(i, opt)
	}
	return o, o.err()
}

// apply applies the option with an index.
func (o *options) apply(i int, opt Option) {
	if opt == nil {
		o.refuse("option %d is nil", i+1)
		return
	}
	opt.forHarness(o)
}

// timestampsOf returns the function given by Timestamps for a type of records,
// nil if none was.
func timestampsOf[In any](o *options) func(In) time.Time {
	var of func(In) time.Time
	o.timestamps = slices.DeleteFunc(o.timestamps, func(given any) bool {
		f, ok := given.(func(In) time.Time)
		if ok && f == nil {
			o.refuse("the function of the option Timestamps is nil")
		}
		if ok {
			of = f
		}
		return ok
	})
	return of
}

// spent makes sure that no Timestamps are left, which are for other types.
func (o *options) spent(types ...reflect.Type) error {
	for _, given := range o.timestamps {
		o.refuse("the option Timestamps is a %T; the records are of type %v", given, joined(types))
	}
	return o.err()
}

func joined(types []reflect.Type) string {
	var names []string
	for _, t := range types {
		names = append(names, t.String())
	}
	return strings.Join(names, " and ")
}
