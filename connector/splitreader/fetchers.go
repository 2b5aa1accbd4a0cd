package splitreader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weirstream/weir/connector"
)

// fetchers starts and ends the fetchers of a reader, as its model says. Its
// methods are called on the reader's goroutine.
type fetchers[E any, S connector.Split] struct {
	model Model[S]
	open  func() (SplitReader[E, S], error)
	// own is the SplitReader of a reader that has just one, from the start.
	own     SplitReader[E, S]
	queue   chan handed[E, S]
	wake    func()
	log     func() *slog.Logger
	running map[string]*fetcher[E, S]

	ctx  context.Context
	stop context.CancelFunc // nil before start
	live sync.WaitGroup
	gone chan struct{} // closed when all have ended after close

	mu      sync.Mutex
	failure error
	closing error // of closing SplitReaders at the end
}

func (m *fetchers[E, S]) start(ctx context.Context) {
	m.ctx, m.stop = context.WithCancel(ctx)
	if m.own != nil {
		m.run("")
	}
}

func (m *fetchers[E, S]) run(name string) *fetcher[E, S] {
	f := newFetcher(m.open, m.queue, m.wake, m.fail)
	f.name = name
	ctx, cancel := context.WithCancel(m.ctx)
	f.retire = cancel
	m.running[name] = f
	m.live.Go(func() {
		defer cancel()
		if err := f.Run(ctx); err != nil {
			m.closed(err)
		}
	})
	return f
}

func (m *fetchers[E, S]) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = cmp.Or(m.failure, err)
	m.wake()
}

// closed notes that closing a SplitReader failed. One whose splits have been
// read takes nothing with it.
func (m *fetchers[E, S]) closed(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() == nil {
		m.log().Warn("closing a split reader", "error", err)
		return
	}
	m.closing = errors.Join(m.closing, err)
}

// err returns why a fetcher ended, nil if none did that should not have.
func (m *fetchers[E, S]) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}

// add hands splits to their fetchers, which it returns.
func (m *fetchers[E, S]) add(splits []S) []*fetcher[E, S] {
	added := map[*fetcher[E, S]][]S{}
	of := make([]*fetcher[E, S], len(splits))
	for i, s := range splits {
		name := m.model.name(s)
		f := m.running[name]
		if f == nil {
			f = m.run(name)
		}
		f.splits++
		of[i], added[f] = f, append(added[f], s)
	}
	for f, splits := range added {
		f.change(func(c *changes[S]) { c.added = append(c.added, splits...) })
	}
	return of
}

// finished notes that a split of f is over, and ends f if it was the last one
// and the model does not keep it.
func (m *fetchers[E, S]) finished(f *fetcher[E, S]) {
	if f.splits--; f.splits == 0 && !m.model.keep {
		delete(m.running, f.name)
		f.retire()
	}
}

// close ends all fetchers and waits for them, not for ever. It may be called
// again.
func (m *fetchers[E, S]) close(timeout time.Duration) error {
	if m.stop == nil {
		if m.own == nil {
			return nil
		}
		return guard(m.own.Close)
	}
	if m.gone == nil {
		m.gone = make(chan struct{})
		m.stop()
		go func() {
			m.live.Wait()
			close(m.gone)
		}()
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-m.gone:
		m.mu.Lock()
		defer m.mu.Unlock()
		err := m.closing
		m.closing = nil // closing again is fine
		return err
	case <-timer.C:
		return fmt.Errorf("a fetch did not return within %v of being cancelled", timeout)
	}
}
