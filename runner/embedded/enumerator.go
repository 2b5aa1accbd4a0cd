package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/stage"
)

// enumerators runs one source's enumerator: all its callbacks on one
// goroutine, Run. Everything else posts functions to it.
type enumerator struct {
	id          string
	parallelism int
	log         *slog.Logger
	config      connector.Config
	metrics     *stage.Metrics
	readers     []*stage.Task // by subtask
	body        stage.SourceBody
	restored    []byte
	// back are the restored splits, by former subtask, that the enumerator is
	// to deal out anew.
	back [][][]byte

	ctx  context.Context // of the attempt; set by Run
	mu   sync.Mutex
	work []func() error
	wake chan struct{}

	// Owned by Run.
	inner      stage.Enumerator
	registered map[int]bool
	held       bool
	outbox     []func()
	// assigned is nil if no reader ever starts again alone.
	assigned *assignments
	calls    sync.WaitGroup
}

func newEnumerator(id string, body stage.SourceBody, w *wiring, restored []byte, log *slog.Logger) *enumerator {
	return &enumerator{
		id: id, body: body, readers: slices.Clone(w.sources[id]), parallelism: len(w.sources[id]), restored: restored,
		config: w.configs[id], metrics: w.enumeratorMetrics[id],
		log: log.With("operator", id), wake: make(chan struct{}, 1), registered: map[int]bool{},
	}
}

// post queues work for the enumerator's goroutine.
func (e *enumerator) post(f func() error) {
	e.mu.Lock()
	e.work = append(e.work, f)
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run makes the enumerator, starts it, gives it back what it is to deal out
// anew, registers the readers, and works until ctx ends or a callback fails.
// Snapshots come behind all of that.
func (e *enumerator) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	e.ctx = ctx
	defer func() {
		cancel()
		e.calls.Wait()
		if e.inner != nil {
			if cerr := guarded(e.inner.Close); cerr != nil && err == nil {
				err = e.wrap(cerr)
			}
		}
	}()
	if err := guarded(e.start); err != nil {
		return e.wrap(err)
	}
	for {
		for _, f := range e.take() {
			if err := guarded(f); err != nil {
				return e.wrap(err)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.wake:
		}
	}
}

func (e *enumerator) wrap(err error) error {
	return fmt.Errorf("source %q: %w", e.id, err)
}

func (e *enumerator) take() []func() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.work
	e.work = nil
	return w
}

func (e *enumerator) start() error {
	inner, err := e.body.NewEnumerator(e, e.restored)
	if err != nil {
		return err
	}
	e.inner = inner
	if err := inner.Start(); err != nil {
		return err
	}
	for subtask, splits := range e.back {
		if len(splits) == 0 {
			continue
		}
		if err := inner.AddSplitsBack(splits, subtask); err != nil {
			return err
		}
	}
	e.back = nil
	for i := range e.readers {
		e.registered[i] = true
		if err := inner.AddReader(i); err != nil {
			return err
		}
	}
	return nil
}

// message hands a reader's message on.
func (e *enumerator) message(m stage.ReaderMessage) {
	e.post(func() error { return e.inner.Message(m) })
}

// snapshot passes the state to fn and holds back what the enumerator sends
// until release: an assignment is then either in this state or, behind the
// barrier, in none of the snapshot.
func (e *enumerator) snapshot(id int64, fn func(state []byte, err error)) {
	e.post(func() error {
		s, err := e.inner.Snapshot(id)
		e.held = true
		if e.assigned != nil {
			e.assigned.snapshot(id)
		}
		fn(s, err)
		return nil
	})
}

// release sends what snapshot held back, and then calls done.
func (e *enumerator) release(done func()) {
	e.post(func() error {
		e.held = false
		for _, f := range e.outbox {
			f()
		}
		e.outbox = nil
		done()
		return nil
	})
}

func (e *enumerator) complete(id int64) {
	e.post(func() error {
		if e.assigned != nil {
			e.assigned.complete(id)
		}
		return e.inner.CheckpointComplete(id)
	})
}

// newReader is a reader that has taken the place of a failed one.
type newReader struct {
	subtask int
	task    *stage.Task
	// held are its splits in the checkpoint that the enumerator is to deal out
	// anew.
	held [][]byte
}

// restart puts readers in the place of failed ones. What those were assigned
// and the checkpoint that the new ones start from does not hold comes back: all
// of it, before the first of them is there.
func (e *enumerator) restart(readers []newReader, checkpoint int64) {
	e.post(func() error {
		for _, r := range readers {
			delete(e.registered, r.subtask)
			e.readers[r.subtask] = r.task
		}
		for _, r := range readers {
			back := e.assigned.takeBack(r.subtask, checkpoint, r.held)
			if len(back) == 0 {
				continue
			}
			if err := e.inner.AddSplitsBack(back, r.subtask); err != nil {
				return err
			}
		}
		for _, r := range readers {
			e.registered[r.subtask] = true
			if err := e.inner.AddReader(r.subtask); err != nil {
				return err
			}
		}
		return nil
	})
}

// The stage.EnumeratorContext.

func (e *enumerator) Context() context.Context { return e.ctx }
func (e *enumerator) Logger() *slog.Logger     { return e.log }
func (e *enumerator) Parallelism() int         { return e.parallelism }

func (e *enumerator) Readers() []int {
	rs := make([]int, 0, len(e.registered))
	for r := range e.registered {
		rs = append(rs, r)
	}
	sort.Ints(rs)
	return rs
}

func (e *enumerator) Send(subtask int, ev stage.SourceEvent) error {
	if !e.registered[subtask] {
		return fmt.Errorf("reader %d is not registered", subtask)
	}
	if e.assigned != nil {
		e.assigned.add(subtask, ev.Splits)
	}
	send := func() { e.readers[subtask].PostEvent(ev) }
	if e.held {
		e.outbox = append(e.outbox, send)
		return nil
	}
	send()
	return nil
}

func (e *enumerator) CallAsync(call func(context.Context) (any, error), handle func(any, error) error, delay, period time.Duration) {
	e.calls.Go(func() {
		for d := delay; ; d = period {
			if !pause(e.ctx, d) {
				return
			}
			var v any
			var err error
			panicked := guarded(func() error {
				v, err = call(e.ctx)
				return nil
			})
			if e.ctx.Err() != nil {
				return
			}
			if panicked != nil {
				e.post(func() error { return panicked })
				return
			}
			handled := make(chan struct{})
			e.post(func() error {
				defer close(handled)
				return handle(v, err)
			})
			if period <= 0 {
				return
			}
			select {
			case <-handled:
			case <-e.ctx.Done():
				return
			}
		}
	})
}

func (e *enumerator) RunInCoordinator(fn func() error) { e.post(fn) }

func (e *enumerator) Config() connector.Config   { return e.config }
func (e *enumerator) Count(name string, n int64) { e.metrics.Counter(name).Add(n) }
func (e *enumerator) SetGauge(name, split string, value int64) {
	e.metrics.SetGauge(stage.GaugeID{Name: name, Split: split}, value)
}

// pause waits for d and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
