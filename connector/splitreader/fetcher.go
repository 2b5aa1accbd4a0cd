package splitreader

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/weirstream/weir/connector"
)

// fetcher runs one SplitReader on a goroutine of its own. The reader talks to it
// by change and recycle, and gets its batches from the queue of all fetchers.
type fetcher[E any, S connector.Split] struct {
	open  func() (SplitReader[E, S], error)
	queue chan<- handed[E, S]
	wake  func()
	fail  func(error)
	free  chan *Batch[E]

	mu        sync.Mutex
	pending   changes[S]
	interrupt context.CancelFunc // of the fetch under way

	changed chan struct{}

	// Owned by Run.
	reader SplitReader[E, S]
	paused map[string]bool // of each split that has not finished
	active int             // how many are not paused
	held   bool

	// Owned by the reader.
	name   string
	splits int // that have not been emitted to their end
	parked int // batches of paused splits
	retire context.CancelFunc
}

// handed is a batch on its way from a fetcher to the reader.
type handed[E any, S connector.Split] struct {
	*Batch[E]
	from *fetcher[E, S]
}

// changes is what the fetcher is to be told between two fetches.
type changes[S connector.Split] struct {
	added  []S
	pauses []pause // in order
	hold   *bool
}

type pause struct{ pause, resume []string }

func (c *changes[S]) empty() bool { return len(c.added) == 0 && len(c.pauses) == 0 && c.hold == nil }

func newFetcher[E any, S connector.Split](open func() (SplitReader[E, S], error), queue chan<- handed[E, S], wake func(), fail func(error)) *fetcher[E, S] {
	return &fetcher[E, S]{
		open:    open,
		queue:   queue,
		wake:    wake,
		fail:    fail,
		free:    make(chan *Batch[E], cap(queue)+2),
		changed: make(chan struct{}, 1),
		paused:  map[string]bool{},
	}
}

// change passes changes on. It may be called from any goroutine.
func (f *fetcher[E, S]) change(apply func(*changes[S])) {
	f.mu.Lock()
	defer f.mu.Unlock()
	apply(&f.pending)
	if f.interrupt != nil {
		f.interrupt()
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Run opens the SplitReader, fetches until ctx ends or a fetch fails, then
// closes it. Its error is that of closing.
func (f *fetcher[E, S]) Run(ctx context.Context) error {
	err := guard(func() (err error) {
		f.reader, err = f.open()
		return err
	})
	if err != nil {
		f.fail(err)
		return nil
	}
	if err := f.fetchAll(ctx); err != nil && ctx.Err() == nil {
		f.fail(err)
	}
	return guard(f.reader.Close)
}

func (f *fetcher[E, S]) fetchAll(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := f.apply(); err != nil {
			return err
		}
		if f.rests() {
			select {
			case <-f.changed:
			case <-ctx.Done():
			}
			continue
		}
		b := f.batch()
		if err := f.fetch(ctx, b); err != nil {
			return err
		}
		if b.Finished {
			f.note([]string{b.Split}, true)
			delete(f.paused, b.Split)
		}
		f.handOver(ctx, b)
	}
	return nil
}

// rests says that there is nothing to fetch for the time being.
func (f *fetcher[E, S]) rests() bool {
	if f.held {
		if _, pauses := f.reader.(Pauser); !pauses {
			return true
		}
	}
	return f.active == 0
}

// apply tells the SplitReader what changed.
func (f *fetcher[E, S]) apply() error {
	f.mu.Lock()
	c := f.pending
	f.pending = changes[S]{}
	f.mu.Unlock()
	for _, s := range c.added {
		f.paused[s.SplitID()] = false
		f.active++
	}
	for _, p := range c.pauses {
		f.note(p.pause, true)
		f.note(p.resume, false)
	}
	if c.hold != nil {
		f.held = *c.hold
	}
	return guard(func() error {
		if len(c.added) > 0 {
			if err := f.reader.HandleSplits(c.added); err != nil {
				return err
			}
		}
		if p, ok := f.reader.(Pauser); ok {
			for _, c := range c.pauses {
				p.PauseSplits(c.pause, c.resume)
			}
		}
		return nil
	})
}

func (f *fetcher[E, S]) note(ids []string, paused bool) {
	for _, id := range ids {
		was, ok := f.paused[id]
		if !ok || was == paused {
			continue
		}
		f.paused[id] = paused
		if paused {
			f.active--
		} else {
			f.active++
		}
	}
}

// fetch fetches once; an interrupted fetch is no error.
func (f *fetcher[E, S]) fetch(ctx context.Context, b *Batch[E]) error {
	fetching, cancel := context.WithCancel(ctx)
	defer cancel()
	f.mu.Lock()
	f.interrupt = cancel
	if !f.pending.empty() {
		cancel()
	}
	f.mu.Unlock()

	err := guard(func() error { return f.reader.Fetch(fetching, b) })

	f.mu.Lock()
	f.interrupt = nil
	f.mu.Unlock()
	if err != nil && fetching.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (f *fetcher[E, S]) batch() *Batch[E] {
	select {
	case b := <-f.free:
		return b
	default:
		return &Batch[E]{}
	}
}

func (f *fetcher[E, S]) handOver(ctx context.Context, b *Batch[E]) {
	if b.Split == "" {
		f.recycle(b)
		return
	}
	select {
	case f.queue <- handed[E, S]{b, f}:
		f.wake()
	case <-ctx.Done():
	}
}

// recycle takes a batch back. It may be called from any goroutine.
func (f *fetcher[E, S]) recycle(b *Batch[E]) {
	b.reset()
	select {
	case f.free <- b:
	default:
	}
}

// guard turns a panic of the author's code into an error.
func guard(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("split reader panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return fn()
}
