package stream

import (
	"fmt"
	"reflect"
	"time"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/state"
)

// Stream is a stream of records of type T. It is a small value; using it
// twice sends its records to both consumers.
type Stream[T any] struct {
	job    *Job
	inputs []input
}

// input is one origin of a stream.
type input struct {
	node      *graph.Node
	tag       string
	partition graph.Partition
}

// Keyed is a stream whose records have a key: state and timers of the
// functions applied to it belong to the key of the record.
type Keyed[K comparable, T any] struct {
	stream Stream[T]
	key    func(T) K
}

// Option sets something of an operator.
type Option interface{ apply(*settings) }

// settings are what options change: a node, and what some kinds of nodes have
// besides.
type settings struct {
	*graph.Node
	lateness time.Duration
	// lateTag is the side output for late records, "" for none; lateType the
	// type of the tag's records.
	lateTag string
	// migrations are for the accumulators of an Aggregate.
	migrations []state.Option
	lateType   reflect.Type
	lateSide   func() side
}

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// Parallelism sets the number of subtasks of an operator.
func Parallelism(n int) Option { return option(func(s *settings) { s.Node.Parallelism = n }) }

// Named sets the name shown to people; ids, not names, match state.
func Named(name string) Option { return option(func(s *settings) { s.Name = name }) }

// ID sets the id of an operator that needs none: stateless ones, which are
// numbered otherwise.
func ID(id string) Option { return option(func(s *settings) { s.Node.ID = id }) }

// apply applies the options of an operator that has no windows.
func apply(j *Job, n *graph.Node, opts []Option) *graph.Node {
	if s := settle(j, n, opts); s.lateness != 0 || s.lateTag != "" || len(s.migrations) > 0 {
		j.failf(n.Site, "AllowedLateness, LateTo and MigrateAccumulator are options of Aggregate; a %s has no windows", n.Kind)
	}
	return n
}

func settle(j *Job, n *graph.Node, opts []Option) *settings {
	s := &settings{Node: n}
	n.Site = site()
	for i, o := range opts {
		if o == nil {
			j.failf(n.Site, "option %d of the %s is nil", i+1, n.Kind)
			continue
		}
		o.apply(s)
	}
	return s
}

// edges makes the edges by which an operator consumes s.
func edges[T any](s Stream[T]) []graph.Edge {
	es := make([]graph.Edge, len(s.inputs))
	for i, in := range s.inputs {
		es[i] = graph.Edge{From: in.node, Tag: in.tag, Partition: in.partition, Body: stage.SpreadEdge[T]{}}
	}
	return es
}

// keyedEdges makes the edges by which a keyed operator consumes s.
func keyedEdges[K comparable, T any](s Keyed[K, T]) []graph.Edge {
	es := make([]graph.Edge, len(s.stream.inputs))
	for i, in := range s.stream.inputs {
		es[i] = graph.Edge{
			From: in.node, Tag: in.tag, Partition: graph.Hash,
			Body: stage.HashEdge[K, T]{Key: s.key},
		}
	}
	return es
}

// from is the stream of a node's main output.
func from[T any](j *Job, n *graph.Node) Stream[T] {
	return Stream[T]{job: j, inputs: []input{{node: n, partition: graph.Forward}}}
}

func with[T any](s Stream[T], p graph.Partition) Stream[T] {
	out := Stream[T]{job: s.job, inputs: make([]input, len(s.inputs))}
	for i, in := range s.inputs {
		in.partition = p
		out.inputs[i] = in
	}
	return out
}

// Rebalance deals the records of s out to the consumer's subtasks in turn,
// batch by batch.
func Rebalance[T any](s Stream[T]) Stream[T] { return with(s, graph.Rebalance) }

// Broadcast sends every record of s to every subtask of the consumer. See
// KeyedBroadcastProcess for functions that take such a stream beside another.
func Broadcast[T any](s Stream[T]) Stream[T] { return with(s, graph.Broadcast) }

// Union merges streams of one type. Records of one stream stay in order;
// between streams there is none. A stream given twice comes twice.
func Union[T any](s Stream[T], more ...Stream[T]) Stream[T] {
	out := Stream[T]{job: s.job, inputs: append([]input(nil), s.inputs...)}
	for _, m := range more {
		if m.job != s.job {
			s.job.failf(site(), "union of streams of two jobs")
			continue
		}
		out.inputs = append(out.inputs, m.inputs...)
	}
	return out
}

// KeyBy gives each record the key that the function computes from it. The
// function must be deterministic. K is a number, a bool, a string, an array
// of bytes or a flat struct of those.
func KeyBy[K comparable, T any](s Stream[T], key func(T) K) Keyed[K, T] {
	if err := keyable[K](); err != nil {
		s.job.failf(site(), "KeyBy: %w", err)
	}
	if key == nil {
		s.job.failf(site(), "KeyBy: the key function is nil")
	}
	return Keyed[K, T]{stream: s, key: key}
}

// Tag names a side output of records of type T.
type Tag[T any] struct{ name string }

// NewTag makes a tag; names are unique within the operator that emits to it.
func NewTag[T any](name string) Tag[T] { return Tag[T]{name: name} }

// Name returns the name of the tag.
func (t Tag[T]) Name() string { return t.name }

// SideOutput returns the records that the operator behind s emitted to the tag.
func SideOutput[Out, T any](s Stream[Out], tag Tag[T]) Stream[T] {
	out := Stream[T]{job: s.job}
	for _, in := range s.inputs {
		b, ok := in.node.Body.(sideBody)
		if !ok {
			s.job.failf(site(), "the %s of %s has no side outputs: functions and aggregates have", in.node.Kind, in.node.Site)
			continue
		}
		if err := b.side(tag.name, func() side { return newSide[T]() }); err != nil {
			s.job.failf(site(), "side output of %q: %w", in.node.ID, err)
		}
		out.inputs = append(out.inputs, input{node: in.node, tag: tag.name, partition: graph.Forward})
	}
	return out
}

// side is an emitter of a side output with its type erased.
type side interface {
	Connect(any) error
	Flush() error
}

func newSide[T any]() side { return stage.NewEmitter[T]() }

// sideBody is a body with side outputs.
type sideBody interface {
	side(tag string, make func() side) error
}

// sides are the declared side outputs of a node.
type sides map[string]func() side

func (s sides) side(tag string, make func() side) error {
	if tag == "" {
		return fmt.Errorf("a tag needs a name")
	}
	if have, ok := s[tag]; ok {
		if fmt.Sprintf("%T", have()) != fmt.Sprintf("%T", make()) {
			return fmt.Errorf("tag %q is used with two types", tag)
		}
		return nil
	}
	s[tag] = make
	return nil
}
