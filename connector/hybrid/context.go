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
	ctx    context.Context // ends with the member, by stop
	stop   context.CancelFunc
	member int
	last   bool
	joined map[int]bool

	calls   int // that are under way
	over    bool
	release func() error // closes the enumerator; nil when it was
}

// end ends the member: its enumerator is closed when no call of it is under way,
// or now.
func (c *innerContext) end(now bool) error {
	c.over = true
	c.stop()
	if c.release == nil || c.calls > 0 && !now {
		return nil
	}
	release := c.release
	c.release = nil
	return release()
}

func (c *innerContext) Context() context.Context   { return c.ctx }
func (c *innerContext) Logger() *slog.Logger       { return c.outer.Logger() }
func (c *innerContext) Parallelism() int           { return c.outer.Parallelism() }
func (c *innerContext) Config() connector.Config   { return c.outer.Config() }
func (c *innerContext) Count(name string, n int64) { c.outer.Count(name, n) }

func (c *innerContext) Readers() []int {
	return slices.DeleteFunc(slices.Clone(c.outer.Readers()), func(subtask int) bool { return !c.joined[subtask] })
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

// CallAsync does nothing any more when the member is over. It repeats calls
// itself, so that they end.
func (c *innerContext) CallAsync(call func(context.Context) (any, error), handle func(any, error) error, delay, period time.Duration) {
	if c.over {
		return
	}
	c.calls++
	c.outer.CallAsync(func(context.Context) (any, error) {
		if c.ctx.Err() != nil {
			return nil, c.ctx.Err()
		}
		return call(c.ctx)
	}, func(result any, err error) error {
		c.calls--
		if c.over {
			return c.end(false)
		}
		if err := handle(result, err); err != nil || period <= 0 {
			return err
		}
		c.CallAsync(call, handle, period, period)
		return nil
	}, delay, 0)
}

func (c *innerContext) RunInCoordinator(fn func() error) {
	c.outer.RunInCoordinator(func() error {
		if c.over {
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
