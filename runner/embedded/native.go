package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/backend/lsm"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

// Keyed state that lies in a snapshot as files of the lsm backend. If the states
// are declared as they were, a restore opens the files as they are. Else, and
// for the heap backend, they are read in the canonical form.

// tier returns the function that opens the tier of an operator's subtask, nil
// if all state is in memory.
func (a *attempt) tier(ctx context.Context, from *restored, operator string, subtask int, restore *stage.Restore) func(*heap.Options) error {
	if a.disk == nil {
		return nil
	}
	return func(o *heap.Options) error {
		name := fmt.Sprintf("%s-%d", operator, subtask)
		o.Share, o.Settle, o.Incremental = a.disk.Share(), a.opts.incremental(), a.opts.incremental()
		stored, err := from.storedFor(operator, o)
		if err != nil {
			return unreadable(err)
		}
		if len(stored) == 0 {
			o.Tier, err = a.disk.Tier(name)
			return err
		}
		t, err := a.disk.Reopen(ctx, name, o.Range, stored)
		if err != nil {
			return unreadable(err)
		}
		o.Tier, o.Filled, o.Stored = t, true, t.Stored()
		restore.Keyed = func(keygroup.Range, func(int, snapshot.State, int, []byte) error) error { return nil }
		return nil
	}
}

// storedFor are the databases that a store can open as they are: all that have
// key groups of it, or none.
func (r *restored) storedFor(operator string, o *heap.Options) ([]*lsm.Stored, error) {
	if r == nil || r.ops[operator] == nil {
		return nil, nil
	}
	op, layout := r.ops[operator], heap.Layout(o.Fields)
	var stored []*lsm.Stored
	for i := range op.Subtasks {
		s := &op.Subtasks[i]
		groups := groupsOf(op, s)
		if groups.Intersect(o.Range).Len() == 0 {
			continue
		}
		if s.Native == nil || !slices.Equal(s.Native.States, layout) {
			return nil, nil
		}
		n, err := r.storedOf(s, groups)
		if err != nil {
			return nil, fmt.Errorf("operator %q: %w", operator, err)
		}
		stored = append(stored, n)
	}
	return stored, nil
}

// groupsOf are the key groups that a subtask had.
func groupsOf(op *snapshot.Operator, s *snapshot.Subtask) keygroup.Range {
	return keygroup.RangeOf(s.Index, op.Parallelism, op.MaxParallelism)
}

func (r *restored) storedOf(s *snapshot.Subtask, groups keygroup.Range) (*lsm.Stored, error) {
	return lsm.NewStored(r.blobs, r.dir, s.Native, r.files, groups)
}

// readNative reads the sections of a subtask's database that lie in groups.
func (r *restored) readNative(ctx context.Context, op *snapshot.Operator, s *snapshot.Subtask, groups keygroup.Range, fn func(int, snapshot.State, int, []byte) error) error {
	there := groupsOf(op, s)
	mine := groups.Intersect(there)
	if mine.Len() == 0 {
		return nil
	}
	stored, err := r.storedOf(s, there)
	if err != nil {
		return err
	}
	v, err := lsm.OpenSnapshot(ctx, stored)
	if err != nil {
		return err
	}
	err = v.Sections(mine, *op.KeyFormat, s.Native.States, func(g int, st snapshot.State, count int, data []byte) error {
		if isDropped(op, st.Name) {
			return nil
		}
		if err := fn(g, st, count, data); err != nil {
			return fmt.Errorf("key group %d: %w", g, err)
		}
		return nil
	})
	return errors.Join(err, v.Close())
}
