package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/state"
)

// restored is the snapshot an attempt starts from.
type restored struct {
	meta *snapshot.Metadata
	ops  map[string]*snapshot.Operator
	// sourcesKnown is false if the job has a source that the snapshot does
	// not know: its records may lie behind the stored watermarks, which then
	// bound nothing.
	sourcesKnown bool
	files        map[string]snapshot.File
	// dropped are the states that the job has no place for, in words.
	dropped []string
}

// newRestored refuses a snapshot with state that the job has no place for,
// unless that is to be dropped.
func newRestored(m *snapshot.Metadata, g *graph.Graph, drop bool) (*restored, error) {
	r := &restored{meta: m, ops: map[string]*snapshot.Operator{}, files: map[string]snapshot.File{}, sourcesKnown: true}
	for _, f := range m.Files {
		r.files[f.Name] = f
	}
	if m.KeyHash != keygroup.HashName {
		return nil, fmt.Errorf("snapshot %d hashes keys by %q, this version by %q: it cannot be restored", m.ID, m.KeyHash, keygroup.HashName)
	}
	inJob := map[string]*graph.Node{}
	for _, n := range g.Nodes {
		inJob[n.ID] = n
	}
	var errs []error
	for i := range m.Operators {
		op, err := r.claim(&m.Operators[i], inJob[m.Operators[i].ID], drop)
		errs = append(errs, err)
		if op != nil {
			r.ops[op.ID] = op
		}
	}
	for _, n := range g.Nodes {
		if n.Role == graph.Source && r.ops[n.ID] == nil {
			r.sourcesKnown = false
		}
	}
	return r, errors.Join(errs...)
}

// check tells whether the operators can take over what is stored of them.
func (r *restored) check(g *graph.Graph) error {
	var errs []error
	for _, n := range g.Nodes {
		if c, ok := n.Body.(stage.RestoreChecker); ok && r.ops[n.ID] != nil {
			errs = append(errs, guarded(func() error { return c.CheckRestore(r.ops[n.ID]) }))
		}
	}
	return errors.Join(errs...)
}

// adoptMaxParallelism gives each stage the number of key groups its state was
// written with.
func (r *restored) adoptMaxParallelism(plan *graph.Plan, explicit int) error {
	for _, s := range plan.Stages {
		for _, n := range s.Nodes {
			op := r.ops[n.ID]
			if op == nil || op.MaxParallelism == 0 {
				continue
			}
			if explicit != 0 && explicit != op.MaxParallelism {
				return fmt.Errorf("operator %q: max parallelism is set to %d, but its state was written with %d and cannot be divided otherwise: remove the setting, or start with --fresh",
					n.ID, explicit, op.MaxParallelism)
			}
			if s.Parallelism > op.MaxParallelism {
				return fmt.Errorf("operator %q: parallelism %d is above the max parallelism %d its state was written with: use at most %d",
					n.ID, s.Parallelism, op.MaxParallelism, op.MaxParallelism)
			}
			s.MaxParallelism = op.MaxParallelism
		}
	}
	return nil
}

// restoreFor is what the snapshot holds for one subtask of an operator, nil on
// a fresh start or if it does not know the operator.
func (a *attempt) restoreFor(ctx context.Context, n *graph.Node, subtask, parallelism int) (*stage.Restore, error) {
	r := a.restored
	if r == nil || r.ops[n.ID] == nil {
		return nil, nil
	}
	op := r.ops[n.ID]
	out := &stage.Restore{States: op.States, SplitFormat: op.SplitFormat, Splits: splitsFor(op, subtask, parallelism), Ended: ended(op, subtask, parallelism)}
	if op.KeyFormat != nil {
		out.KeyFormat = *op.KeyFormat
	}
	lists := make([][]snapshot.ListState, len(op.Subtasks))
	for i, s := range op.Subtasks {
		lists[i] = s.Lists
	}
	out.Lists = state.Redistribute(lists, parallelism)[subtask]
	if r.sourcesKnown {
		out.Watermark = lowestWatermark(op)
	}
	out.Keyed = func(groups keygroup.Range, fn func(int, snapshot.State, int, []byte) error) error {
		err := a.readKeyed(ctx, op, groups, fn)
		if damaged(err) {
			return coord.AsFatal(fmt.Errorf("%w; go back to an earlier snapshot with -s PATH --rewind, or begin anew with --fresh", err))
		}
		return err
	}
	return out, nil
}

// splitsFor deals the splits out: to the same subtask at equal parallelism,
// else in turn.
func splitsFor(op *snapshot.Operator, subtask, parallelism int) [][]byte {
	if len(op.Subtasks) == parallelism {
		return op.Subtasks[subtask].Splits
	}
	var mine [][]byte
	i := 0
	for _, s := range op.Subtasks {
		for _, d := range s.Splits {
			if i%parallelism == subtask {
				mine = append(mine, d)
			}
			i++
		}
	}
	return mine
}

// ended tells whether a subtask has nothing left to say at its end: if all had
// come there, or it alone and is the same still.
func ended(op *snapshot.Operator, subtask, parallelism int) bool {
	if len(op.Subtasks) == parallelism {
		return op.Subtasks[subtask].Ended
	}
	return len(op.Subtasks) > 0 && !slices.ContainsFunc(op.Subtasks, func(s snapshot.Subtask) bool { return !s.Ended })
}

func lowestWatermark(op *snapshot.Operator) *int64 {
	var low *int64
	for _, s := range op.Subtasks {
		if s.Watermark != nil && (low == nil || *s.Watermark < *low) {
			low = s.Watermark
		}
	}
	return low
}

// damaged tells files that are no longer as they were written, which no
// restart mends, from a storage that fails.
func damaged(err error) bool {
	for _, kind := range []error{snapshot.ErrNotSnapshot, snapshot.ErrTruncated, snapshot.ErrChecksum, snapshot.ErrMalformed, storage.ErrNotFound} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// readKeyed reads the sections of an operator that lie in groups.
func (a *attempt) readKeyed(ctx context.Context, op *snapshot.Operator, groups keygroup.Range, fn func(int, snapshot.State, int, []byte) error) error {
	for _, s := range op.Subtasks {
		if s.File == "" {
			continue
		}
		name := path.Join(a.start.RestoredDir, s.File)
		f, err := snapshot.OpenFile(ctx, a.start.RestoredBlobs, name, a.restored.files[s.File])
		if err != nil {
			return err
		}
		for _, g := range f.Groups() {
			if !groups.Contains(g) {
				continue
			}
			r, err := f.ReadOperator(ctx, g, op.ID)
			if err != nil {
				return err
			}
			for {
				h, data, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return fmt.Errorf("%s, key group %d: %w", name, g, err)
				}
				if !slices.ContainsFunc(op.States, func(s snapshot.State) bool { return s.Name == h.State.Name }) {
					continue // dropped
				}
				if err := fn(g, h.State, h.Count, data); err != nil {
					return fmt.Errorf("%s, key group %d: %w", name, g, err)
				}
			}
		}
	}
	return nil
}
