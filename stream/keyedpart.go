package stream

import (
	"context"
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
	// chain is nil if the part is stored whole.
	chain *heap.Chain
}

// newKeyedPart freezes a store, and goes with frozen raw state.
func newKeyedPart[K comparable](s *heap.Store[K], raw ...state.RawPart) keyedPart {
	p := keyedPart{Frozen: s.Freeze(), states: slices.Clone(s.States()), key: s.KeyFormat(), raw: raw, chain: s.Chain()}
	for _, r := range raw {
		p.states = append(p.states, r.State)
	}
	return p
}

func (p keyedPart) States() []snapshot.State { return p.states }
func (p keyedPart) KeyFormat() codec.Format  { return p.key }

// Settle implements stage.KeyedPart.
func (p keyedPart) Settle(store bool) error { return p.Frozen.Settle(store && len(p.raw) == 0) }

// Store implements stage.StoringPart. What functions encode themselves has no
// form of the lsm backend.
func (p keyedPart) Store(ctx context.Context, b *stage.Barrier, up *snapshot.Upload, sub *snapshot.Subtask) (stored bool, err error) {
	switch {
	case p.HasFiles() && len(p.raw) == 0:
		sub.Native, err = p.StoreNative(ctx, up)
		return true, err
	case p.chain != nil && p.IsInMemory() && b.Kind != snapshot.Savepoint:
		return true, p.chain.Store(ctx, p, up, sub)
	}
	return false, nil
}

// Unchanged implements heap.ChainPart. Nobody knows what functions have done to
// what they encode themselves.
func (p keyedPart) Unchanged(since uint32) bool { return len(p.raw) == 0 && p.Frozen.Unchanged(since) }

func (p keyedPart) EncodeGroup(group int, w stage.SectionWriter) error {
	if err := p.Frozen.EncodeGroup(group, w); err != nil {
		return err
	}
	return p.encodeRaw(group, w)
}

// EncodeChanges implements heap.ChainPart: what functions encode themselves is
// always written.
func (p keyedPart) EncodeChanges(since uint32, group int, w stage.SectionWriter) error {
	if err := p.Frozen.EncodeChanges(since, group, w); err != nil {
		return err
	}
	return p.encodeRaw(group, w)
}

func (p keyedPart) encodeRaw(group int, w stage.SectionWriter) error {
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
