package connectortest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weirstream/weir/connector"
)

// Emitted is a record that a source emitted.
type Emitted[T any] struct {
	Value   T
	Time    int64
	Split   string
	Subtask int
}

// SourceSnapshot is what a checkpoint holds of a source, encoded by its codecs.
type SourceSnapshot struct {
	Enumerator []byte
	Splits     [][]byte
}

// SourceRun is one attempt of a source: its enumerator and readers, driven on
// the caller's goroutine.
type SourceRun[T any, S connector.Split, E any] struct {
	// Context has the counters.
	Context *Context
	// Batch is the largest batch asked for, 1,024 by default.
	Batch int

	source     connector.Source[T, S, E]
	enumerator connector.Enumerator[S, E]
	readers    []*sourceReader[T, S]
	registered []int
	work       chan func() error
	wake       chan struct{}
	calls      sync.WaitGroup
	ctx        context.Context
	cancel     context.CancelFunc
	records    []Emitted[T]
	err        error
	observer   observer[T] // nil: none

	assigned  []assignment[S]
	taken     map[int64]taken[S] // snapshots that are not complete yet
	completed taken[S]
}

type sourceReader[T any, S connector.Split] struct {
	reader connector.Reader[T, S]
	out    *connector.Output[T]
	woken  atomic.Bool
	idle   bool
	ended  bool
}

// observer sees what happens to readers.
type observer[T any] interface {
	added(subtask int, ids []string)
	noMore(subtask int)
	polled(subtask int, out *connector.Output[T], status connector.Status) error
}

// StartSource starts a source, from a snapshot unless that is nil. Restored
// splits are dealt out in turn, or go back to the enumerator of a
// connector.SplitReassigner, each as if it came from a reader of its own. The log, if any, is taken from c, which may be
// nil.
func StartSource[T any, S connector.Split, E any](src connector.Source[T, S, E], parallelism int, from *SourceSnapshot, c *Context) (*SourceRun[T, S, E], error) {
	if c == nil {
		c = &Context{}
	}
	r := newSourceRun(src, c)
	if err := r.start(parallelism, from); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func newSourceRun[T any, S connector.Split, E any](src connector.Source[T, S, E], c *Context) *SourceRun[T, S, E] {
	r := &SourceRun[T, S, E]{
		Context: c, Batch: 1024, source: src,
		work: make(chan func() error, 1024), wake: make(chan struct{}, 1), taken: map[int64]taken[S]{},
	}
	r.ctx, r.cancel = context.WithCancel(c.Context())
	return r
}

func (r *SourceRun[T, S, E]) start(parallelism int, from *SourceSnapshot) (err error) {
	var state *E
	var splits []S
	if from != nil {
		if state, splits, err = r.decode(from); err != nil {
			return err
		}
	}
	var back []S
	if ra, ok := r.source.(connector.SplitReassigner); ok && ra.ReassignSplits() {
		splits, back = nil, splits
	}
	r.completed.splits = make([][]S, parallelism)
	for i, s := range splits {
		r.completed.splits[i%parallelism] = append(r.completed.splits[i%parallelism], s)
	}
	r.readers = make([]*sourceReader[T, S], 0, parallelism)
	for i := range parallelism {
		r.readers = append(r.readers, nil)
		if err := r.open(i, parallelism); err != nil {
			return err
		}
	}
	if r.enumerator, err = r.source.NewEnumerator(enumeratorContext[T, S, E]{r}, state); err != nil {
		return err
	}
	if err := r.enumerator.Start(); err != nil {
		return err
	}
	for i, s := range back {
		if err := r.enumerator.AddSplitsBack([]S{s}, i); err != nil {
			return err
		}
	}
	for i := range r.readers {
		r.registered = append(r.registered, i)
		if err := r.enumerator.AddReader(i); err != nil {
			return err
		}
	}
	return nil
}

// open makes the reader of a subtask, with the splits that the last complete
// checkpoint has of it.
func (r *SourceRun[T, S, E]) open(subtask, parallelism int) error {
	rd := &sourceReader[T, S]{}
	reader, err := r.source.NewReader(readerContext[T, S, E]{r, rd, subtask, parallelism})
	if err != nil {
		return err
	}
	rd.reader = reader
	r.readers[subtask] = rd
	if err := reader.Start(); err != nil {
		return err
	}
	for _, s := range r.completed.splits[subtask] {
		if err := r.addSplits(subtask, []S{s}); err != nil {
			return err
		}
	}
	return nil
}

func (r *SourceRun[T, S, E]) addSplits(subtask int, splits []S) error {
	if r.observer != nil {
		ids := make([]string, len(splits))
		for i, s := range splits {
			ids[i] = s.SplitID()
		}
		r.observer.added(subtask, ids)
	}
	r.readers[subtask].idle = false
	if len(splits) == 0 {
		return nil // as the engine does: it concerns event time alone
	}
	return r.readers[subtask].reader.AddSplits(splits)
}

func (r *SourceRun[T, S, E]) decode(from *SourceSnapshot) (*E, []S, error) {
	state, err := r.source.EnumeratorCodec().Decode(from.Enumerator)
	if err != nil {
		return nil, nil, err
	}
	splits := make([]S, len(from.Splits))
	for i, b := range from.Splits {
		if splits[i], err = r.source.SplitCodec().Decode(b); err != nil {
			return nil, nil, err
		}
	}
	return &state, splits, nil
}

// Step does what there is to do now, and says whether there was anything: the
// waiting calls of the enumerator, and one poll of each reader.
func (r *SourceRun[T, S, E]) Step() (progress bool, err error) {
	if r.err != nil {
		return false, r.err
	}
	defer func() { r.err = err }()
	for {
		select {
		case f := <-r.work:
			progress = true
			if err := f(); err != nil {
				return true, err
			}
			continue
		default:
		}
		break
	}
	for i, rd := range r.readers {
		polled, err := r.poll(i, rd)
		if err != nil {
			return true, err
		}
		progress = progress || polled
	}
	return progress, nil
}

func (r *SourceRun[T, S, E]) poll(i int, rd *sourceReader[T, S]) (bool, error) {
	if rd.woken.Swap(false) {
		rd.idle = false
	}
	if rd.idle || rd.ended {
		return false, nil
	}
	if rd.out == nil {
		rd.out = connector.NewOutput[T](r.Batch)
	}
	rd.out.Reset()
	status, err := rd.reader.Poll(rd.out)
	if err != nil {
		return true, err
	}
	if len(rd.out.Vals) != len(rd.out.Times) {
		return true, fmt.Errorf("%d values with %d timestamps", len(rd.out.Vals), len(rd.out.Times))
	}
	if r.observer != nil {
		if err := r.observer.polled(i, rd.out, status); err != nil {
			return true, err
		}
	}
	for j, v := range rd.out.Vals {
		r.records = append(r.records, Emitted[T]{v, rd.out.Times[j], rd.out.SplitID(), i})
	}
	rd.idle, rd.ended = status == connector.Nothing || status == connector.Held, status == connector.End
	return true, nil
}

// Until steps until done, waiting where there is nothing to do. It ends with
// an error of the source or of ctx.
func (r *SourceRun[T, S, E]) Until(ctx context.Context, done func() bool) error {
	for !done() {
		progress, err := r.Step()
		if err != nil {
			return err
		}
		if progress {
			continue
		}
		select {
		case f := <-r.work:
			if r.err = f(); r.err != nil {
				return r.err
			}
		case <-r.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Run steps until all readers have ended.
func (r *SourceRun[T, S, E]) Run(ctx context.Context) error { return r.Until(ctx, r.Ended) }

// Count steps until n records have been emitted.
func (r *SourceRun[T, S, E]) Count(ctx context.Context, n int) error {
	return r.Until(ctx, func() bool { return len(r.records) >= n })
}

// Ended says whether all readers have ended.
func (r *SourceRun[T, S, E]) Ended() bool {
	for _, rd := range r.readers {
		if !rd.ended {
			return false
		}
	}
	return true
}

// Records returns what was emitted so far.
func (r *SourceRun[T, S, E]) Records() []Emitted[T] { return r.records }

// Forget drops the records emitted so far, for runs that are long.
// FailReader takes none of them back.
func (r *SourceRun[T, S, E]) Forget() {
	r.records = r.records[:0]
	r.completed.records = 0
}

// Values returns the values of Records.
func (r *SourceRun[T, S, E]) Values() []T {
	vals := make([]T, len(r.records))
	for i, e := range r.records {
		vals[i] = e.Value
	}
	return vals
}

// Reader returns the reader of a subtask.
func (r *SourceRun[T, S, E]) Reader(subtask int) connector.Reader[T, S] {
	return r.readers[subtask].reader
}

// Enumerator returns the enumerator.
func (r *SourceRun[T, S, E]) Enumerator() connector.Enumerator[S, E] { return r.enumerator }

// Snapshot takes a checkpoint.
func (r *SourceRun[T, S, E]) Snapshot(id int64) (*SourceSnapshot, error) {
	state, err := r.enumerator.Snapshot(id)
	if err != nil {
		return nil, err
	}
	snap := &SourceSnapshot{}
	t := taken[S]{records: len(r.records), assigned: len(r.assigned), splits: make([][]S, len(r.readers))}
	if snap.Enumerator, err = r.source.EnumeratorCodec().Append(nil, state); err != nil {
		return nil, err
	}
	for i, rd := range r.readers {
		splits, err := rd.reader.Snapshot(id)
		if err != nil {
			return nil, err
		}
		t.splits[i] = splits
		for _, s := range splits {
			b, err := r.source.SplitCodec().Append(nil, s)
			if err != nil {
				return nil, err
			}
			snap.Splits = append(snap.Splits, b)
		}
	}
	r.taken[id] = t
	return snap, nil
}

// Complete tells everybody that a checkpoint is complete.
func (r *SourceRun[T, S, E]) Complete(id int64) error {
	r.complete(id)
	err := r.enumerator.CheckpointComplete(id)
	for _, rd := range r.readers {
		err = errors.Join(err, rd.reader.CheckpointComplete(id))
	}
	return err
}

// Close ends the attempt.
func (r *SourceRun[T, S, E]) Close() error {
	r.cancel()
	r.calls.Wait()
	var err error
	for _, rd := range r.readers {
		if rd != nil {
			err = errors.Join(err, rd.reader.Close())
		}
	}
	if r.enumerator != nil {
		err = errors.Join(err, r.enumerator.Close())
	}
	return err
}

// post has f run on the goroutine that drives the run.
func (r *SourceRun[T, S, E]) post(f func() error) {
	select {
	case r.work <- f:
	case <-r.ctx.Done():
	}
}
