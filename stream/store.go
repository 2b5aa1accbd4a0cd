package stream

import (
	"fmt"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/state"
)

// openStore makes the keyed state of an operator and fills it from the
// snapshot. raw is given what functions have encoded themselves; nil if they
// cannot.
func openStore[K comparable](c *stage.Context, cur *entry.Cursor, fields []*entry.Field, check func([]snapshotState) error, raw restoreRaw) (*heap.Store[K], error) {
	restores := c.Restore != nil && c.Restore.Keyed != nil && len(c.Restore.States) > 0
	if restores {
		if err := checkKeyed[K](c.Operator, &c.Restore.KeyFormat, c.Restore.States, check); err != nil {
			return nil, err
		}
	}
	s, err := newStore[K](c, heap.Options{
		Operator: c.Operator, Fields: fields, Cursor: cur, MaxParallelism: c.MaxParallelism,
		Range: groupsOf(c), Pool: c.Pool, Clock: c.Now, Incremental: c.Incremental,
	})
	if err != nil || !restores {
		return s, err
	}
	returned := false
	defer func() {
		if !returned { // a codec panics: nobody else knows of the store
			s.Close()
		}
	}()
	err = fillStore(s, c, raw)
	returned = true
	return s, err
}

// fillStore fills a store from the snapshot.
func fillStore[K comparable](s *heap.Store[K], c *stage.Context, raw restoreRaw) error {
	err := c.Restore.Keyed(groupsOf(c), func(group int, st snapshotState, count int, data []byte) error {
		if st.Kind == snapshot.RawKind && raw != nil {
			return raw(group, st, data)
		}
		return s.RestoreSection(group, st, count, data)
	})
	if err != nil {
		return err
	}
	if chain := s.Chain(); chain != nil && c.Restore.Chain != nil && c.Restore.KeyFormat == s.KeyFormat() {
		chain.GoOnFrom(c.Restore.Chain, c.Restore.States)
	}
	return s.Restored()
}

// restoreRaw takes over the raw state of a key group.
type restoreRaw func(group int, st snapshotState, data []byte) error

// groupsOf are the key groups of a subtask.
func groupsOf(c *stage.Context) keygroup.Range {
	return keygroup.RangeOf(c.Subtask, c.Parallelism, c.MaxParallelism)
}

// checkKeyed tells whether stored keyed states fit an operator.
func checkKeyed[K comparable](operator string, key *codec.Format, stored []snapshotState, check func([]snapshotState) error) error {
	if len(stored) == 0 {
		return nil
	}
	want, err := heap.KeyFormat[K]()
	if err != nil {
		return fmt.Errorf("operator %q: %w", operator, err)
	}
	if key == nil {
		key = &codec.Format{}
	}
	if !keygroup.SameKeys(*key, want) {
		return fmt.Errorf("operator %q: %w: it is stored by keys of type %s, the job has keys of type %s: a key type cannot change; use another operator id or start with --fresh",
			operator, state.ErrIncompatible, key.Describe(), want.Describe())
	}
	return check(stored)
}

// newStore makes a store with its tier, if it has one. Without a store the tier
// is closed, also if a codec panics: the end of the attempt waits for it.
func newStore[K comparable](c *stage.Context, o heap.Options) (s *heap.Store[K], err error) {
	if c.Tier == nil {
		return heap.New[K](o)
	}
	if err := c.Tier(&o); err != nil {
		return nil, fmt.Errorf("operator %q: %w", c.Operator, err)
	}
	defer func() {
		if s == nil {
			o.Tier.Close()
		}
	}()
	return heap.New[K](o)
}
