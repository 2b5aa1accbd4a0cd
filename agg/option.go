package agg

import "fmt"

// Option changes an aggregator.
type Option func(*options)

type options struct {
	accuracy float64
	err      error
}

func collect(accuracy float64, opts []Option) options {
	o := options{accuracy: accuracy}
	for _, set := range opts {
		set(&o)
	}
	return o
}

// Accuracy sets the relative error of an approximate aggregator, from 0.001 to
// 0.1. Half the error takes twice the memory in a quantile sketch, four times
// the memory in a distinct count. The default is 0.01 for quantiles and 0.02
// for distinct counts.
func Accuracy(relative float64) Option {
	return func(o *options) {
		if !(relative >= 0.001 && relative <= 0.1) {
			o.err = fmt.Errorf("accuracy %v: it must be between 0.001 and 0.1", relative)
			return
		}
		o.accuracy = relative
	}
}

// Err says what is wrong with the arguments that a was made from. An
// aggregator of one's own may have a method Err() error to take part.
func Err[In, Acc, Out any](a Aggregator[In, Acc, Out]) error {
	if c, ok := a.(interface{ Err() error }); ok {
		return c.Err()
	}
	return nil
}

// Skipped is the number of inputs, NaN, that an accumulator of a has left out.
// An aggregator of one's own may have a method Skipped(*Acc) int64 to take part.
func Skipped[In, Acc, Out any](a Aggregator[In, Acc, Out], acc *Acc) int64 {
	if s, ok := a.(interface{ Skipped(*Acc) int64 }); ok {
		return s.Skipped(acc)
	}
	return 0
}
