package savepoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/internal/backend/lsm"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

// UnreadableError says that the keyed state of an operator is stored in a form
// that this version does not read.
type UnreadableError struct{ Operator, Form string }

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("operator %q: its keyed state is stored in the form %s of its backend, which this version does not read: take a canonical savepoint of the job (weir savepoint), and use that", e.Operator, e.Form)
}

// readable tells whether the keyed state of an operator can be read.
func readable(op *snapshot.Operator) error {
	for _, sub := range op.Subtasks {
		if sub.Native != nil && sub.Native.Format != lsm.Format {
			return &UnreadableError{op.ID, sub.Native.Format}
		}
	}
	return nil
}

// database is the keyed state of a subtask in files of the lsm backend.
type database struct {
	stored *lsm.Stored
	op     *snapshot.Operator
	states []snapshot.State
}

// databasePlaces are the key groups of a subtask whose state is a database.
func (s *Snapshot) databasePlaces(op *snapshot.Operator, sub *snapshot.Subtask) ([]place, error) {
	if op.KeyFormat == nil || keygroup.Check(max(op.Parallelism, 1), op.MaxParallelism) != nil {
		return nil, malformed("operator %q has keyed state, and no possible key format and max parallelism", op.ID)
	}
	files := make(map[string]snapshot.File, len(s.meta.Files))
	for _, f := range s.meta.Files {
		files[f.Name] = f
	}
	groups := keygroup.RangeOf(sub.Index, op.Parallelism, op.MaxParallelism)
	stored, err := lsm.NewStored(s.blobs, s.dir, sub.Native, files, groups)
	if err != nil {
		return nil, fmt.Errorf("operator %q, subtask %d: %w", op.ID, sub.Index, err)
	}
	db := &database{stored, op, sub.Native.States}
	var places []place
	for g := groups.First; g <= groups.Last; g++ {
		places = append(places, place{group: g, files: db})
	}
	return places, nil
}

// group reads a key group, in the canonical form. It has the database open no
// longer than that.
func (d *database) group(ctx context.Context, g int) (*snapshot.RawGroup, error) {
	v, err := lsm.OpenSnapshot(ctx, d.stored)
	if err != nil {
		return nil, err
	}
	raw := snapshot.NewRawGroup(g, d.op.ID, *d.op.KeyFormat)
	err = v.Sections(keygroup.Range{First: g, Last: g}, *d.op.KeyFormat, d.states, func(_ int, st snapshot.State, count int, data []byte) error {
		return raw.Section(st, count, data)
	})
	return raw, errors.Join(err, v.Close())
}
