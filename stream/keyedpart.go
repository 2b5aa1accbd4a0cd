package stream

import (
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
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
}

// newKeyedPart freezes a store.
func newKeyedPart[K comparable](s *heap.Store[K]) keyedPart {
	return keyedPart{Frozen: s.Freeze(), states: s.States(), key: s.KeyFormat()}
}

func (p keyedPart) States() []snapshot.State { return p.states }
func (p keyedPart) KeyFormat() codec.Format  { return p.key }

func (p keyedPart) EncodeGroup(group int, w stage.SectionWriter) error {
	return p.Frozen.EncodeGroup(group, w)
}
