package file

import (
	"context"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/splitreader"
)

// reader asks for a split when it has none: one that waited unread would hold
// back event time.
type reader[T any] struct {
	*splitreader.Reader[T, Split]
	ctx    connector.ReaderContext
	stop   context.CancelFunc // interrupts what is read
	splits int
	asked  bool
	noMore bool
}

func newReader[T any](ctx connector.ReaderContext, c *sourceConfig, f Format[T]) *reader[T] {
	reading, stop := context.WithCancel(ctx.Context())
	fetcher := &fetcher[T]{
		ctx: reading, config: c, format: f, count: ctx.Count, log: ctx.Logger(),
		paused: map[string]bool{}, warning: splitreader.PanicWarning{Log: ctx.Logger()},
	}
	return &reader[T]{Reader: splitreader.New[T, Split](ctx, fetcher), ctx: ctx, stop: stop}
}

func (r *reader[T]) AddSplits(splits []Split) error {
	if len(splits) > 0 {
		r.splits, r.asked = r.splits+len(splits), false
	}
	return r.Reader.AddSplits(splits)
}

func (r *reader[T]) NoMoreSplits() error {
	r.noMore = true
	return r.Reader.NoMoreSplits()
}

func (r *reader[T]) Poll(out *connector.Output[T]) (connector.Status, error) {
	status, err := r.Reader.Poll(out)
	r.splits -= len(out.FinishedSplits())
	if r.splits == 0 && !r.asked && !r.noMore && err == nil {
		r.asked = true
		r.ctx.RequestSplit()
	}
	return status, err
}

func (r *reader[T]) Close() error {
	r.stop()
	return r.Reader.Close()
}
