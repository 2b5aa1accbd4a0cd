package hybrid

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// innerContext is what the enumerator of a member sees of the engine, while it
// is the current one.
type innerContext struct {
	outer  connector.EnumeratorContext[Split]
	ctx    context.Context // ends with the member
	member int
	last   bool
	joined map[int]bool
	// isCurrent tells whether the member is still read.
	isCurrent func() bool
}

func (c *innerContext) Context() context.Context   { return c.ctx }
func (c *innerContext) Logger() *slog.Logger       { return c.outer.Logger() }
func (c *innerContext) Parallelism() int           { return c.outer.Parallelism() }
func (c *innerContext) Config() connector.Config   { return c.outer.Config() }
func (c *innerContext) Count(name string, n int64) { c.outer.Count(name, n) }

func (c *innerContext) Readers() []int {
	readers := make([]int, 0, len(c.joined))
	for subtask := range c.joined {
		readers = append(readers, subtask)
	}
	slices.Sort(readers)
	return readers
}

func (c *innerContext) NoMoreSplits(subtask int) error {
	if c.last {
		return c.outer.NoMoreSplits(subtask)
	}
	return c.outer.SendEvent(subtask, noMore{c.member})
}

func (c *innerContext) SendEvent(subtask int, event any) error {
	return c.outer.SendEvent(subtask, custom{c.member, event})
}

func (c *innerContext) SetGauge(name, split string, value int64) {
	if split != "" {
		split = full(c.member, split)
	}
	c.outer.SetGauge(name, split, value)
}

// CallAsync does nothing any more when the member is over.
func (c *innerContext) CallAsync(call func(context.Context) (any, error), handle func(any, error) error, delay, period time.Duration) {
	c.outer.CallAsync(func(context.Context) (any, error) {
		if c.ctx.Err() != nil {
			return nil, c.ctx.Err()
		}
		return call(c.ctx)
	}, func(result any, err error) error {
		if !c.isCurrent() {
			return nil
		}
		return handle(result, err)
	}, delay, period)
}

func (c *innerContext) RunInCoordinator(fn func() error) {
	c.outer.RunInCoordinator(func() error {
		if !c.isCurrent() {
			return nil
		}
		return fn()
	})
}

// typedContext encodes the splits that a member's enumerator assigns.
type typedContext[S connector.Split] struct {
	*innerContext
	codec codec.Codec[S]
}

func (c typedContext[S]) Assign(subtask int, splits ...S) error {
	all, err := encode(c.member, c.codec, splits)
	if err != nil {
		return err
	}
	return c.outer.Assign(subtask, all...)
}

// readerContext is what the reader of a member sees of the engine.
type readerContext struct {
	connector.ReaderContext
	member int
}

func (c readerContext) RequestSplit() {
	c.ReaderContext.SendEvent(request{c.member, c.Host()})
}

func (c readerContext) SendEvent(event any) {
	c.ReaderContext.SendEvent(custom{c.member, event})
}

func (c readerContext) SetGauge(name, split string, value int64) {
	if split != "" {
		split = full(c.member, split)
	}
	c.ReaderContext.SetGauge(name, split, value)
}
