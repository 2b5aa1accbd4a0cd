package splitreader

import (
	"fmt"

	"github.com/weirstream/weir/connector"
)

// Hooks say how a StatefulReader makes records of what was fetched, and what it
// remembers of a split besides: E is what SplitReaders fetch, T the type of the
// records, State what is remembered, which changes in place.
type Hooks[E, T any, S connector.Split, State any] struct {
	// Initial makes the state of a split that is added.
	Initial func(split S) State
	// Emit makes records of elements of one split, in order, and moves the
	// state behind them: a snapshot may be taken after it. It is given no more
	// elements than out has room for records, and may emit none, or more, for
	// each. times are the elements' source timestamps.
	Emit func(elements []E, times []int64, state *State, out *connector.Output[T]) error
	// Split makes of the state the split that a snapshot stores.
	Split func(id string, state *State) S
}

// StatefulReader is a connector.Reader over SplitReaders whose splits have more
// than a position: an open window of a change log, a schema, a count. Of each
// Batch it ignores End, Ends and Epoch.
type StatefulReader[E, T any, S connector.Split, State any] struct {
	*core[E, T, S, State]
}

// NewStateful is NewWith for splits with a state of their own.
func NewStateful[E, T any, S connector.Split, State any](ctx connector.ReaderContext, open func() (SplitReader[E, S], error), m Model[S], h Hooks[E, T, S, State], opts ...Option) (*StatefulReader[E, T, S, State], error) {
	if h.Initial == nil || h.Emit == nil || h.Split == nil {
		return nil, fmt.Errorf("splitreader: NewStateful needs the hooks Initial, Emit and Split")
	}
	return &StatefulReader[E, T, S, State]{newCore[E, T, S, State](ctx, open, m, stateful[E, T, S, State](h), opts)}, nil
}

type stateful[E, T any, S connector.Split, State any] Hooks[E, T, S, State]

func (h stateful[E, T, S, State]) initial(s S) State            { return h.Initial(s) }
func (h stateful[E, T, S, State]) split(id string, st *State) S { return h.Split(id, st) }

func (h stateful[E, T, S, State]) emit(b *Batch[E], st *State, out *connector.Output[T]) (done bool, err error) {
	from := b.emitted
	to := min(len(b.Vals), from+max(1, out.Room()))
	if from < to {
		out.SetSplit(b.Split)
		if err := h.Emit(b.Vals[from:to], b.Times[from:to], st, out); err != nil {
			return false, fmt.Errorf("split %s: %w", b.Split, err)
		}
	}
	b.emitted = to
	return to == len(b.Vals), nil
}
