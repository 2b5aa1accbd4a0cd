// Package agg holds aggregators: what a window or an aggregating state
// computes from its records.
package agg

// Aggregator folds records of In into an accumulator and reads a result from
// it. Implementations are stateless: all state is in the accumulator, which
// the engine stores. An accumulator is either a pointer-free value, kept in
// place in state memory, or a []byte in a form of the aggregator's own (Flat).
//
// Aggregators are called from one goroutine per subtask, one at a time per
// accumulator.
type Aggregator[In, Acc, Out any] interface {
	// Init sets acc, which holds the zero value or the bytes of a former
	// accumulator cut to length 0, to the accumulator of no record.
	Init(acc *Acc)
	// Add folds one record in. The error fails the record's task.
	Add(acc *Acc, in In) error
	// Merge folds other into acc; other stays as it is.
	Merge(acc, other *Acc) error
	// Result reads the result; acc stays as it is. ok is false where there is
	// none, as for the average of nothing.
	Result(acc *Acc) (out Out, ok bool)
	// Kind names the aggregator and its parameters, for example "sum" or
	// "quantile(0.01)". A snapshot stores it; another kind cannot be restored.
	Kind() string
}
