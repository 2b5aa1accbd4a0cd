package agg

import (
	"fmt"

	"github.com/weirstream/weir/codec"
)

// Folded is the accumulator of Reduce.
type Folded[T any] struct {
	Value T
	// Seen: there is a value.
	Seen bool
}

// Reduce combines records pairwise, those of earlier time first where several
// slices of a window are put together. f must be associative. T must be free
// of pointers; see ReduceEncoded.
func Reduce[T any](f func(a, b T) T) Aggregator[T, Folded[T], T] { return reduce[T]{f} }

type reduce[T any] struct{ f func(a, b T) T }

func (reduce[T]) Init(acc *Folded[T]) { *acc = Folded[T]{} }

func (r reduce[T]) Add(acc *Folded[T], in T) error {
	if acc.Seen {
		in = r.f(acc.Value, in)
	}
	acc.Value, acc.Seen = in, true
	return nil
}

func (r reduce[T]) Merge(acc, other *Folded[T]) error {
	if !other.Seen {
		return nil
	}
	return r.Add(acc, other.Value)
}

func (reduce[T]) Result(acc *Folded[T]) (T, bool) { return acc.Value, acc.Seen }
func (reduce[T]) Kind() string                    { return "reduce" }

// ReduceEncoded is Reduce for types that hold pointers: the accumulator is the
// value encoded by c, decoded and encoded again for each record.
func ReduceEncoded[T any](f func(a, b T) T, c codec.Codec[T]) Aggregator[T, []byte, T] {
	return encoded[T]{f, c}
}

type encoded[T any] struct {
	f     func(a, b T) T
	codec codec.Codec[T]
}

// An encoded accumulator is empty, or a byte that is 1 before the value.

func (encoded[T]) Init(acc *[]byte) { *acc = (*acc)[:0] }

func (r encoded[T]) Add(acc *[]byte, in T) error {
	if len(*acc) > 0 {
		old, err := r.value(*acc)
		if err != nil {
			return err
		}
		in = r.f(old, in)
	}
	b, err := r.codec.Append(append((*acc)[:0], 1), in)
	if err != nil {
		return fmt.Errorf("reduce: %w", err)
	}
	*acc = b
	return nil
}

func (r encoded[T]) value(acc []byte) (T, error) {
	v, err := r.codec.Decode(acc[1:])
	if err != nil {
		return v, fmt.Errorf("reduce: accumulator: %w", err)
	}
	return v, nil
}

func (r encoded[T]) Merge(acc, other *[]byte) error {
	if len(*other) == 0 {
		return nil
	}
	v, err := r.value(*other)
	if err != nil {
		return err
	}
	return r.Add(acc, v)
}

func (r encoded[T]) Result(acc *[]byte) (T, bool) {
	if len(*acc) == 0 {
		var zero T
		return zero, false
	}
	v, err := r.value(*acc)
	return v, err == nil
}

func (r encoded[T]) Kind() string { return "reduce(" + r.codec.Format().ID + ")" }
