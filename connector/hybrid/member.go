package hybrid

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/connector"
)

// member is a source of a chain, whose types are erased.
type member[T any] interface {
	bounded() bool
	rewinds() bool
	reassigns() bool
	// position finds where the source begins.
	position(ctx context.Context, handed []byte) ([]byte, error)
	open(position []byte) (opened[T], error)
	// describe says where a split stands.
	describe(s Split) string
}

// opened is a source that begins at a position.
type opened[T any] interface {
	// enumerator makes the enumerator, of a stored state unless that is nil.
	enumerator(ctx *innerContext, state *State) (enumeration, error)
	ReassignSplits() bool
	reader(ctx connector.ReaderContext, member int) (reading[T], error)
}

// enumeration is the enumerator of a member.
type enumeration interface {
	Start() error
	AddReader(subtask int) error
	HandleSplitRequest(subtask int, host string) error
	HandleSourceEvent(subtask int, event any) error
	CheckpointComplete(checkpoint int64) error
	Close() error

	addSplitsBack(splits []Split, subtask int) error
	snapshot(checkpoint int64) (*State, error)
	handOver() ([]byte, error)
}

// reading is the reader of a member in one subtask.
type reading[T any] interface {
	Start() error
	Poll(out *connector.Output[T]) (connector.Status, error)
	NoMoreSplits() error
	HandleEvent(event any) error
	CheckpointComplete(checkpoint int64) error
	PauseSplits(pause, resume []string) error
	Close() error

	addSplits(splits []Split) error
	snapshot(checkpoint int64) ([]Split, error)
}

// typed is a source with its types.
type typed[T any, S connector.Split, E any] struct{ connector.Source[T, S, E] }

// fixed is a member that begins where it was told when the job was built.
type fixed[T any] struct{ source anySource[T] }

type anySource[T any] interface {
	opened[T]
	Bounded() bool
	CanRewind() bool
	describe(s Split) string
}

func of[T any, S connector.Split, E any](s connector.Source[T, S, E]) anySource[T] {
	return typed[T, S, E]{s}
}

func (f fixed[T]) bounded() bool                                  { return f.source.Bounded() }
func (f fixed[T]) rewinds() bool                                  { return f.source.CanRewind() }
func (f fixed[T]) reassigns() bool                                { return f.source.ReassignSplits() }
func (fixed[T]) position(context.Context, []byte) ([]byte, error) { return nil, nil }
func (f fixed[T]) open([]byte) (opened[T], error)                 { return f.source, nil }
func (f fixed[T]) describe(s Split) string                        { return f.source.describe(s) }

func (s typed[T, S, E]) describe(split Split) string { return position(s.SplitCodec(), split) }

func (s typed[T, S, E]) CanRewind() bool {
	r, ok := s.Source.(connector.Rewinder)
	return !ok || r.CanRewind()
}

func (s typed[T, S, E]) ReassignSplits() bool {
	r, ok := s.Source.(connector.SplitReassigner)
	return ok && r.ReassignSplits()
}

// switched is a member that is made at the switch.
type switched[T any, S connector.Split, E any] struct{ Switch[T, S, E] }

func (s switched[T, S, E]) bounded() bool { return !s.Endless }

// rewinds and reassigns: what the source says is not known before the switch.
// Splits go by the enumerator, which asks it then.
func (s switched[T, S, E]) rewinds() bool   { return true }
func (s switched[T, S, E]) reassigns() bool { return true }

// describe says no more than the format: the source is not known yet.
func (s switched[T, S, E]) describe(split Split) string { return "as a " + split.Format }

func (s switched[T, S, E]) position(ctx context.Context, handed []byte) ([]byte, error) {
	if s.Position == nil {
		return handed, nil
	}
	return s.Position(ctx, handed)
}

func (s switched[T, S, E]) open(position []byte) (opened[T], error) {
	if s.Switch.Source == nil {
		return nil, connector.Fatal(fmt.Errorf("its Switch has no Source function"))
	}
	src, err := s.Switch.Source(position)
	if err != nil {
		return nil, err
	}
	if src.Bounded() == s.Endless {
		return nil, connector.Fatal(fmt.Errorf("the source made at the switch is bounded: %t, and its Switch says Endless: %t", src.Bounded(), s.Endless))
	}
	return of(src), nil
}

func (s typed[T, S, E]) enumerator(ctx *innerContext, state *State) (enumeration, error) {
	var from *E
	if state != nil {
		if now := s.EnumeratorCodec().Format().ID; now != state.Format {
			return nil, connector.Fatal(fmt.Errorf("its enumerator's state is stored as %s, and the source has %s: the sources of a chain may not change their places", state.Format, now))
		}
		v, err := s.EnumeratorCodec().Decode(state.Data)
		if err != nil {
			return nil, err
		}
		from = &v
	}
	inner, err := s.NewEnumerator(typedContext[S]{ctx, s.SplitCodec()}, from)
	if err != nil {
		return nil, err
	}
	return typedEnumeration[T, S, E]{inner, s}, nil
}

type typedEnumeration[T any, S connector.Split, E any] struct {
	connector.Enumerator[S, E]
	source typed[T, S, E]
}

func (e typedEnumeration[T, S, E]) addSplitsBack(splits []Split, subtask int) error {
	own, err := decode(e.source.SplitCodec(), splits)
	if err != nil {
		return err
	}
	return e.AddSplitsBack(own, subtask)
}

func (e typedEnumeration[T, S, E]) snapshot(checkpoint int64) (*State, error) {
	v, err := e.Snapshot(checkpoint)
	if err != nil {
		return nil, err
	}
	c := e.source.EnumeratorCodec()
	data, err := c.Append(nil, v)
	return &State{c.Format().ID, data}, err
}

func (e typedEnumeration[T, S, E]) handOver() ([]byte, error) {
	if h, ok := e.Enumerator.(HandOverer); ok {
		return h.HandOver()
	}
	return nil, nil
}

func (s typed[T, S, E]) reader(ctx connector.ReaderContext, member int) (reading[T], error) {
	inner, err := s.NewReader(ctx)
	if err != nil {
		return nil, err
	}
	return typedReading[T, S, E]{inner, s, member}, nil
}

type typedReading[T any, S connector.Split, E any] struct {
	connector.Reader[T, S]
	source typed[T, S, E]
	member int
}

func (r typedReading[T, S, E]) addSplits(splits []Split) error {
	own, err := decode(r.source.SplitCodec(), splits)
	if err != nil {
		return err
	}
	return r.AddSplits(own)
}

func (r typedReading[T, S, E]) snapshot(checkpoint int64) ([]Split, error) {
	own, err := r.Snapshot(checkpoint)
	if err != nil {
		return nil, err
	}
	return encode(r.member, r.source.SplitCodec(), own)
}
