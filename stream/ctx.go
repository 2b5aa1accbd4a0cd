package stream

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/stage"
)

// Ctx is what a process function sees of the engine. It is valid during the
// call it is passed to.
type Ctx[K comparable, Out any] struct {
	op     *stage.Context
	out    outputs[Out]
	key    K
	time   int64
	wm     int64
	domain TimeDomain
	// each goes through the keys, nil where that cannot be.
	each func(func(K) error) error
}

// TimeDomain tells what a timer goes by.
type TimeDomain int

const (
	// EventTime is the time of the records, as watermarks tell it.
	EventTime TimeDomain = iota
	// ProcessingTime is the wall clock.
	ProcessingTime
)

// Key returns the current key.
func (c *Ctx[K, Out]) Key() K { return c.key }

// Emit emits a record with the time of the input record, or of the timer.
func (c *Ctx[K, Out]) Emit(v Out) { c.out.main.Emit(v, c.time) }

// EmitAt emits a record with a time of its own.
func (c *Ctx[K, Out]) EmitAt(v Out, at time.Time) { c.out.main.Emit(v, at.UnixMilli()) }

// Time returns the event time of the input record or the time of the timer;
// ok is false if the record has none.
func (c *Ctx[K, Out]) Time() (at time.Time, ok bool) {
	return time.UnixMilli(c.time).UTC(), c.time != connector.NoTimestamp
}

// Millis returns the same in milliseconds since the epoch, the smallest int64
// if the record has no time.
func (c *Ctx[K, Out]) Millis() int64 { return c.time }

// Watermark returns the event time the operator has come to in milliseconds,
// the smallest int64 before the first watermark.
func (c *Ctx[K, Out]) Watermark() int64 { return c.wm }

// ProcessingTime returns the wall clock.
func (c *Ctx[K, Out]) ProcessingTime() time.Time { return time.UnixMilli(c.op.Now()).UTC() }

// Domain tells the domain of the timer in OnTimer.
func (c *Ctx[K, Out]) Domain() TimeDomain { return c.domain }

// Context ends when the attempt ends.
func (c *Ctx[K, Out]) Context() context.Context { return c.op.Context }

// EmitTo emits a record to a side output. Without a consumer it is dropped.
func EmitTo[K comparable, Out, T any](c *Ctx[K, Out], tag Tag[T], v T) {
	s, ok := c.out.sides[tag.name]
	if !ok {
		return
	}
	e, ok := s.(*stage.Emitter[T])
	if !ok {
		panic(fmt.Sprintf("operator %q emits %T to tag %q, whose consumer expects another type", c.op.Operator, v, tag.name))
	}
	e.Emit(v, c.time)
}

// Runtime tells a function where it runs. It is passed to Initialize and Open.
type Runtime struct {
	op       *stage.Context
	restored bool
}

// Subtask tells which copy of the operator this is, from 0.
func (r *Runtime) Subtask() int { return r.op.Subtask }

// Parallelism is the number of copies.
func (r *Runtime) Parallelism() int { return r.op.Parallelism }

// Attempt is the number of the job's start, from 1.
func (r *Runtime) Attempt() int64 { return r.op.Attempt }

// Logger logs with the operator's id.
func (r *Runtime) Logger() *slog.Logger { return r.op.Logger }

// Context ends when the attempt ends.
func (r *Runtime) Context() context.Context { return r.op.Context }

// IsRestored tells whether state comes from a snapshot.
func (r *Runtime) IsRestored() bool { return r.restored }

// Counter returns a function that adds to a named counter of the operator.
func (r *Runtime) Counter(name string) func(n int64) {
	c := r.op.Metrics.Counter(name)
	return func(n int64) { c.Add(n) }
}
