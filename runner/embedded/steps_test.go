package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/storage"
)

// steps are what a process does to the world: the operations of its storage
// and of its sink. At the last of them it stands still, before or after the
// effect: for good, as a process that is killed, or until it is let go on, as
// one that is paused.
type steps struct {
	mu    sync.Mutex
	left  int
	after bool
	names []string
	at    string
	// begun counts the effects that are under way.
	begun   int
	settled bool
	// stands is closed when it has come to stand; goOn lets it go on, and is
	// nil for one that is killed.
	stands, goOn chan struct{}
	// contested tells that others run the job as well, so that any request may
	// fail.
	contested bool
}

func unlimited() *steps { return &steps{left: math.MaxInt, stands: make(chan struct{})} }

func killedAt(n int, after bool) *steps {
	return &steps{left: n, after: after, stands: make(chan struct{})}
}

func pausedAt(n int, after bool) *steps {
	s := killedAt(n, after)
	s.goOn = make(chan struct{})
	return s
}

// do is one step.
func (s *steps) do(name string, effect func() error) error {
	s.mu.Lock()
	s.left--
	s.names = append(s.names, name)
	last := s.left == 0
	if last {
		s.at = name
	}
	stood := s.at != "" && !(last && s.after)
	if !stood {
		s.begun++
	}
	s.settle()
	s.mu.Unlock()
	if stood {
		return s.stand(effect)
	}
	err := s.finish(effect)
	if !last {
		return err
	}
	return s.stand(func() error { return err })
}

// between is what happens between steps: nothing while the process stands, for
// all of it stands.
func (s *steps) between(effect func() error) error {
	s.mu.Lock()
	stood := s.at != ""
	if !stood {
		s.begun++
	}
	s.mu.Unlock()
	if stood {
		return s.stand(effect)
	}
	return s.finish(effect)
}

// finish carries out an effect that was begun before the process stood.
func (s *steps) finish(effect func() error) error {
	err := effect()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun--
	s.settle()
	return err
}

// settle tells that the process stands, once nothing of it moves any more.
func (s *steps) settle() {
	if s.at != "" && s.begun == 0 && !s.settled {
		s.settled = true
		close(s.stands)
	}
}

// stand is what a process does from the step on at which it stands.
func (s *steps) stand(effect func() error) error {
	if s.goOn == nil {
		return errDead
	}
	<-s.goOn
	return effect()
}

// troubled tells whether what the process is asked for may fail.
func (s *steps) troubled() bool { return s.contested || s.stood() }

// stood tells whether the process has come to the step.
func (s *steps) stood() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at != ""
}

// steppedBlobs is the storage of a process.
type steppedBlobs struct {
	storage.Blobs
	steps *steps
}

func (b steppedBlobs) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	return b.steps.do("put "+name, func() error { return b.Blobs.Put(ctx, name, write) })
}

func (b steppedBlobs) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return b.steps.do("create "+name, func() error { return b.Blobs.PutIfAbsent(ctx, name, data) })
}

func (b steppedBlobs) Get(ctx context.Context, name string) (data []byte, err error) {
	err = b.steps.do("get "+name, func() error { data, err = b.Blobs.Get(ctx, name); return err })
	return data, err
}

func (b steppedBlobs) GetRange(ctx context.Context, name string, off, n int64) (data []byte, err error) {
	err = b.steps.do("get part of "+name, func() error { data, err = b.Blobs.GetRange(ctx, name, off, n); return err })
	return data, err
}

func (b steppedBlobs) List(ctx context.Context, prefix string, fn func(string, int64) error) error {
	return b.steps.do("list "+prefix, func() error { return b.Blobs.List(ctx, prefix, fn) })
}

func (b steppedBlobs) Delete(ctx context.Context, name string) error {
	return b.steps.do("delete "+name, func() error { return b.Blobs.Delete(ctx, name) })
}

// steppedSink is an exactly-once sink as a process sees it.
type steppedSink struct {
	*collect.Sink[string]
	steps *steps
}

func (s steppedSink) NewWriter(ctx connector.SinkContext) (connector.Writer[string, collect.Committable], error) {
	var w connector.Writer[string, collect.Committable]
	err := s.steps.do("open a writer", func() (err error) { w, err = s.Sink.NewWriter(ctx); return err })
	return steppedWriter{w, s.steps}, err
}

type steppedWriter struct {
	connector.Writer[string, collect.Committable]
	steps *steps
}

// Write may begin a transaction.
func (w steppedWriter) Write(vals []string, times []int64) error {
	return w.steps.between(func() error { return w.Writer.Write(vals, times) })
}

func (w steppedWriter) Flush(ctx context.Context) error {
	return w.steps.do("flush", func() error { return w.Writer.Flush(ctx) })
}

func (w steppedWriter) PreCommit(checkpoint int64) (cs []collect.Committable, err error) {
	err = w.steps.do("pre-commit", func() error { cs, err = w.Writer.PreCommit(checkpoint); return err })
	return cs, err
}

func (s steppedSink) NewCommitter(ctx connector.CommitterContext) (connector.Committer[collect.Committable], error) {
	c, err := s.Sink.NewCommitter(ctx)
	return steppedCommitter{c, s.steps}, err
}

type steppedCommitter struct {
	connector.Committer[collect.Committable]
	steps *steps
}

// Commit commits one transaction after the other.
func (c steppedCommitter) Commit(ctx context.Context, committables []collect.Committable) error {
	var failed []error
	for i := range committables {
		err := c.steps.do("commit "+committables[i].ID, func() error { return c.Committer.Commit(ctx, committables[i:i+1]) })
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (c steppedCommitter) Sweep(ctx context.Context, stillNewest func() error) error {
	if err := c.steps.do("list open transactions", func() error { return nil }); err != nil {
		return err
	}
	return c.Committer.Sweep(ctx, func() error {
		err := stillNewest()
		return errors.Join(err, c.steps.do("abort open transactions", func() error { return nil }))
	})
}

func (s *steps) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%q, after its effect %v", s.at, s.after)
}
