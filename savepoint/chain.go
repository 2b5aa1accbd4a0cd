package savepoint

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

// chain is the keyed state of a subtask in a data file and files of changes.
type chain struct {
	files *snapshot.Chain
	op    *snapshot.Operator
}

// chainPlaces are the key groups of a subtask whose state is a chain.
func (s *Snapshot) chainPlaces(ctx context.Context, op *snapshot.Operator, sub *snapshot.Subtask) ([]place, error) {
	if op.KeyFormat == nil || op.MaxParallelism <= 0 {
		return nil, malformed("operator %q has keyed state, and no key format and max parallelism", op.ID)
	}
	var files []snapshot.File
	for _, name := range sub.DataFiles() {
		for _, f := range s.meta.Files {
			if f.Name == name {
				files = append(files, f)
			}
		}
	}
	c, err := snapshot.OpenChain(ctx, s.blobs, s.dir, files, keygroup.Range{First: 0, Last: op.MaxParallelism - 1})
	if err != nil {
		return nil, fmt.Errorf("operator %q, subtask %d: %w", op.ID, sub.Index, err)
	}
	var places []place
	for _, g := range c.Groups() {
		places = append(places, place{group: g, files: &chain{c, op}})
	}
	return places, nil
}

// group reads a key group.
func (c *chain) group(ctx context.Context, g int) (*snapshot.RawGroup, error) {
	r, err := c.files.ReadOperator(ctx, g, c.op.ID)
	if err != nil {
		return nil, err
	}
	raw := snapshot.NewRawGroup(g, c.op.ID, *c.op.KeyFormat)
	for {
		h, data, err := r.Next()
		if errors.Is(err, io.EOF) {
			return raw, nil
		}
		if err == nil {
			err = raw.Section(h.State, h.Count, data)
		}
		if err != nil {
			return nil, err
		}
	}
}
