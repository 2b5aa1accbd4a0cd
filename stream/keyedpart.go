package stream

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/state"
)

type snapshotState = snapshot.State

// keyable tells whether K can be a key.
func keyable[K comparable]() error {
	_, err := keygroup.NewHasher[K]()
	return err
}

// keyedPart is the frozen state of a store as a part of a snapshot.
type keyedPart struct {
	*heap.Frozen
	states []snapshot.State
	key    codec.Format
	// raw is what functions encode themselves.
	raw []state.RawPart
}

// newKeyedPart freezes a store, and goes with frozen raw state.
func newKeyedPart[K comparable](s *heap.Store[K], raw ...state.RawPart) keyedPart {
	p := keyedPart{Frozen: s.Freeze(), states: slices.Clone(s.States()), key: s.KeyFormat(), raw: raw}
	for _, r := range raw {
		p.states = append(p.states, r.State)
	}
	return p
}

func (p keyedPart) States() []snapshot.State { return p.states }
func (p keyedPart) KeyFormat() codec.Format  { return p.key }

func (p keyedPart) EncodeGroup(group int, w stage.SectionWriter) error {
	if err := p.Frozen.EncodeGroup(group, w); err != nil {
		return err
	}
	for _, r := range p.raw {
		b := r.Group(group)
		if len(b) == 0 {
			continue
		}
		if err := w.Section(r.State, 1, b); err != nil {
			return fmt.Errorf("raw state %q: %w", r.State.Name, err)
		}
	}
	return nil
}
