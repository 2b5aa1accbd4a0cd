package splitreader

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/connector"
)

// core is a connector.Reader over fetchers: E is what they bring, T what it
// emits, St what it knows of each split.
type core[E, T any, S connector.Split, St any] struct {
	ctx      connector.ReaderContext
	options  options
	fetchers fetchers[E, S]
	hooks    emission[E, T, S, St]

	order  []string // of splits, by the time of adding
	splits map[string]*live[E, S, St]
	noMore bool

	current handed[E, S]   // its Batch is nil if there is none
	parked  []handed[E, S] // of paused splits
}

// emission is what readers differ in.
type emission[E, T any, S connector.Split, St any] interface {
	initial(s S) St
	split(id string, st *St) S
	// emit emits from b, behind b.emitted, what fits, moves the state on, and
	// says whether that was all.
	emit(b *Batch[E], st *St, out *connector.Output[T]) (done bool, err error)
}

type live[E any, S connector.Split, St any] struct {
	state  St
	paused bool
	from   *fetcher[E, S]
}

func newCore[E, T any, S connector.Split, St any](ctx connector.ReaderContext, open func() (SplitReader[E, S], error), m Model[S], hooks emission[E, T, S, St], opts []Option) *core[E, T, S, St] {
	o := options{capacity: 2, closeTimeout: 30 * time.Second}
	for _, opt := range opts {
		opt(&o)
	}
	return &core[E, T, S, St]{
		ctx: ctx, options: o, hooks: hooks,
		fetchers: fetchers[E, S]{
			model: m, open: open, queue: make(chan handed[E, S], o.capacity), wake: ctx.Wake, log: ctx.Logger, running: map[string]*fetcher[E, S]{},
		},
		splits: map[string]*live[E, S, St]{},
	}
}

// Start makes the reader ready for splits.
func (r *core[E, T, S, St]) Start() error {
	r.fetchers.start(r.ctx.Context())
	return nil
}

// AddSplits adds splits to be read.
func (r *core[E, T, S, St]) AddSplits(splits []S) error {
	for _, s := range splits {
		id := s.SplitID()
		if r.splits[id] != nil {
			return fmt.Errorf("split %s was added twice", id)
		}
		r.splits[id] = &live[E, S, St]{state: r.hooks.initial(s)}
		r.order = append(r.order, id)
	}
	for i, f := range r.fetchers.add(splits) {
		r.splits[splits[i].SplitID()].from = f
	}
	return nil
}

// NoMoreSplits says that the input ends with the splits there are.
func (r *core[E, T, S, St]) NoMoreSplits() error {
	r.noMore = true
	return nil
}

// Poll emits the next batch, or what of it fits.
func (r *core[E, T, S, St]) Poll(out *connector.Output[T]) (connector.Status, error) {
	if err := r.fetchers.err(); err != nil {
		return connector.Nothing, err
	}
	for {
		if !r.next() {
			if r.noMore && len(r.splits) == 0 {
				return connector.End, nil
			}
			return connector.Nothing, nil
		}
		had := len(r.current.Vals)
		if err := r.emit(out); err != nil {
			return connector.Nothing, err
		}
		if had > 0 {
			return connector.More, nil
		}
	}
}

// emit emits from the current batch, and takes leave of it when that was all.
func (r *core[E, T, S, St]) emit(out *connector.Output[T]) error {
	b := r.current
	s := r.splits[b.Split]
	if s == nil {
		return fmt.Errorf("records of split %q, which this reader does not have", b.Split)
	}
	if done, err := r.hooks.emit(b.Batch, &s.state, out); err != nil || !done {
		return err
	}
	if b.Finished {
		r.finish(b.Split, out)
	}
	r.current = handed[E, S]{}
	b.from.recycle(b.Batch)
	return nil
}

func (r *core[E, T, S, St]) finish(id string, out *connector.Output[T]) {
	out.FinishSplit(id)
	r.fetchers.finished(r.splits[id].from)
	delete(r.splits, id)
	r.order = slices.DeleteFunc(r.order, func(other string) bool { return other == id })
	if r.options.onFinished != nil {
		r.options.onFinished(id)
	}
}

// next sees to it that there is a current batch, and returns false if there is
// none now.
func (r *core[E, T, S, St]) next() bool {
	if r.current.Batch != nil {
		return true
	}
	for i, b := range r.parked {
		if !r.paused(b.Split) {
			r.parked = slices.Delete(r.parked, i, i+1)
			r.park(b.from, -1)
			r.current = b
			return true
		}
	}
	for {
		select {
		case b := <-r.fetchers.queue:
			if r.paused(b.Split) {
				r.parked = append(r.parked, b)
				r.park(b.from, +1)
				continue
			}
			r.current = b
			return true
		default:
			return false
		}
	}
}

// park counts parked batches, and stops a fetcher that cannot pause splits while
// it has too many.
func (r *core[E, T, S, St]) park(f *fetcher[E, S], n int) {
	held := f.parked >= r.options.capacity
	f.parked += n
	if hold := f.parked >= r.options.capacity; hold != held {
		f.change(func(c *changes[S]) { c.hold = &hold })
	}
}

func (r *core[E, T, S, St]) paused(id string) bool {
	s := r.splits[id]
	return s != nil && s.paused
}

// Snapshot returns the splits that have not finished, with their positions,
// in the order they were added.
func (r *core[E, T, S, St]) Snapshot(int64) ([]S, error) {
	splits := make([]S, 0, len(r.order))
	for _, id := range r.order {
		splits = append(splits, r.hooks.split(id, &r.splits[id].state))
	}
	return splits, nil
}

// PauseSplits stops and resumes the emission of splits; ids of finished ones
// are ignored.
func (r *core[E, T, S, St]) PauseSplits(pauseIDs, resumeIDs []string) error {
	told := map[*fetcher[E, S]]*pause{}
	of := func(f *fetcher[E, S]) *pause {
		if told[f] == nil {
			told[f] = &pause{}
		}
		return told[f]
	}
	for _, id := range pauseIDs {
		if s := r.splits[id]; s != nil {
			s.paused = true
			p := of(s.from)
			p.pause = append(p.pause, id)
		}
	}
	for _, id := range resumeIDs {
		if s := r.splits[id]; s != nil {
			s.paused = false
			p := of(s.from)
			p.resume = append(p.resume, id)
		}
	}
	if b := r.current; b.Batch != nil && r.paused(b.Split) {
		r.parked = slices.Insert(r.parked, 0, b)
		r.park(b.from, +1)
		r.current = handed[E, S]{}
	}
	for f, p := range told {
		f.change(func(c *changes[S]) { c.pauses = append(c.pauses, *p) })
	}
	if len(resumeIDs) > 0 {
		r.ctx.Wake()
	}
	return nil
}

// HandleEvent ignores events.
func (r *core[E, T, S, St]) HandleEvent(any) error { return nil }

// CheckpointComplete does nothing.
func (r *core[E, T, S, St]) CheckpointComplete(int64) error { return nil }

// Close ends the fetchers, which close their SplitReaders. A reader that was
// given its SplitReader closes it also if it was not started.
func (r *core[E, T, S, St]) Close() error { return r.fetchers.close(r.options.closeTimeout) }
