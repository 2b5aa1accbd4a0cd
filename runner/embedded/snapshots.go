package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"time"

	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/killpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
)

// Snapshot implements stage.Host: the parts are written and acknowledged on a
// goroutine of their own.
func (a *attempt) Snapshot(t stage.TaskID, b *stage.Barrier, parts []stage.Part, took time.Duration) {
	for _, p := range parts {
		if len(p.Committables) > 0 {
			a.coordinator.Prepared(t, b.ID, p.Operator, p.CommittableFormat, p.Committables)
		}
	}
	a.writers.Go(func() {
		var ack coord.Ack
		var err error
		killpoint.Reach("snapshot.write")
		cpu := cpuTime(func() { ack, err = a.write(t, b, parts) })
		killpoint.Reach("snapshot.written")
		if err != nil {
			var codec encodeError
			if errors.As(err, &codec) {
				a.fail(fmt.Errorf("snapshot %d: %w", b.ID, err))
			}
			a.coordinator.Decline(t, b.ID, err)
			return
		}
		ack.BarrierNanos, ack.AsyncNanos = int64(took), int64(cpu)
		a.coordinator.Ack(ack)
	})
}

// write writes the keyed state of a task into one file and returns the
// acknowledgement.
func (a *attempt) write(t stage.TaskID, b *stage.Barrier, parts []stage.Part) (coord.Ack, error) {
	ack := coord.Ack{Task: t, ID: b.ID}
	file := ""
	defer release(parts)
	if groups, ok := keyedGroups(parts); ok {
		file = snapshot.Name(t.Stage, t.Subtask, a.start.Number)
		blobs, dir, ok := a.target(b.ID)
		if !ok {
			return ack, fmt.Errorf("snapshot %d is no longer under way", b.ID)
		}
		if err := settle(parts); err != nil {
			return ack, err
		}
		f, err := a.writeFile(blobs, path.Join(dir, file), groups, parts)
		if err != nil {
			return ack, fmt.Errorf("%s: %w", path.Join(dir, file), err)
		}
		f.Name = file
		ack.Files, ack.Bytes = []snapshot.File{f}, f.Size
	}
	for _, p := range parts {
		ack.Operators = append(ack.Operators, a.operator(t, b, p, file))
	}
	return ack, nil
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

func (a *attempt) writeFile(blobs storage.Blobs, name string, groups keygroup.Range, parts []stage.Part) (snapshot.File, error) {
	var f snapshot.File
	err := blobs.Put(a.ctx, name, func(w io.Writer) error {
		out := &watched{w: w}
		fw := snapshot.NewFileWriter(out, snapshot.S2)
		for g := groups.First; g <= groups.Last; g++ {
			if a.ctx.Err() != nil {
				return context.Cause(a.ctx)
			}
			err := guarded(func() error { return encodeGroup(fw, g, parts) })
			switch {
			case err != nil && out.err == nil:
				return encodeError{err}
			case err != nil:
				return err
			}
			runtime.Gosched() // the stages come first
		}
		release(parts) // before the file is synced: a stage writes more slowly until then
		size, crc, err := fw.Close()
		f.Size, f.CRC = size, crc
		return err
	})
	return f, err
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

func encodeGroup(fw *snapshot.FileWriter, g int, parts []stage.Part) error {
	if err := fw.BeginGroup(g); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Keyed == nil {
			continue
		}
		if err := p.Keyed.EncodeGroup(g, fw.Operator(p.Operator, p.Keyed.KeyFormat())); err != nil {
			return fmt.Errorf("operator %q, key group %d: %w", p.Operator, g, err)
		}
	}
	return fw.EndGroup()
}

// operator is a part in the form of the metadata.
func (a *attempt) operator(t stage.TaskID, b *stage.Barrier, p stage.Part, file string) snapshot.Operator {
	s := a.stages[t.Stage]
	op := snapshot.Operator{
		ID: p.Operator, Kind: a.kinds[p.Operator], Parallelism: s.Parallelism,
		SplitFormat: p.SplitFormat, CommittableFormat: p.CommittableFormat,
		Subtasks: []snapshot.Subtask{{Index: t.Subtask, Lists: p.Lists, Splits: p.Splits, Watermark: p.Watermark, Ended: p.Ended}},
	}
	if p.Keyed != nil {
		k := p.Keyed.KeyFormat()
		op.KeyFormat, op.States, op.MaxParallelism = &k, p.Keyed.States(), s.MaxParallelism
		op.Subtasks[0].File = file
	}
	for _, c := range p.Committables {
		op.Committables = append(op.Committables, snapshot.Committable{Checkpoint: b.ID, Subtask: t.Subtask, Data: c})
	}
	return op
}
