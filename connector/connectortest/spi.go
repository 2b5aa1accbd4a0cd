package connectortest

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirstream/weir/connector"
)

// enumeratorContext is the run as an enumerator sees it.
type enumeratorContext[T any, S connector.Split, E any] struct {
	run *SourceRun[T, S, E]
}

func (c enumeratorContext[T, S, E]) Context() context.Context { return c.run.ctx }
func (c enumeratorContext[T, S, E]) Logger() *slog.Logger     { return c.run.Context.Logger() }
func (c enumeratorContext[T, S, E]) Parallelism() int         { return len(c.run.readers) }

func (c enumeratorContext[T, S, E]) Readers() []int { return c.run.registered }

func (c enumeratorContext[T, S, E]) Assign(subtask int, splits ...S) error {
	if _, err := c.reader(subtask); err != nil {
		return err
	}
	encoded := make([]S, len(splits))
	for i, s := range splits { // as it would travel
		b, err := c.run.source.SplitCodec().Append(nil, s)
		if err != nil {
			return err
		}
		if encoded[i], err = c.run.source.SplitCodec().Decode(b); err != nil {
			return err
		}
	}
	for _, s := range encoded {
		c.run.assigned = append(c.run.assigned, assignment[S]{subtask, s})
	}
	return c.run.addSplits(subtask, encoded)
}

func (c enumeratorContext[T, S, E]) NoMoreSplits(subtask int) error {
	rd, err := c.reader(subtask)
	if err != nil {
		return err
	}
	rd.idle = false
	if c.run.observer != nil {
		c.run.observer.noMore(subtask)
	}
	return rd.reader.NoMoreSplits()
}

func (c enumeratorContext[T, S, E]) SendEvent(subtask int, event any) error {
	rd, err := c.reader(subtask)
	if err != nil {
		return err
	}
	rd.idle = false
	return rd.reader.HandleEvent(event)
}

// reader returns the reader of a subtask that is registered.
func (c enumeratorContext[T, S, E]) reader(subtask int) (*sourceReader[T, S], error) {
	for _, i := range c.run.registered {
		if i == subtask {
			return c.run.readers[i], nil
		}
	}
	return nil, fmt.Errorf("reader %d is not registered", subtask)
}

func (c enumeratorContext[T, S, E]) Config() connector.Config   { return c.run.Context.Config() }
func (c enumeratorContext[T, S, E]) Count(name string, n int64) { c.run.Context.Count(name, n) }
func (c enumeratorContext[T, S, E]) SetGauge(name, split string, value int64) {
	c.run.Context.SetGauge(name, split, value)
}

func (c enumeratorContext[T, S, E]) RunInCoordinator(fn func() error) { c.run.post(fn) }

func (c enumeratorContext[T, S, E]) CallAsync(call func(context.Context) (any, error), handle func(any, error) error, delay, period time.Duration) {
	c.run.calls.Go(func() {
		if !c.wait(delay) {
			return
		}
		for {
			result, err := call(c.run.ctx)
			handled := make(chan struct{})
			c.run.post(func() error { defer close(handled); return handle(result, err) })
			if period <= 0 {
				return
			}
			select {
			case <-handled:
			case <-c.run.ctx.Done():
				return
			}
			if !c.wait(period) {
				return
			}
		}
	})
}

// wait says whether d passed before the attempt ended.
func (c enumeratorContext[T, S, E]) wait(d time.Duration) bool {
	if d <= 0 {
		return c.run.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.run.ctx.Done():
		return false
	}
}

// readerContext is the run as the reader of one subtask sees it.
type readerContext[T any, S connector.Split, E any] struct {
	run     *SourceRun[T, S, E]
	own     *sourceReader[T, S]
	subtask int
	total   int
}

func (c readerContext[T, S, E]) Context() context.Context { return c.run.ctx }
func (c readerContext[T, S, E]) Logger() *slog.Logger     { return c.run.Context.Logger() }
func (c readerContext[T, S, E]) Subtask() int             { return c.subtask }
func (c readerContext[T, S, E]) Parallelism() int         { return c.total }

func (c readerContext[T, S, E]) Wake() {
	c.own.woken.Store(true)
	select {
	case c.run.wake <- struct{}{}:
	default:
	}
}

func (c readerContext[T, S, E]) RequestSplit() {
	c.tell(func() error { return c.run.enumerator.HandleSplitRequest(c.subtask, c.Host()) })
}

func (c readerContext[T, S, E]) SendEvent(event any) {
	c.tell(func() error { return c.run.enumerator.HandleSourceEvent(c.subtask, event) })
}

// tell has f run unless the reader has failed by then.
func (c readerContext[T, S, E]) tell(f func() error) {
	c.run.post(func() error {
		if c.run.readers[c.subtask] != c.own {
			return nil
		}
		return f()
	})
}

func (c readerContext[T, S, E]) Count(name string, n int64) { c.run.Context.Count(name, n) }
func (c readerContext[T, S, E]) SetGauge(name, split string, value int64) {
	c.run.Context.SetGauge(name, split, value)
}
func (c readerContext[T, S, E]) Config() connector.Config { return c.run.Context.Config() }
func (c readerContext[T, S, E]) Host() string             { return c.run.Context.host(c.subtask) }
