package splitreader

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/weirstream/weir/connector"
)

// fetcher runs one SplitReader. Reader talks to it by change, queue and free.
type fetcher[T any, S connector.Split] struct {
	reader SplitReader[T, S]
	wake   func()
	queue  chan *Batch[T]
	free   chan *Batch[T]

	mu        sync.Mutex
	pending   changes[S]
	interrupt context.CancelFunc // of the fetch under way
	failure   error

	changed chan struct{}
}

// changes is what the fetcher is to be told between two fetches.
type changes[S connector.Split] struct {
	added  []S
	pauses []pause // in order
}

type pause struct{ pause, resume []string }

func (c *changes[S]) empty() bool { return len(c.added) == 0 && len(c.pauses) == 0 }

func newFetcher[T any, S connector.Split](r SplitReader[T, S], capacity int, wake func()) *fetcher[T, S] {
	return &fetcher[T, S]{
		reader:  r,
		wake:    wake,
		queue:   make(chan *Batch[T], capacity),
		free:    make(chan *Batch[T], capacity+2),
		changed: make(chan struct{}, 1),
	}
}

// change passes changes on. It may be called from any goroutine.
func (f *fetcher[T, S]) change(apply func(*changes[S])) {
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

// err returns why the fetcher ended, nil if it runs.
func (f *fetcher[T, S]) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure
}

// Run fetches until ctx ends or a fetch fails, then closes the SplitReader.
// Its error is that of closing: a failed fetch is reported by err.
func (f *fetcher[T, S]) Run(ctx context.Context) error {
	if err := f.fetchAll(ctx); err != nil && ctx.Err() == nil {
		f.mu.Lock()
		f.failure = err
		f.mu.Unlock()
		f.wake()
	}
	return guard(f.reader.Close)
}

func (f *fetcher[T, S]) fetchAll(ctx context.Context) error {
	live := 0
	for ctx.Err() == nil {
		added, err := f.apply()
		if err != nil {
			return err
		}
		if live += added; live == 0 {
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
			live--
		}
		f.handOver(ctx, b)
	}
	return nil
}

// apply tells the SplitReader what changed and returns the number of splits
// added.
func (f *fetcher[T, S]) apply() (added int, err error) {
	f.mu.Lock()
	c := f.pending
	f.pending = changes[S]{}
	f.mu.Unlock()
	err = guard(func() error {
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
	return len(c.added), err
}

// fetch fetches once; an interrupted fetch is no error.
func (f *fetcher[T, S]) fetch(ctx context.Context, b *Batch[T]) error {
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

func (f *fetcher[T, S]) batch() *Batch[T] {
	select {
	case b := <-f.free:
		return b
	default:
		return &Batch[T]{}
	}
}

func (f *fetcher[T, S]) handOver(ctx context.Context, b *Batch[T]) {
	if b.Split == "" {
		f.recycle(b)
		return
	}
	select {
	case f.queue <- b:
		f.wake()
	case <-ctx.Done():
	}
}

// recycle takes a batch back. It may be called from any goroutine.
func (f *fetcher[T, S]) recycle(b *Batch[T]) {
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
