package stream

import (
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
)

// body makes operators from a function.
type body struct{ make func() stage.Operator }

func (b body) NewOperator() stage.Operator { return b.make() }

func transform[A, B any](s Stream[A], kind string, missing bool, opts []Option, make func() stage.Operator) Stream[B] {
	n := apply(s.job, &graph.Node{Kind: kind, Role: graph.Operator, Inputs: edges(s), Body: body{make}}, opts)
	if missing {
		s.job.failf(n.Site, "the function of the %s is nil", kind)
	}
	return from[B](s.job, s.job.add(n))
}

// Map turns each record into another.
func Map[A, B any](s Stream[A], f func(A) B, opts ...Option) Stream[B] {
	return transform[A, B](s, "map", f == nil, opts, func() stage.Operator {
		return &mapper[A, B]{f: f, out: stage.NewEmitter[B]()}
	})
}

type mapper[A, B any] struct {
	base
	f    func(A) B
	out  *stage.Emitter[B]
	vals []B
}

func (m *mapper[A, B]) Input() any                     { return m }
func (m *mapper[A, B]) Connect(_ string, to any) error { return m.out.Connect(to) }
func (m *mapper[A, B]) Open(c *stage.Context) error {
	m.out.CountInto(&c.Metrics.RecordsOut)
	return m.base.Open(c)
}
func (m *mapper[A, B]) Flush() error { return m.out.Flush() }
func (m *mapper[A, B]) Receive(b *stage.Rows[A]) error {
	m.count(len(b.Vals))
	if cap(m.vals) < len(b.Vals) {
		m.vals = make([]B, len(b.Vals))
	}
	vals, f := m.vals[:len(b.Vals)], m.f
	m.runs = anyCode
	for i := range b.Vals {
		vals[i] = f(b.Vals[i])
	}
	m.runs = noCode
	return m.out.Pass(&stage.Rows[B]{Vals: vals, Times: b.Times})
}

// TryMap turns each record into another; an error fails the task.
func TryMap[A, B any](s Stream[A], f func(A) (B, error), opts ...Option) Stream[B] {
	return transform[A, B](s, "map", f == nil, opts, func() stage.Operator {
		return &tryMapper[A, B]{f: f, out: stage.NewEmitter[B]()}
	})
}

type tryMapper[A, B any] struct {
	base
	f   func(A) (B, error)
	out *stage.Emitter[B]
}

func (m *tryMapper[A, B]) Input() any                     { return m }
func (m *tryMapper[A, B]) Connect(_ string, to any) error { return m.out.Connect(to) }
func (m *tryMapper[A, B]) Open(c *stage.Context) error {
	m.out.CountInto(&c.Metrics.RecordsOut)
	return m.base.Open(c)
}
func (m *tryMapper[A, B]) Flush() error { return m.out.Flush() }
func (m *tryMapper[A, B]) Receive(b *stage.Rows[A]) error {
	m.count(len(b.Vals))
	m.runs = anyCode
	for i := range b.Vals {
		v, err := m.f(b.Vals[i])
		if err != nil {
			return m.fail(err)
		}
		m.out.Emit(v, b.Times[i])
	}
	m.runs = noCode
	return m.out.Err()
}

// FlatMap turns each record into any number of others, which keep its time.
func FlatMap[A, B any](s Stream[A], f func(v A, emit func(B)), opts ...Option) Stream[B] {
	return transform[A, B](s, "flatmap", f == nil, opts, func() stage.Operator {
		return &flatMapper[A, B]{f: f, out: stage.NewEmitter[B]()}
	})
}

type flatMapper[A, B any] struct {
	base
	f   func(A, func(B))
	out *stage.Emitter[B]
}

func (m *flatMapper[A, B]) Input() any                     { return m }
func (m *flatMapper[A, B]) Connect(_ string, to any) error { return m.out.Connect(to) }
func (m *flatMapper[A, B]) Open(c *stage.Context) error {
	m.out.CountInto(&c.Metrics.RecordsOut)
	return m.base.Open(c)
}
func (m *flatMapper[A, B]) Flush() error { return m.out.Flush() }
func (m *flatMapper[A, B]) Receive(b *stage.Rows[A]) error {
	m.count(len(b.Vals))
	var at int64
	emit := func(v B) { m.out.Emit(v, at) }
	m.runs = anyCode
	for i := range b.Vals {
		at = b.Times[i]
		m.f(b.Vals[i], emit)
	}
	m.runs = noCode
	return m.out.Err()
}

// Filter passes the records that the function accepts.
func Filter[T any](s Stream[T], keep func(T) bool, opts ...Option) Stream[T] {
	return transform[T, T](s, "filter", keep == nil, opts, func() stage.Operator {
		return &filter[T]{keep: keep, out: stage.NewEmitter[T]()}
	})
}

type filter[T any] struct {
	base
	keep  func(T) bool
	out   *stage.Emitter[T]
	vals  []T
	times []int64
}

func (m *filter[T]) Input() any                     { return m }
func (m *filter[T]) Connect(_ string, to any) error { return m.out.Connect(to) }
func (m *filter[T]) Open(c *stage.Context) error {
	m.out.CountInto(&c.Metrics.RecordsOut)
	return m.base.Open(c)
}
func (m *filter[T]) Flush() error { return m.out.Flush() }
func (m *filter[T]) Receive(b *stage.Rows[T]) error {
	m.count(len(b.Vals))
	if cap(m.vals) < len(b.Vals) {
		m.vals, m.times = make([]T, len(b.Vals)), make([]int64, len(b.Vals))
	}
	n, keep := 0, m.keep
	vals, times := m.vals[:len(b.Vals)], m.times[:len(b.Vals)]
	m.runs = anyCode
	for i := range b.Vals {
		if keep(b.Vals[i]) {
			vals[n], times[n] = b.Vals[i], b.Times[i]
			n++
		}
	}
	m.runs = noCode
	return m.out.Pass(&stage.Rows[T]{Vals: vals[:n], Times: times[:n]})
}
