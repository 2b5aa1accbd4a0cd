package streamtest

import (
	"reflect"
	"testing"
	"time"

	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// ConnectedHarness is a Harness of a part of a job with two inputs. What is said
// of Push there holds for both; watermarks and the end are those of both inputs
// together.
type ConnectedHarness[A, B, Out any] struct {
	*Harness[either[A, B], Out]
	first  func(A) time.Time
	second func(B) time.Time
}

// either is a record of one of two inputs.
type either[A, B any] struct {
	a      A
	b      B
	second bool
}

// NewConnected makes a harness of a part of a job that takes two streams: see New.
// The option Timestamps may be given for the records of each.
func NewConnected[A, B, Out any](t testing.TB, pipeline func(first stream.Stream[A], second stream.Stream[B]) stream.Stream[Out], opts ...Option) *ConnectedHarness[A, B, Out] {
	t.Helper()
	o, err := optionsOf(opts)
	if err != nil {
		t.Fatal(err)
	}
	h := &ConnectedHarness[A, B, Out]{first: timestampsOf[A](&o)}
	types := []reflect.Type{reflect.TypeFor[A](), reflect.TypeFor[B]()}
	if types[0] == types[1] {
		h.second = any(h.first).(func(B) time.Time)
	} else {
		h.second = timestampsOf[B](&o)
	}
	if err := o.spent(types...); err != nil {
		t.Fatal(err)
	}
	if pipeline == nil {
		t.Fatal("the pipeline is nil")
	}
	h.Harness = newHarness(t, func(in stream.Stream[either[A, B]]) stream.Stream[Out] { return pipeline(split(in)) }, o)
	return h
}

// split divides the records of two inputs again, in the source's subtask.
func split[A, B any](in stream.Stream[either[A, B]]) (stream.Stream[A], stream.Stream[B]) {
	first := stream.FlatMap(in, func(v either[A, B], emit func(A)) {
		if !v.second {
			emit(v.a)
		}
	}, stream.ID("test-first"), stream.Parallelism(1))
	second := stream.FlatMap(in, func(v either[A, B], emit func(B)) {
		if v.second {
			emit(v.b)
		}
	}, stream.ID("test-second"), stream.Parallelism(1))
	return first, second
}

// KeyedBroadcastProcess makes a harness of a function on a keyed stream and a
// broadcast one, which is the second: stream.KeyedBroadcastProcess with the id
// "process".
func KeyedBroadcastProcess[K comparable, In, B, Out any, P stream.BroadcastProcessor[K, In, B, Out]](t testing.TB, key func(In) K, newP func(*state.Registry) P, opts ...Option) *ConnectedHarness[In, B, Out] {
	t.Helper()
	return NewConnected(t, func(in stream.Stream[In], second stream.Stream[B]) stream.Stream[Out] {
		return stream.KeyedBroadcastProcess(stream.Connect(stream.KeyBy(in, key), stream.Broadcast(second)), "process", newP)
	}, opts...)
}

// BroadcastProcess makes a harness of a function on a stream without keys and a
// broadcast one, which is the second: stream.BroadcastProcess with the id
// "process".
func BroadcastProcess[In, B, Out any, P stream.BroadcastProcessor[stream.NoKey, In, B, Out]](t testing.TB, newP func(*state.Registry) P, opts ...Option) *ConnectedHarness[In, B, Out] {
	t.Helper()
	return NewConnected(t, func(in stream.Stream[In], second stream.Stream[B]) stream.Stream[Out] {
		return stream.BroadcastProcess(stream.Connect(in, stream.Broadcast(second)), "process", newP)
	}, opts...)
}

// Push hands in records of the first input: see Harness.Push.
func (h *ConnectedHarness[A, B, Out]) Push(vals ...A) {
	h.core.t.Helper()
	for _, v := range vals {
		var at time.Time
		if h.first != nil {
			at = h.first(v)
		}
		h.push(either[A, B]{a: v}, at)
	}
}

// PushAt is Push with an event time.
func (h *ConnectedHarness[A, B, Out]) PushAt(at time.Time, vals ...A) {
	h.core.t.Helper()
	for _, v := range vals {
		h.push(either[A, B]{a: v}, at)
	}
}

// PushSecond hands in records of the second input, in a broadcast function that is the
// broadcast stream.
func (h *ConnectedHarness[A, B, Out]) PushSecond(vals ...B) {
	h.core.t.Helper()
	for _, v := range vals {
		var at time.Time
		if h.second != nil {
			at = h.second(v)
		}
		h.push(either[A, B]{b: v, second: true}, at)
	}
}

// PushSecondAt is PushSecond with an event time.
func (h *ConnectedHarness[A, B, Out]) PushSecondAt(at time.Time, vals ...B) {
	h.core.t.Helper()
	for _, v := range vals {
		h.push(either[A, B]{b: v, second: true}, at)
	}
}

// Restore is Harness.Restore.
func (h *ConnectedHarness[A, B, Out]) Restore(from *Snapshot, opts ...SharedOption) *ConnectedHarness[A, B, Out] {
	h.core.t.Helper()
	h.Harness.Restore(from, opts...)
	return h
}

// Rescale is Harness.Rescale.
func (h *ConnectedHarness[A, B, Out]) Rescale(parallelism int) *ConnectedHarness[A, B, Out] {
	h.core.t.Helper()
	h.Harness.Rescale(parallelism)
	return h
}
