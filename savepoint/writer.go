package savepoint

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/internal/storage/location"
	"github.com/weirstream/weir/storage"
)

// DefaultMaxParallelism is the number of key groups of operators that Bootstrap
// makes: that of a job which sets none, up to a parallelism of 85.
const DefaultMaxParallelism = 128

// ErrCommittables says that a change would lose output that waits to be
// committed.
var ErrCommittables = errors.New("it holds output that is not known to be committed")

// Writer makes a savepoint, from nothing (New) or of another one (From). Its
// methods only note what is to be done; Write does it. It may be used once.
type Writer struct {
	from *Snapshot
	meta snapshot.Metadata
	max  int
	ops  []*planned
	now  func() time.Time
	done bool
}

// planned is an operator of the savepoint to be.
type planned struct {
	op snapshot.Operator
	// stored is its id in the snapshot that it comes from, "" if it is new.
	stored string
	// dropped are states that are left out.
	dropped map[string]bool
	// write writes its keyed state, unkeyed its operator state; nil is as it was.
	write   keyedWriter
	unkeyed func(snapshot.Subtask) ([]snapshot.ListState, error)
}

// keyedWriter writes the keyed state of a subtask, and may change what is said of
// the operator.
type keyedWriter func(ctx context.Context, p *planned, sub *snapshot.Subtask, fw *snapshot.FileWriter) error

// New begins a savepoint of a job that has none, with the given number of key
// groups for all keyed operators, 0 for DefaultMaxParallelism. The job's options must
// give the same number, or none.
func New(job string, maxParallelism int) *Writer {
	if maxParallelism == 0 {
		maxParallelism = DefaultMaxParallelism
	}
	w := &Writer{max: maxParallelism, now: time.Now}
	w.meta = snapshot.Metadata{
		Job: job, Weir: snapshot.WeirVersion, Lineage: strings.ToLower(rand.Text()[:16]), Attempt: 1, ID: 1, KeyHash: keygroup.HashName,
	}
	return w
}

// From begins a savepoint with all that a snapshot holds. It keeps the
// snapshot's identity, so that a start from it commits what waits to be
// committed, as a start from the snapshot itself would; use one of the two.
func From(s *Snapshot) *Writer {
	w := &Writer{from: s, meta: *s.meta, max: DefaultMaxParallelism, now: time.Now}
	w.meta.Deletes = nil
	for i := range s.meta.Operators {
		op := s.meta.Operators[i]
		op.States, op.Subtasks = slices.Clone(op.States), slices.Clone(op.Subtasks)
		w.ops = append(w.ops, &planned{op: op, stored: op.ID, dropped: map[string]bool{}})
		if len(op.States) > 0 {
			w.max = op.MaxParallelism
		}
	}
	return w
}

func (w *Writer) find(operator string) (*planned, error) {
	var ids []string
	for _, p := range w.ops {
		if p.op.ID == operator {
			return p, nil
		}
		ids = append(ids, p.op.ID)
	}
	return nil, fmt.Errorf("%w: operator %q; there are %s", ErrUnknown, operator, quoted(ids))
}

// Rename gives an operator another id, as where the job's program does. A sink
// with output that is not known to be committed is refused, with
// ErrCommittables: the output is committed under the old id.
func (w *Writer) Rename(operator, id string) error {
	p, err := w.find(operator)
	if err != nil {
		return err
	}
	if id == "" {
		return errors.New("an operator needs an id")
	}
	if _, err := w.find(id); err == nil {
		return fmt.Errorf("operator %q cannot be renamed to %q: there is one of that id", operator, id)
	}
	if err := w.settled(p); err != nil {
		return fmt.Errorf("operator %q cannot be renamed: %w", operator, err)
	}
	p.op.ID = id
	return nil
}

// Drop leaves an operator out, with all its state. A sink with output that is not
// known to be committed is refused, with ErrCommittables.
func (w *Writer) Drop(operator string) error {
	p, err := w.find(operator)
	if err != nil {
		return err
	}
	if err := w.settled(p); err != nil {
		return fmt.Errorf("operator %q cannot be dropped: %w", operator, err)
	}
	w.ops = slices.DeleteFunc(w.ops, func(o *planned) bool { return o == p })
	return nil
}

// DropState leaves a state of an operator out, also if Edit declares it.
func (w *Writer) DropState(operator, state string) error {
	p, err := w.find(operator)
	if err != nil {
		return err
	}
	var names []string
	for _, st := range statesOf(&p.op) {
		names = append(names, st.Name)
	}
	if !slices.Contains(names, state) {
		return fmt.Errorf("%w: state %q of operator %q; there are %s", ErrUnknown, state, operator, quoted(names))
	}
	p.dropped[state] = true
	p.op.States = slices.DeleteFunc(p.op.States, func(s snapshot.State) bool { return s.Name == state })
	for i := range p.op.Subtasks {
		lists := slices.Clone(p.op.Subtasks[i].Lists)
		p.op.Subtasks[i].Lists = slices.DeleteFunc(lists, func(l snapshot.ListState) bool { return l.Name == state })
	}
	return nil
}

// settled tells whether all that an operator has prepared is committed.
func (w *Writer) settled(p *planned) error {
	if len(p.op.Committables) == 0 {
		return nil
	}
	if marked, err := w.mark(context.Background()); err != nil || marked != nil {
		return err
	}
	return fmt.Errorf("%w: %d committables. Start the job from the snapshot once, or take a savepoint of it, which is complete when they are committed", ErrCommittables, len(p.op.Committables))
}

// committedName is the mark beside a snapshot whose committables are all
// committed: docs/format/ledger.md.
const committedName = "_committed"

// mark returns the mark of the snapshot, nil if it has none.
func (w *Writer) mark(ctx context.Context) ([]byte, error) {
	if w.from == nil {
		return nil, nil
	}
	b, err := w.from.blobs.Get(ctx, path.Join(w.from.dir, committedName))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !marks(b, w.from.meta) {
		return nil, nil
	}
	return b, nil
}

// marks tells whether a mark is that of the snapshot: a paused process may have
// left another one's.
func marks(mark []byte, m *snapshot.Metadata) bool {
	var is struct {
		Lineage     string
		Attempt, ID int64
	}
	return json.Unmarshal(mark, &is) == nil && is.Lineage == m.Lineage && is.Attempt == m.Attempt && is.ID == m.ID
}

// Write writes the savepoint into the directory dir, which must not hold a
// snapshot. What fails leaves no snapshot there.
func (w *Writer) Write(ctx context.Context, dir string) error {
	abs, err := filepath.Abs(strings.TrimPrefix(dir, "file://"))
	if err != nil {
		return err
	}
	return w.WriteIn(ctx, file.New(filepath.Dir(abs)), filepath.Base(abs))
}

// WriteIn is Write into any storage: dir is relative to it.
func (w *Writer) WriteIn(ctx context.Context, blobs storage.Blobs, dir string) error {
	at := location.Join(blobs.String(), dir)
	if w.done {
		return errors.New("the writer has written already: begin another one")
	}
	w.done = true
	if _, err := blobs.Get(ctx, path.Join(dir, snapshot.MetadataName)); err == nil {
		return fmt.Errorf("%s holds a snapshot already: name another directory", at)
	} else if !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("write savepoint %s: %w", at, err)
	}
	if err := w.write(ctx, blobs, dir); err != nil {
		return fmt.Errorf("write savepoint %s: %w", at, err)
	}
	return nil
}

func (w *Writer) write(ctx context.Context, blobs storage.Blobs, dir string) (err error) {
	m := w.meta
	m.Kind, m.Triggered, m.Operators, m.Files = snapshot.Savepoint, w.now().UnixMilli(), nil, nil
	defer func() {
		if err != nil {
			for _, f := range m.Files {
				err = errors.Join(err, blobs.Delete(context.WithoutCancel(ctx), path.Join(dir, f.Name)))
			}
		}
	}()
	for _, p := range w.ops {
		if err := w.operator(ctx, blobs, dir, p, &m); err != nil {
			return fmt.Errorf("operator %q: %w", p.op.ID, err)
		}
		m.Operators = append(m.Operators, p.op)
	}
	m.Completed = w.now().UnixMilli()
	mark, err := w.mark(ctx)
	if err != nil {
		return err
	}
	if err := snapshot.Store(ctx, blobs, dir, &m); err != nil {
		return err
	}
	if mark != nil {
		return blobs.PutIfAbsent(ctx, path.Join(dir, committedName), mark)
	}
	return nil
}

// operator writes what belongs to an operator, subtask by subtask.
func (w *Writer) operator(ctx context.Context, blobs storage.Blobs, dir string, p *planned, m *snapshot.Metadata) error {
	write := p.write
	if write == nil {
		write = w.copy
	}
	if p.stored != "" && len(p.op.States) > 0 || p.write != nil {
		if op, err := w.storedOperator(p); err != nil {
			return err
		} else if op != nil {
			if err := readable(op); err != nil {
				return err
			}
		}
	}
	for i := range p.op.Subtasks {
		sub := &p.op.Subtasks[i]
		if p.unkeyed != nil {
			lists, err := p.unkeyed(*sub)
			if err != nil {
				return err
			}
			sub.Lists = slices.DeleteFunc(lists, func(l snapshot.ListState) bool { return p.dropped[l.Name] })
		}
		if p.write == nil && (len(sub.DataFiles()) == 0 || len(p.op.States) == 0) {
			sub.File, sub.Increments, sub.Native = "", nil, nil
			continue
		}
		f := snapshot.File{Name: snapshot.Name(p.op.ID, sub.Index, m.Attempt)}
		err := blobs.Put(ctx, path.Join(dir, f.Name), func(out io.Writer) error {
			fw := snapshot.NewFileWriter(out, snapshot.Zstd)
			err := write(ctx, p, sub, fw)
			var cerr error
			f.Size, f.CRC, cerr = fw.Close()
			if err == nil {
				err = cerr
			}
			return err
		})
		if err != nil {
			return err
		}
		sub.File, sub.Increments, sub.Native = f.Name, nil, nil
		m.Files = append(m.Files, f)
	}
	if len(p.op.States) == 0 {
		p.op.KeyFormat, p.op.MaxParallelism = nil, 0
	}
	return nil
}

// storedOperator is what an operator was, nil if it is new.
func (w *Writer) storedOperator(p *planned) (*snapshot.Operator, error) {
	if p.stored == "" {
		return nil, nil
	}
	return w.from.operator(p.stored)
}

// copy writes the states of a subtask as they are.
func (w *Writer) copy(ctx context.Context, p *planned, sub *snapshot.Subtask, fw *snapshot.FileWriter) error {
	op, err := w.storedOperator(p)
	if err != nil {
		return err
	}
	places, err := w.from.placesOf(ctx, op, sub)
	if err != nil {
		return err
	}
	slices.SortFunc(places, func(a, b place) int { return a.group - b.group })
	for _, at := range places {
		r, err := at.read(ctx, p.stored)
		if err != nil {
			return err
		}
		if err := fw.BeginGroup(at.group); err != nil {
			return err
		}
		for {
			h, data, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil && !p.dropped[h.State.Name] {
				err = fw.Section(p.op.ID, h.KeyFormat, h.State, h.Count, data)
			}
			if err != nil {
				return fmt.Errorf("key group %d: %w", at.group, err)
			}
		}
		if err := fw.EndGroup(); err != nil {
			return err
		}
	}
	return nil
}
