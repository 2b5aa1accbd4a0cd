package splitreader

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/connector"
)

// Reader is a connector.Reader over a SplitReader. Sources embed it and
// override what they need.
type Reader[T any, S Split[S]] struct {
	ctx     connector.ReaderContext
	options options
	fetcher *fetcher[T, S]
	stop    context.CancelFunc
	done    chan error

	order  []string // of splits, by the time of adding
	splits map[string]*live[S]
	noMore bool

	current *Batch[T]
	parked  []*Batch[T] // of paused splits
}

type live[S any] struct {
	split  S
	paused bool
}

// New makes a reader, which owns the split reader from Start on.
func New[T any, S Split[S]](ctx connector.ReaderContext, r SplitReader[T, S], opts ...Option) *Reader[T, S] {
	o := options{capacity: 2, closeTimeout: 30 * time.Second}
	for _, opt := range opts {
		opt(&o)
	}
	return &Reader[T, S]{
		ctx:     ctx,
		options: o,
		fetcher: newFetcher(r, o.capacity, ctx.Wake),
		splits:  map[string]*live[S]{},
	}
}

// Start starts the fetcher.
func (r *Reader[T, S]) Start() error {
	ctx, cancel := context.WithCancel(r.ctx.Context())
	r.stop, r.done = cancel, make(chan error, 1)
	go func() { r.done <- r.fetcher.Run(ctx) }()
	return nil
}

// AddSplits adds splits to be read.
func (r *Reader[T, S]) AddSplits(splits []S) error {
	for _, s := range splits {
		id := s.SplitID()
		if r.splits[id] != nil {
			return fmt.Errorf("split %s was added twice", id)
		}
		r.splits[id] = &live[S]{split: s}
		r.order = append(r.order, id)
	}
	r.fetcher.change(func(c *changes[S]) { c.added = append(c.added, splits...) })
	return nil
}

// NoMoreSplits says that the input ends with the splits there are.
func (r *Reader[T, S]) NoMoreSplits() error {
	r.noMore = true
	return nil
}

// Poll emits the next batch, or what of it fits.
func (r *Reader[T, S]) Poll(out *connector.Output[T]) (connector.Status, error) {
	if err := r.fetcher.err(); err != nil {
		return connector.Nothing, err
	}
	for {
		b := r.next()
		if b == nil {
			if r.noMore && len(r.splits) == 0 {
				return connector.End, nil
			}
			return connector.Nothing, nil
		}
		emitted, err := r.emit(b, out)
		if err != nil {
			return connector.Nothing, err
		}
		if emitted {
			return connector.More, nil
		}
	}
}

// next returns the batch to emit from, nil if there is none now.
func (r *Reader[T, S]) next() *Batch[T] {
	if r.current != nil {
		return r.current
	}
	for i, b := range r.parked {
		if !r.paused(b.Split) {
			r.parked = slices.Delete(r.parked, i, i+1)
			r.current = b
			return b
		}
	}
	for r.mayTake() {
		select {
		case b := <-r.fetcher.queue:
			if r.paused(b.Split) {
				r.parked = append(r.parked, b)
				continue
			}
			r.current = b
			return b
		default:
			return nil
		}
	}
	return nil
}

// mayTake bounds what is parked for a SplitReader that cannot pause.
func (r *Reader[T, S]) mayTake() bool {
	_, pauses := r.fetcher.reader.(Pauser)
	return pauses || len(r.parked) < r.options.capacity
}

func (r *Reader[T, S]) paused(id string) bool {
	s := r.splits[id]
	return s != nil && s.paused
}

// emit emits from b and moves its split on.
func (r *Reader[T, S]) emit(b *Batch[T], out *connector.Output[T]) (emitted bool, err error) {
	s := r.splits[b.Split]
	if s == nil {
		return false, fmt.Errorf("records of split %q, which this reader does not have", b.Split)
	}
	from, to := b.emitted, b.cut(out.Room())
	switch {
	case to == from:
	case to-from == len(b.Vals) && len(out.Vals) == 0: // all of it: no need to copy
		out.SetSplit(b.Split)
		b.Vals, out.Vals = out.Vals, b.Vals
		b.Times, out.Times = out.Times, b.Times
	default:
		out.SetSplit(b.Split)
		out.Vals = append(out.Vals, b.Vals[from:to]...)
		out.Times = append(out.Times, b.Times[from:to]...)
	}
	if b.emitted = to; to < len(b.Vals) {
		s.split = s.split.At(b.Ends[to-1], b.Epoch)
		return true, nil
	}
	s.split = s.split.At(b.End, b.Epoch)
	if b.Finished {
		out.FinishSplit(b.Split)
		delete(r.splits, b.Split)
		r.order = slices.DeleteFunc(r.order, func(id string) bool { return id == b.Split })
	}
	r.current = nil
	r.fetcher.recycle(b)
	return to > from, nil
}

// Snapshot returns the splits that have not finished, with their positions,
// in the order they were added.
func (r *Reader[T, S]) Snapshot(int64) ([]S, error) {
	splits := make([]S, 0, len(r.order))
	for _, id := range r.order {
		splits = append(splits, r.splits[id].split)
	}
	return splits, nil
}

// PauseSplits stops and resumes the emission of splits; ids of finished ones
// are ignored.
func (r *Reader[T, S]) PauseSplits(pauseIDs, resumeIDs []string) error {
	for _, id := range pauseIDs {
		if s := r.splits[id]; s != nil {
			s.paused = true
		}
	}
	for _, id := range resumeIDs {
		if s := r.splits[id]; s != nil {
			s.paused = false
		}
	}
	if r.current != nil && r.paused(r.current.Split) {
		r.parked = slices.Insert(r.parked, 0, r.current)
		r.current = nil
	}
	p := pause{slices.Clone(pauseIDs), slices.Clone(resumeIDs)}
	r.fetcher.change(func(c *changes[S]) { c.pauses = append(c.pauses, p) })
	if len(resumeIDs) > 0 {
		r.ctx.Wake()
	}
	return nil
}

// HandleEvent ignores events.
func (r *Reader[T, S]) HandleEvent(any) error { return nil }

// CheckpointComplete does nothing.
func (r *Reader[T, S]) CheckpointComplete(int64) error { return nil }

// Close ends the fetcher, which closes the SplitReader. Without Start the
// SplitReader is closed directly.
func (r *Reader[T, S]) Close() error {
	if r.stop == nil {
		return guard(r.fetcher.reader.Close)
	}
	r.stop()
	timer := time.NewTimer(r.options.closeTimeout)
	defer timer.Stop()
	select {
	case err := <-r.done:
		r.done <- nil // closing again is fine
		return err
	case <-timer.C:
		return fmt.Errorf("a fetch did not return within %v of being cancelled", r.options.closeTimeout)
	}
}
