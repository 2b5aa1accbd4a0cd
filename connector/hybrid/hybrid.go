// Package hybrid reads several sources one after the other as if they were one:
// a bounded history, as files, and then what goes on, as a topic. It is the
// model of Flink's FLIP-150.
//
// When all readers have come to the end of a source, the next one begins. Where
// it begins is fixed when the job is built (Then), or found at the switch
// (ThenAt) and kept in checkpoints from then on.
package hybrid

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// Source is a chain of sources. It implements connector.Source.
type Source[T any] struct{ members []member[T] }

// New begins a chain. The source must be bounded unless it stays the only one.
func New[T any, S connector.Split, E any](first connector.Source[T, S, E]) *Source[T] {
	return Then(&Source[T]{}, first)
}

// Then returns the chain with one more source. All but the last must be bounded.
func Then[T any, S connector.Split, E any](s *Source[T], next connector.Source[T, S, E]) *Source[T] {
	return s.with(fixed[T]{of(next)})
}

// Switch makes a source whose beginning is known only when the source before it
// has been read.
type Switch[T any, S connector.Split, E any] struct {
	// Position finds out where the source begins. It is called when all before it
	// has been read, on a goroutine of its own, and may block; the result is part
	// of the checkpoints from then on, and after a failure before the first of
	// those it is called again. handed is what the enumerator of the source
	// before hands over, nil if it is no HandOverer. Without the function handed
	// is the position.
	Position func(ctx context.Context, handed []byte) ([]byte, error)
	// Source makes the source that begins there, the same for the same position.
	// It is called for each attempt and reader, and must not block.
	Source func(position []byte) (connector.Source[T, S, E], error)
	// Endless says that the source has no end. It must be the last one then.
	Endless bool
}

// HandOverer is an enumerator that can say, when all it has assigned was read,
// where the source after it is to begin.
type HandOverer interface{ HandOver() ([]byte, error) }

// ThenAt is Then for a source that is made at the switch.
func ThenAt[T any, S connector.Split, E any](s *Source[T], sw Switch[T, S, E]) *Source[T] {
	return s.with(switched[T, S, E]{sw})
}

func (s *Source[T]) with(m member[T]) *Source[T] {
	return &Source[T]{append(s.members[:len(s.members):len(s.members)], m)}
}

// Bounded is that of the last source.
func (s *Source[T]) Bounded() bool { return s.members[s.last()].bounded() }

func (s *Source[T]) last() int { return len(s.members) - 1 }

// CanRewind implements connector.Rewinder: all sources must be able to.
func (s *Source[T]) CanRewind() bool {
	for _, m := range s.members {
		if !m.rewinds() {
			return false
		}
	}
	return true
}

// ReassignSplits implements connector.SplitReassigner: it does if one source
// does, or may, as one that is made at the switch. Splits of sources that do not
// want to deal them out anew go to the readers all the same.
func (s *Source[T]) ReassignSplits() bool {
	for _, m := range s.members {
		if m.reassigns() {
			return true
		}
	}
	return false
}

// SplitCodec encodes splits of all sources.
func (s *Source[T]) SplitCodec() codec.Codec[Split] {
	return describing[T]{named[Split]{codec.JSON[Split](), "weir.hybrid.split"}, s}
}

// EnumeratorCodec encodes the enumerator's state.
func (s *Source[T]) EnumeratorCodec() codec.Codec[Enumeration] {
	return named[Enumeration]{codec.JSON[Enumeration](), "weir.hybrid.enumeration"}
}

// check finds sources that would never let the next one begin.
func (s *Source[T]) check() error {
	var errs []error
	for i, m := range s.members[:s.last()] {
		if !m.bounded() {
			errs = append(errs, fmt.Errorf("source %d of %d never ends, so that the next one would never begin: give it an end, or put it last", i+1, len(s.members)))
		}
	}
	if len(errs) > 0 {
		return connector.Fatal(fmt.Errorf("hybrid source: %w", errors.Join(errs...)))
	}
	return nil
}

// NewEnumerator makes the enumerator.
func (s *Source[T]) NewEnumerator(ctx connector.EnumeratorContext[Split], restored *Enumeration) (connector.Enumerator[Split, Enumeration], error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	e := &enumerator[T]{
		source: s, ctx: ctx, state: Enumeration{Positions: make([][]byte, 1)},
		joined: map[int]bool{}, finished: map[int]bool{}, late: map[int][]Split{}, kept: map[string]bool{},
	}
	if restored == nil {
		return e, nil
	}
	if n := restored.Member; n < 0 || n > s.last() || len(restored.Positions) != n+1 {
		return nil, errFewer(n, len(s.members))
	}
	e.state = *restored
	for _, split := range restored.Late {
		to := e.inTurn()
		e.late[to] = append(e.late[to], split)
	}
	return e, nil
}

// NewReader makes the reader of one subtask.
func (s *Source[T]) NewReader(ctx connector.ReaderContext) (connector.Reader[T, Split], error) {
	return &reader[T]{source: s, ctx: ctx, member: -1, waiting: map[int][]Split{}, paused: map[string]bool{}}, nil
}

func errFewer(member, members int) error {
	return connector.Fatal(fmt.Errorf("hybrid source: the snapshot is at source %d, and there are %d: the sources of a chain may not be fewer, nor in another order", member+1, members))
}
