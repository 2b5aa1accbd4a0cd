// Package ratelimit limits how fast a source emits, whatever source it is.
package ratelimit

import (
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// Limiter divides what is allowed among the readers of a source: Rate and
// Checkpoints are. One that is given to several sources limits them together.
type Limiter interface {
	// Join is called for each reader, when it is made.
	Join(ctx connector.ReaderContext) (Share, error)
}

// Share is what one reader may emit. Its methods are called on the reader's
// goroutine and must not block.
type Share interface {
	// Allow returns how many of want records may be emitted now. If none may, it
	// has the reader woken when some may.
	Allow(want int) int
	// Used says how many were, which may be more than allowed where a source
	// keeps records together; more says whether the reader has further ones at
	// hand.
	Used(n int, more bool)
	// CheckpointComplete is told of each completed checkpoint.
	CheckpointComplete()
	// Close gives the share back.
	Close()
}

// Source is a source that emits no faster than its limiter allows.
type Source[T any, S connector.Split, E any] struct {
	source  connector.Source[T, S, E]
	limiter Limiter
}

// Limit limits a source. Splits, snapshots and metrics stay those of the source,
// so that a limit may be put on and taken off from one start of a job to the next.
func Limit[T any, S connector.Split, E any](src connector.Source[T, S, E], l Limiter) *Source[T, S, E] {
	return &Source[T, S, E]{src, l}
}

// Bounded is that of the source.
func (s *Source[T, S, E]) Bounded() bool { return s.source.Bounded() }

// SplitCodec is that of the source.
func (s *Source[T, S, E]) SplitCodec() codec.Codec[S] { return s.source.SplitCodec() }

// EnumeratorCodec is that of the source.
func (s *Source[T, S, E]) EnumeratorCodec() codec.Codec[E] { return s.source.EnumeratorCodec() }

// NewEnumerator makes the enumerator of the source.
func (s *Source[T, S, E]) NewEnumerator(ctx connector.EnumeratorContext[S], restored *E) (connector.Enumerator[S, E], error) {
	return s.source.NewEnumerator(ctx, restored)
}

// NewReader makes a reader that emits what it is allowed.
func (s *Source[T, S, E]) NewReader(ctx connector.ReaderContext) (connector.Reader[T, S], error) {
	share, err := s.limiter.Join(ctx)
	if err != nil {
		return nil, err
	}
	inner, err := s.source.NewReader(ctx)
	if err != nil {
		share.Close()
		return nil, err
	}
	return &reader[T, S]{inner, share}, nil
}

// CanRewind implements connector.Rewinder for the source.
func (s *Source[T, S, E]) CanRewind() bool {
	r, ok := s.source.(connector.Rewinder)
	return !ok || r.CanRewind()
}

// ReassignSplits implements connector.SplitReassigner for the source.
func (s *Source[T, S, E]) ReassignSplits() bool {
	r, ok := s.source.(connector.SplitReassigner)
	return ok && r.ReassignSplits()
}

type reader[T any, S connector.Split] struct {
	connector.Reader[T, S]
	share Share
}

func (r *reader[T, S]) Poll(out *connector.Output[T]) (connector.Status, error) {
	allowed := r.share.Allow(out.Room())
	if allowed == 0 {
		return connector.Held, nil
	}
	out.Limit(allowed)
	status, err := r.Reader.Poll(out)
	r.share.Used(len(out.Vals), status == connector.More)
	return status, err
}

func (r *reader[T, S]) CheckpointComplete(checkpoint int64) error {
	r.share.CheckpointComplete()
	return r.Reader.CheckpointComplete(checkpoint)
}

func (r *reader[T, S]) Close() error {
	r.share.Close()
	return r.Reader.Close()
}
