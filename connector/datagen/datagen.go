// Package datagen makes records out of their index: for load, for tests and
// for examples.
package datagen

import (
	"fmt"
	"math"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// Sequence is a source whose record i is gen(i). It rewinds exactly: a split
// stores the next index. It implements connector.Source.
type Sequence[T any] struct {
	n       int64
	gen     func(i int64) T
	options options
}

type options struct {
	millis     func(i int64) int64
	perSecond  float64
	interleave bool
	single     bool
	err        error
}

// Option changes what a sequence does.
type Option func(*options)

// Timestamps gives record i the source timestamp at(i). Without it, and
// without Millis, records have none.
func Timestamps(at func(i int64) time.Time) Option {
	return func(o *options) { o.millis = func(i int64) int64 { return at(i).UnixMilli() } }
}

// Millis is Timestamps in milliseconds since the epoch.
func Millis(at func(i int64) int64) Option {
	return func(o *options) { o.millis = at }
}

// Rate limits the source to perSecond records per second, over all subtasks
// together. The default is no limit.
func Rate(perSecond float64) Option {
	return func(o *options) {
		if !(perSecond > 0) || math.IsInf(perSecond, 1) {
			o.err = fmt.Errorf("datagen: rate of %v records per second; give a finite number above 0", perSecond)
			return
		}
		o.perSecond = perSecond
	}
}

// Interleaved deals indices out in turn (subtask s of p makes s, s+p, s+2p,
// …), so that all subtasks are at about the same index. By default each
// subtask has one contiguous range. An unbounded sequence is always
// interleaved.
func Interleaved() Option { return func(o *options) { o.interleave = true } }

// Source makes the records gen(0) to gen(n-1), without end if n < 0. The
// indices are cut into one split per subtask at the first start; later starts
// may have another parallelism. gen must depend on i alone: it is called again
// for the same i after a failure, and by several subtasks at once.
func Source[T any](n int64, gen func(i int64) T, opts ...Option) *Sequence[T] {
	s := &Sequence[T]{n: n, gen: gen}
	for _, opt := range opts {
		opt(&s.options)
	}
	if gen == nil {
		s.options.err = fmt.Errorf("datagen: Source needs a function that makes records")
	}
	return s
}

// FromSlice makes the values of a slice, in order, in one split: one subtask
// reads them, whatever the parallelism. The slice must not change afterwards;
// a job that is restored with a longer one goes on where it had ended.
func FromSlice[T any](vals []T, opts ...Option) *Sequence[T] {
	s := Source(int64(len(vals)), func(i int64) T { return vals[i] }, opts...)
	s.options.single = true
	return s
}

// Bounded says whether the sequence ends.
func (s *Sequence[T]) Bounded() bool { return s.n >= 0 }

// SplitCodec encodes splits.
func (s *Sequence[T]) SplitCodec() codec.Codec[Split] { return splitCodec{} }

// EnumeratorCodec encodes the enumerator's state.
func (s *Sequence[T]) EnumeratorCodec() codec.Codec[Enumeration] { return enumerationCodec{} }

// NewEnumerator makes the enumerator.
func (s *Sequence[T]) NewEnumerator(ctx connector.EnumeratorContext[Split], restored *Enumeration) (connector.Enumerator[Split, Enumeration], error) {
	if s.options.err != nil {
		return nil, s.options.err
	}
	return newEnumerator(ctx, s.n, s.options, restored), nil
}

// NewReader makes the reader of one subtask.
func (s *Sequence[T]) NewReader(ctx connector.ReaderContext) (connector.Reader[T, Split], error) {
	if s.options.err != nil {
		return nil, s.options.err
	}
	r := &reader[T]{ctx: ctx, gen: s.gen, millis: s.options.millis, slice: -1}
	if s.options.single {
		r.slice = s.n
	}
	if s.options.perSecond > 0 {
		r.limit = newLimiter(s.options.perSecond/float64(ctx.Parallelism()), ctx.Wake)
	}
	return r, nil
}
