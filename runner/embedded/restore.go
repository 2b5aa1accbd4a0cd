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

// restored is the snapshot that an attempt, or a region of it, starts from.
type restored struct {
	meta *snapshot.Metadata
	// blobs and dir are where it lies; share tells that checkpoints may refer to
	// its files.
	blobs storage.Blobs
	dir   string
	share bool
	ops   map[string]*snapshot.Operator
	// sourcesKnown is false if the job has a source that the snapshot does
	// not know: its records may lie behind the stored watermarks, which then
	// bound nothing.
	sourcesKnown bool
	files        map[string]snapshot.File
	// name is the snapshot in messages. That it is another job's may be a mistake.
	name string
	// dropped are the states that the job has no place for, in words.
	dropped []string
}

// newRestored refuses a snapshot with state that the job has no place for,
// unless that is to be dropped.
func newRestored(m *snapshot.Metadata, g *graph.Graph, drop bool) (*restored, error) {
	r := &restored{meta: m, ops: map[string]*snapshot.Operator{}, files: map[string]snapshot.File{}, sourcesKnown: true}
	r.name = fmt.Sprintf("snapshot %d", m.ID)
	if m.Job != g.Job {
		r.name += fmt.Sprintf(" of another job, %s,", m.Job)
	}
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

// notes say in words how state is converted.
func (r *restored) notes(g *graph.Graph) (notes []string) {
	for _, n := range g.Nodes {
		if c, ok := n.Body.(stage.RestoreNoter); ok && r.ops[n.ID] != nil {
			notes = append(notes, c.RestoreNotes(r.ops[n.ID])...)
		}
	}
	return notes
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
func (r *restored) restoreFor(ctx context.Context, n *graph.Node, subtask, parallelism int) *stage.Restore {
	if r == nil || r.ops[n.ID] == nil {
		return nil
	}
	op := r.ops[n.ID]
	out := &stage.Restore{States: op.States, SplitFormat: op.SplitFormat, Ended: ended(op, subtask, parallelism)}
	if b, ok := n.Body.(stage.SourceBody); !ok || !b.ReassignSplits() {
		out.Splits = splitsFor(op, subtask, parallelism)
	}
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
	if r.share && len(op.Subtasks) == parallelism && len(op.States) == r.stored(n.ID) {
		out.Chain = &op.Subtasks[subtask]
	}
	out.Keyed = func(groups keygroup.Range, fn func(int, snapshot.State, int, []byte) error) error {
		return unreadable(r.readKeyed(ctx, op, groups, fn))
	}
	return out
}

// stored is the number of keyed states that the snapshot holds of an operator,
// those included that the job drops.
func (r *restored) stored(operator string) int {
	for i := range r.meta.Operators {
		if r.meta.Operators[i].ID == operator {
			return len(r.meta.Operators[i].States)
		}
	}
	return 0
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

// splitsBack are the splits by the subtask that had them.
func splitsBack(op *snapshot.Operator) [][][]byte {
	back := make([][][]byte, len(op.Subtasks))
	for i, s := range op.Subtasks {
		back[i] = s.Splits
	}
	return back
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

// unreadable says what to do about a snapshot that is damaged.
func unreadable(err error) error {
	if !damaged(err) {
		return err
	}
	return coord.AsFatal(fmt.Errorf("%w; go back to an earlier snapshot with -s PATH --rewind, or begin anew with --fresh", err))
}

// readKeyed reads the sections of an operator that lie in groups.
func (r *restored) readKeyed(ctx context.Context, op *snapshot.Operator, groups keygroup.Range, fn func(int, snapshot.State, int, []byte) error) error {
	for i := range op.Subtasks {
		s := &op.Subtasks[i]
		if s.Native != nil {
			if err := r.readNative(ctx, op, s, groups, fn); err != nil {
				return err
			}
		}
		if s.File == "" {
			continue
		}
		name := path.Join(r.dir, s.File)
		f, err := r.openChain(ctx, s, groups)
		if err != nil {
			return err
		}
		for _, g := range f.Groups() {
			if !groups.Contains(g) {
				continue
			}
			sections, err := f.ReadOperator(ctx, g, op.ID)
			if err != nil {
				return err
			}
			for {
				h, data, err := sections.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return fmt.Errorf("%s, key group %d: %w", name, g, err)
				}
				if isDropped(op, h.State.Name) {
					continue
				}
				if err := fn(g, h.State, h.Count, data); err != nil {
					return fmt.Errorf("%s, key group %d: %w", name, g, err)
				}
			}
		}
	}
	return nil
}

// isDropped tells whether the job has no place for a state.
func isDropped(op *snapshot.Operator, name string) bool {
	return !slices.ContainsFunc(op.States, func(s snapshot.State) bool { return s.Name == name })
}

// openChain opens the data files of a subtask.
func (r *restored) openChain(ctx context.Context, s *snapshot.Subtask, groups keygroup.Range) (*snapshot.Chain, error) {
	var files []snapshot.File
	for _, name := range s.DataFiles() {
		files = append(files, r.files[name])
	}
	return snapshot.OpenChain(ctx, r.blobs, r.dir, files, groups)
}
