package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/weirstream/weir/internal/backend/heap"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/killpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

// Snapshot implements stage.Host: the parts are written and acknowledged on a
// goroutine of their own.
func (a *attempt) Snapshot(t stage.TaskID, b *stage.Barrier, parts []stage.Part, took time.Duration) {
	for _, p := range parts {
		if len(p.Committables) > 0 {
			a.coordinator.Prepared(t, b.ID, p.Operator, p.CommittableFormat, p.Committables)
		}
	}
	r := a.regionOf[t]
	r.writers.Go(func() {
		var ack coord.Ack
		var err error
		killpoint.Reach("snapshot.write")
		cpu := cpuTime(func() { ack, err = a.write(r.ctx, t, b, parts) })
		killpoint.Reach("snapshot.written")
		if err != nil {
			var codec encodeError
			// What was to go to a local disk that failed is nowhere else for sure.
			if errors.As(err, &codec) || errors.Is(err, heap.ErrTier) {
				a.fail(fmt.Errorf("snapshot %d: %w", b.ID, err))
			}
			a.coordinator.Decline(t, b.ID, err)
			return
		}
		ack.BarrierNanos, ack.AsyncNanos = int64(took), int64(cpu)
		a.coordinator.Ack(ack)
	})
}

// write writes the keyed state of a task and returns the acknowledgement.
func (a *attempt) write(ctx context.Context, t stage.TaskID, b *stage.Barrier, parts []stage.Part) (coord.Ack, error) {
	ack := coord.Ack{Task: t, ID: b.ID}
	defer release(parts)
	for _, p := range parts {
		ack.Operators = append(ack.Operators, a.operator(t, b, p))
	}
	groups, ok := keyedGroups(parts)
	if !ok {
		return ack, nil
	}
	blobs, dir, ok := a.target(b.ID)
	if !ok {
		return ack, fmt.Errorf("snapshot %d is no longer under way", b.ID)
	}
	if err := settle(parts, stores(b)); err != nil {
		return ack, err
	}
	up := a.uploads[t].Begin(b.ID, blobs, dir, b.Kind != snapshot.Savepoint)
	rest, err := a.storeParts(ctx, b, up, parts, ack.Operators)
	if err == nil && len(rest) > 0 {
		err = writeFile(ctx, up, snapshot.Name(t.Stage, t.Subtask, a.start.Number), groups, parts, rest)
	}
	if err != nil {
		a.abandon(b, up)
		return ack, err
	}
	up.Done()
	ack.Files, ack.Bytes = up.Files(), up.Bytes()
	return ack, nil
}

// stores tells whether parts may store themselves.
func stores(b *stage.Barrier) bool { return b.Kind != snapshot.Savepoint || b.Native }

// abandonTimeout bounds the deletion of files that nobody will hear of.
const abandonTimeout = 10 * time.Second

// abandon deletes what was written for a snapshot that failed, or that the end
// of the attempt interrupted.
func (a *attempt) abandon(b *stage.Barrier, up *snapshot.Upload) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), abandonTimeout)
	defer cancel()
	if err := up.Abandon(ctx); err != nil {
		a.job.log.Warn("deleting files of a failed snapshot", "snapshot", b.ID, "error", err)
	}
}

// storeParts lets parts store themselves, into the operators of the same index,
// and returns the subtasks of those that are to be encoded, by operator.
func (a *attempt) storeParts(ctx context.Context, b *stage.Barrier, up *snapshot.Upload, parts []stage.Part, ops []snapshot.Operator) (map[string]*snapshot.Subtask, error) {
	rest := map[string]*snapshot.Subtask{}
	for i, p := range parts {
		if p.Keyed == nil {
			continue
		}
		sub, stored := &ops[i].Subtasks[0], false
		if s, ok := p.Keyed.(stage.StoringPart); ok && stores(b) {
			err := guarded(func() (err error) {
				stored, err = s.Store(ctx, b, up, sub)
				return err
			})
			if err != nil {
				err = fmt.Errorf("operator %q: %w", p.Operator, err)
				if up.StorageFailed() || ctx.Err() != nil || errors.Is(err, heap.ErrTier) {
					return nil, err
				}
				return nil, encodeError{err}
			}
		}
		if !stored {
			rest[p.Operator] = sub
		}
	}
	return rest, nil
}

// makeUploads makes what each task writes its files by.
func (a *attempt) makeUploads() {
	var shared []snapshot.File
	if a.start.Share {
		shared = a.start.Restored.Files
	}
	a.uploads = map[stage.TaskID]*snapshot.Uploads{}
	for _, s := range a.plan.Stages {
		for i := range s.Parallelism {
			a.uploads[stage.TaskID{Stage: s.ID, Subtask: i}] = snapshot.NewUploads(
				snapshot.Writer{Lineage: a.start.Lineage, Attempt: a.start.Number, Stage: s.ID, Subtask: i}, shared)
		}
	}
}

// release gives up the frozen state of parts, if that is not done yet.
func release(parts []stage.Part) {
	for _, p := range parts {
		if p.Keyed != nil {
			p.Keyed.Release()
		}
	}
}

// keyedGroups is the range of key groups of a task; all keyed operators of a
// chain have the same.
func keyedGroups(parts []stage.Part) (keygroup.Range, bool) {
	for _, p := range parts {
		if p.Keyed != nil {
			return p.Keyed.Groups(), true
		}
	}
	return keygroup.Range{}, false
}

// writeFile writes the keyed state of the operators in rest into one file.
func writeFile(ctx context.Context, up *snapshot.Upload, name string, groups keygroup.Range, parts []stage.Part, rest map[string]*snapshot.Subtask) error {
	_, err := up.PutAs(ctx, name, func(w io.Writer) error {
		out := &watched{w: w}
		fw := snapshot.NewFileWriter(out, snapshot.S2)
		for g := groups.First; g <= groups.Last; g++ {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := guarded(func() error { return encodeGroup(fw, g, parts, rest) })
			switch {
			case err != nil && out.err == nil:
				return encodeError{err}
			case err != nil:
				return err
			}
			runtime.Gosched() // the stages come first
		}
		release(parts) // before the file is synced: a stage writes more slowly until then
		_, _, err := fw.Close()
		return err
	})
	for _, sub := range rest {
		sub.File = name
	}
	return err
}

// watched notes whether the storage failed.
type watched struct {
	w   io.Writer
	err error
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

// encodeError is an error of a codec. It is none of the storage, which may be
// tolerable: there will be no snapshot with this state.
type encodeError struct{ error }

func (e encodeError) Unwrap() error { return e.error }

func encodeGroup(fw *snapshot.FileWriter, g int, parts []stage.Part, rest map[string]*snapshot.Subtask) error {
	if err := fw.BeginGroup(g); err != nil {
		return err
	}
	for _, p := range parts {
		if rest[p.Operator] == nil {
			continue
		}
		if err := p.Keyed.EncodeGroup(g, fw.Operator(p.Operator, p.Keyed.KeyFormat())); err != nil {
			return fmt.Errorf("operator %q, key group %d: %w", p.Operator, g, err)
		}
	}
	return fw.EndGroup()
}

// operator is a part in the form of the metadata.
func (a *attempt) operator(t stage.TaskID, b *stage.Barrier, p stage.Part) snapshot.Operator {
	s := a.stages[t.Stage]
	op := snapshot.Operator{
		ID: p.Operator, Kind: a.kinds[p.Operator], Parallelism: s.Parallelism,
		SplitFormat: p.SplitFormat, CommittableFormat: p.CommittableFormat,
		Subtasks: []snapshot.Subtask{{Index: t.Subtask, Lists: p.Lists, Splits: p.Splits, Watermark: p.Watermark, Ended: p.Ended}},
	}
	if p.Keyed != nil {
		k := p.Keyed.KeyFormat()
		op.KeyFormat, op.States, op.MaxParallelism = &k, p.Keyed.States(), s.MaxParallelism
	}
	for _, c := range p.Committables {
		op.Committables = append(op.Committables, snapshot.Committable{Checkpoint: b.ID, Subtask: t.Subtask, Data: c})
	}
	return op
}
