package stream

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/watermark"
)

// From reads a source. At most one watermark strategy may be given; without
// one records keep the source's timestamps and event time stands still until
// the input ends.
func From[T any, S connector.Split, E any](j *Job, id string, src connector.Source[T, S, E], wm ...watermark.Strategy[T]) Stream[T] {
	return FromWith(j, id, src, nil, wm...)
}

// FromWith is From with options.
func FromWith[T any, S connector.Split, E any](j *Job, id string, src connector.Source[T, S, E], opts []Option, wm ...watermark.Strategy[T]) Stream[T] {
	b := sourceBody[T, S, E]{src: src}
	n := apply(j, &graph.Node{ID: id, Kind: "source", Role: graph.Source, Stateful: true}, opts)
	switch {
	case len(wm) > 1:
		j.failf(n.Site, "source %q has %d watermark strategies; one is possible", id, len(wm))
	case len(wm) == 1:
		b.strategy = wm[0]
		if err := b.strategy.Err(); err != nil {
			j.failf(n.Site, "source %q: %w", id, err)
		}
	}
	n.Body = b
	n.Options = map[string]string{"bounded": fmt.Sprint(src.Bounded())}
	return from[T](j, j.add(n))
}

// FromSlice reads the records of a slice, in order, in one subtask whatever
// the parallelism.
func FromSlice[T any](j *Job, id string, records []T, wm ...watermark.Strategy[T]) Stream[T] {
	return From(j, id, datagen.FromSlice(records), wm...)
}

type sourceBody[T any, S connector.Split, E any] struct {
	src      connector.Source[T, S, E]
	strategy watermark.Strategy[T]
}

func (b sourceBody[T, S, E]) NewOperator() stage.Operator { return &sourceOp[T, S, E]{body: b} }
func (b sourceBody[T, S, E]) Bounded() bool               { return b.src.Bounded() }
func (b sourceBody[T, S, E]) EnumeratorFormat() codec.Format {
	return b.src.EnumeratorCodec().Format()
}

// CanRewind implements connector.Rewinder.
func (b sourceBody[T, S, E]) CanRewind() bool {
	r, ok := b.src.(connector.Rewinder)
	return !ok || r.CanRewind()
}

// ReassignSplits implements connector.SplitReassigner.
func (b sourceBody[T, S, E]) ReassignSplits() bool {
	r, ok := b.src.(connector.SplitReassigner)
	return ok && r.ReassignSplits()
}

// CheckRestore implements stage.RestoreChecker.
func (b sourceBody[T, S, E]) CheckRestore(op *snapshot.Operator) error {
	if err := b.checkStored(op); err != nil {
		return fmt.Errorf("operator %q: %w", op.ID, err)
	}
	return nil
}

func (b sourceBody[T, S, E]) checkStored(op *snapshot.Operator) error {
	if _, err := b.decodeEnumerator(op.Enumerator); err != nil {
		return err
	}
	if err := b.checkSplits(op.SplitFormat); err != nil {
		return err
	}
	for _, sub := range op.Subtasks {
		if _, err := b.decodeSplits(sub.Splits); err != nil {
			return err
		}
	}
	return nil
}

// decodeEnumerator returns nil for the state of none.
func (b sourceBody[T, S, E]) decodeEnumerator(stored []byte) (*E, error) {
	if stored == nil {
		return nil, nil
	}
	v, err := b.src.EnumeratorCodec().Decode(stored)
	if err != nil {
		return nil, fmt.Errorf("%w of the enumerator: %w: a source of another kind needs another id, or --fresh", state.ErrIncompatible, err)
	}
	return &v, nil
}

func (b sourceBody[T, S, E]) checkSplits(stored *codec.Format) error {
	if now := b.src.SplitCodec().Format(); stored != nil && stored.ID != now.ID {
		return fmt.Errorf("%w: its splits are stored as %s, the source has %s: a source of another kind needs another id, or --fresh",
			state.ErrIncompatible, stored.ID, now.ID)
	}
	return nil
}

func (b sourceBody[T, S, E]) decodeSplits(stored [][]byte) ([]S, error) {
	c := b.src.SplitCodec()
	splits := make([]S, len(stored))
	for i, d := range stored {
		s, err := c.Decode(d)
		if err != nil {
			return nil, fmt.Errorf("split: %w: %w", state.ErrIncompatible, err)
		}
		splits[i] = s
	}
	return splits, nil
}

func (b sourceBody[T, S, E]) NewEnumerator(c stage.EnumeratorContext, restored []byte) (stage.Enumerator, error) {
	from, err := b.decodeEnumerator(restored)
	if err != nil {
		return nil, err
	}
	inner, err := b.src.NewEnumerator(enumeratorContext[S]{c, b.src.SplitCodec()}, from)
	if err != nil {
		return nil, err
	}
	return &enumerator[S, E]{inner: inner, codec: b.src.EnumeratorCodec(), decode: b.decodeSplits}, nil
}

// DescribeSplit implements stage.SplitDescriber.
func (b sourceBody[T, S, E]) DescribeSplit(data []byte) (id, position string, err error) {
	s, err := b.src.SplitCodec().Decode(data)
	if err != nil {
		return "", "", err
	}
	if p, ok := any(s).(interface{ Position() string }); ok {
		return s.SplitID(), p.Position(), nil
	}
	return s.SplitID(), fmt.Sprintf("%+v", s), nil
}

// enumerator erases the types of an enumerator.
type enumerator[S connector.Split, E any] struct {
	inner  connector.Enumerator[S, E]
	codec  codec.Codec[E]
	decode func([][]byte) ([]S, error)
}

func (e *enumerator[S, E]) Start() error                      { return e.inner.Start() }
func (e *enumerator[S, E]) AddReader(subtask int) error       { return e.inner.AddReader(subtask) }
func (e *enumerator[S, E]) CheckpointComplete(id int64) error { return e.inner.CheckpointComplete(id) }
func (e *enumerator[S, E]) Close() error                      { return e.inner.Close() }

func (e *enumerator[S, E]) AddSplitsBack(encoded [][]byte, subtask int) error {
	splits, err := e.decode(encoded)
	if err != nil {
		return err
	}
	return e.inner.AddSplitsBack(splits, subtask)
}

func (e *enumerator[S, E]) Message(m stage.ReaderMessage) error {
	if m.Request {
		return e.inner.HandleSplitRequest(m.Subtask, m.Host)
	}
	return e.inner.HandleSourceEvent(m.Subtask, m.Event)
}

func (e *enumerator[S, E]) Snapshot(id int64) ([]byte, error) {
	v, err := e.inner.Snapshot(id)
	if err != nil {
		return nil, err
	}
	return e.codec.Append(nil, v)
}

// enumeratorContext encodes the splits an enumerator assigns.
type enumeratorContext[S connector.Split] struct {
	stage.EnumeratorContext
	codec codec.Codec[S]
}

func (c enumeratorContext[S]) Assign(subtask int, splits ...S) error {
	e := stage.SourceEvent{Splits: make([][]byte, len(splits))}
	for i, s := range splits {
		d, err := c.codec.Append(nil, s)
		if err != nil {
			return fmt.Errorf("split %q: %w", s.SplitID(), err)
		}
		e.Splits[i] = d
	}
	return c.Send(subtask, e)
}

func (c enumeratorContext[S]) NoMoreSplits(subtask int) error {
	return c.Send(subtask, stage.SourceEvent{NoMoreSplits: true})
}

func (c enumeratorContext[S]) SendEvent(subtask int, event any) error {
	return c.Send(subtask, stage.SourceEvent{Custom: event})
}

// sourceOp drives a source's reader.
type sourceOp[T any, S connector.Split, E any] struct {
	base
	body   sourceBody[T, S, E]
	codec  codec.Codec[S]
	reader connector.Reader[T, S]
	emit   *stage.Emitter[T]
	out    *connector.Output[T]
	splits *watermark.Splits[T]
	active func()
	align  aligner

	// rest is what a punctuated watermark cut off the last batch.
	rest   stage.Rows[T]
	status connector.Status

	hold hold
}

func (o *sourceOp[T, S, E]) Connect(_ string, to any) error {
	if o.emit == nil {
		o.emit = stage.NewEmitter[T]()
	}
	return o.emit.Connect(to)
}

func (o *sourceOp[T, S, E]) OnActive(f func()) { o.active = f }

func (o *sourceOp[T, S, E]) Open(c *stage.Context) error {
	if err := o.base.Open(c); err != nil {
		return err
	}
	if o.emit == nil {
		o.emit = stage.NewEmitter[T]()
	}
	o.emit.CountInto(&c.Metrics.RecordsOut)
	limit := stage.BatchLimit[T]()
	if c.PollLimit > 0 {
		limit = min(limit, c.PollLimit)
	}
	o.out = connector.NewOutput[T](limit)
	if c.Batch {
		o.body.strategy = o.body.strategy.TimestampsOnly()
	}
	o.splits = watermark.NewSplits(o.body.strategy)
	o.align.join(c, o.body.strategy.Alignment())
	o.codec = o.body.src.SplitCodec()
	r, err := o.body.src.NewReader(readerContext{c})
	if err != nil {
		return o.fail(err)
	}
	o.reader = r
	if err := r.Start(); err != nil {
		return o.fail(err)
	}
	if c.Restore == nil {
		return nil
	}
	if err := o.body.checkSplits(c.Restore.SplitFormat); err != nil {
		return o.fail(err)
	}
	return o.addSplits(c.Restore.Splits)
}

func (o *sourceOp[T, S, E]) addSplits(encoded [][]byte) error {
	if len(encoded) == 0 {
		return nil
	}
	splits, err := o.body.decodeSplits(encoded)
	if err != nil {
		return o.fail(err)
	}
	for _, s := range splits {
		o.splits.Add(s.SplitID())
	}
	if err := o.reader.AddSplits(splits); err != nil {
		return o.fail(err)
	}
	return nil
}

func (o *sourceOp[T, S, E]) Event(e stage.SourceEvent) error {
	var err error
	switch {
	case e.Splits != nil:
		if len(e.Splits) == 0 {
			o.splits.Unassigned()
		}
		return o.addSplits(e.Splits)
	case e.NoMoreSplits:
		err = o.reader.NoMoreSplits()
	default:
		err = o.reader.HandleEvent(e.Custom)
	}
	if err != nil {
		return o.fail(err)
	}
	return nil
}

func (o *sourceOp[T, S, E]) Poll() (connector.Status, bool, error) {
	st, forward, err := o.poll()
	if st == connector.End {
		o.align.leave()
	}
	return st, forward, err
}

func (o *sourceOp[T, S, E]) poll() (connector.Status, bool, error) {
	if len(o.rest.Vals) > 0 {
		return o.pass(o.status)
	}
	if held, err := o.isHeld(); held || err != nil {
		return connector.Nothing, false, err
	}
	o.out.Reset()
	o.runs = anyCode
	st, err := o.reader.Poll(o.out)
	if err != nil {
		return st, false, o.fail(err)
	}
	for _, id := range o.out.OpenedSplits() {
		o.splits.Add(id)
	}
	n := len(o.out.Vals)
	st = o.hold.polled(st, n)
	if n == 0 {
		o.runs = noCode
		forward := o.finishSplits()
		return st, forward, nil
	}
	if len(o.out.Times) != n {
		return st, false, o.fail(fmt.Errorf("reader returned %d records with %d timestamps", n, len(o.out.Times)))
	}
	o.body.strategy.AssignAll(o.out.Vals, o.out.Times)
	o.rest.Vals, o.rest.Times = o.out.Vals, o.out.Times
	return o.pass(st)
}

// pass emits the records up to where the split's watermark wants to be
// forwarded.
func (o *sourceOp[T, S, E]) pass(st connector.Status) (connector.Status, bool, error) {
	rows, forward := o.rest, false
	o.runs = anyCode // the watermark generator
	if o.body.strategy.Generates() {
		step := o.splits.OnBatch(o.out.SplitID(), rows.Vals, rows.Times, o.ctx.Now())
		if step.Active {
			o.active()
		}
		rows.Vals, rows.Times = rows.Vals[:step.Taken], rows.Times[:step.Taken]
		forward = step.Forward
	}
	o.runs = noCode
	err := o.emit.Pass(&rows)
	n := len(rows.Vals)
	o.rest.Vals, o.rest.Times = o.rest.Vals[n:], o.rest.Times[n:]
	o.status = st
	if len(o.rest.Vals) > 0 {
		return connector.More, forward, err
	}
	return st, o.finishSplits() || forward, err
}

func (o *sourceOp[T, S, E]) finishSplits() bool {
	ids := o.out.FinishedSplits()
	for _, id := range ids {
		o.splits.Release(id)
		o.ctx.Metrics.DropGauges(id)
	}
	return len(ids) > 0
}

func (o *sourceOp[T, S, E]) Watermark(now int64, backPressured bool) (int64, bool) {
	o.splits.Tick(now, !backPressured && !o.align.wasHeld && !o.hold.stood())
	o.splits.Advance()
	o.align.report(now, o.splits.Watermark(), o.splits.Idle())
	if n := o.splits.Ahead(); n > 0 {
		o.ctx.Metrics.Counter("recordsAhead").Store(n)
	}
	return o.splits.Watermark(), o.splits.Idle()
}

func (o *sourceOp[T, S, E]) Flush() error { return o.emit.Flush() }

func (o *sourceOp[T, S, E]) Pending() bool { return len(o.rest.Vals) > 0 }

func (o *sourceOp[T, S, E]) Snapshot(b *stage.Barrier) (stage.Part, error) {
	splits, err := o.reader.Snapshot(b.ID)
	if err != nil {
		return stage.Part{}, o.fail(err)
	}
	f := o.codec.Format()
	p := stage.Part{SplitFormat: &f, Splits: make([][]byte, len(splits))}
	for i, s := range splits {
		if p.Splits[i], err = o.codec.Append(nil, s); err != nil {
			return stage.Part{}, o.fail(fmt.Errorf("split %q: %w", s.SplitID(), err))
		}
	}
	return p, nil
}

func (o *sourceOp[T, S, E]) CheckpointComplete(id int64) error {
	if err := o.reader.CheckpointComplete(id); err != nil {
		return o.fail(err)
	}
	return nil
}

func (o *sourceOp[T, S, E]) Close() error {
	o.align.leave()
	if o.reader == nil {
		return nil
	}
	if err := o.reader.Close(); err != nil {
		return o.fail(err)
	}
	return nil
}

// readerContext is a connector.ReaderContext over an operator's context.
type readerContext struct{ c *stage.Context }

func (r readerContext) Context() context.Context   { return r.c.Context }
func (r readerContext) Logger() *slog.Logger       { return r.c.Logger }
func (r readerContext) Subtask() int               { return r.c.Subtask }
func (r readerContext) Parallelism() int           { return r.c.Parallelism }
func (r readerContext) Wake()                      { r.c.Wake() }
func (r readerContext) Count(name string, n int64) { r.c.Metrics.Counter(name).Add(n) }
func (r readerContext) SendEvent(event any) {
	r.c.ToEnumerator(stage.ReaderMessage{Subtask: r.c.Subtask, Event: event})
}

func (r readerContext) RequestSplit() {
	r.c.ToEnumerator(stage.ReaderMessage{Subtask: r.c.Subtask, Request: true, Host: r.Host()})
}

func (r readerContext) Host() string {
	host, _ := os.Hostname()
	return host
}

func (r readerContext) Config() connector.Config { return r.c.Config() }

func (r readerContext) SetGauge(name, split string, value int64) {
	r.c.Metrics.SetGauge(stage.GaugeID{Name: name, Split: split}, value)
}
