package stream

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/pane"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/window"
)

// AllowedLateness keeps windows for d after their end: a record that comes
// late, but within d, makes its windows fire again at once, with the updated
// result. Default 0.
func AllowedLateness(d time.Duration) Option {
	return option(func(s *settings) { s.lateness = d })
}

// LateTo sends records that come too late for all their windows to a side
// output (see SideOutput) instead of dropping them. They are counted anyway.
func LateTo[In any](tag Tag[In]) Option {
	return option(func(s *settings) {
		s.lateTag, s.lateType, s.lateSide = tag.name, reflect.TypeFor[In](), newSide[In]
	})
}

// MigrateAccumulator lets an Aggregate restore windows whose accumulators were
// stored as another type, or by another aggregate: convert makes an accumulator
// of the present type. It is as state.Migrate otherwise.
func MigrateAccumulator[Old, New any](convert func(Old) (New, error)) Option {
	return option(func(s *settings) { s.migrations = append(s.migrations, state.Migrate(convert)) })
}

// Aggregate computes an aggregate per key and event-time window. A window
// fires when the watermark has passed its last millisecond, and emits what
// emit makes of key, window and result, with the time of that millisecond; a
// window without records emits nothing.
func Aggregate[K comparable, In, Acc, Mid, Out any](s Keyed[K, In], id string, w window.Assigner,
	a agg.Aggregator[In, Acc, Mid], emit func(key K, w window.Span, result Mid) Out, opts ...Option) Stream[Out] {
	n := &graph.Node{
		ID: id, Kind: "aggregate", Role: graph.Operator, Stateful: true, Keyed: true, Inputs: keyedEdges(s),
	}
	set := settle(s.stream.job, n, opts)
	n.Options = map[string]string{"window": w.String(), "aggregate": a.Kind(), "allowed lateness": set.lateness.String()}
	b := &aggregateBody[K, In, Acc, Mid, Out]{
		sides: sides{}, windows: w, agg: a, emit: emit, lateness: set.lateness, lateTag: set.lateTag,
		migrations: set.migrations,
	}
	j := s.stream.job
	if emit == nil {
		j.failf(n.Site, "operator %q: emit is nil", n.ID)
	}
	if err := agg.Err(a); err != nil {
		j.failf(n.Site, "operator %q: %w", n.ID, err)
	} else if err := state.CheckMigrations[Acc](set.migrations...); err != nil {
		j.failf(n.Site, "operator %q: %w", n.ID, err)
	} else if _, err := b.pane(); err != nil {
		j.failf(n.Site, "operator %q: %w", n.ID, err)
	}
	if set.lateTag != "" {
		if set.lateType != reflect.TypeFor[In]() {
			j.failf(n.Site, "operator %q: the tag for late records is of %v, the records are %v", n.ID, set.lateType, reflect.TypeFor[In]())
		} else if err := b.side(set.lateTag, set.lateSide); err != nil {
			j.failf(n.Site, "operator %q: %w", n.ID, err)
		}
	}
	n.Body = b
	return from[Out](j, j.add(n))
}

type aggregateBody[K comparable, In, Acc, Mid, Out any] struct {
	sides
	windows  window.Assigner
	agg      agg.Aggregator[In, Acc, Mid]
	emit     func(K, window.Span, Mid) Out
	lateness time.Duration
	lateTag  string
	// migrations are options of state.Migrate.
	migrations []state.Option
}

// side refuses tags to which nothing would ever be emitted.
func (b *aggregateBody[K, In, Acc, Mid, Out]) side(tag string, make func() side) error {
	switch {
	case b.lateTag == "":
		return fmt.Errorf("nothing is emitted to tag %q: the option LateTo is missing", tag)
	case tag != b.lateTag:
		return fmt.Errorf("nothing is emitted to tag %q: the tag for late records is %q", tag, b.lateTag)
	}
	return b.sides.side(tag, make)
}

func (b *aggregateBody[K, In, Acc, Mid, Out]) pane() (*pane.Store[Acc], error) {
	return pane.New(pane.Config[Acc]{
		Name: "windows", Windows: b.windows, Lateness: b.lateness,
		Kind: b.agg.Kind(), Init: b.agg.Init, Merge: b.agg.Merge,
		Convert: func(stored codec.Format, same bool) (int, entry.Conversion, error) {
			return state.Accumulator(stored, same, b.agg.Init, b.migrations...)
		},
	})
}

// fieldsOf are the keyed states of an aggregate.
func fieldsOf[Acc any](p *pane.Store[Acc]) []*entry.Field {
	return []*entry.Field{p.Field(), heap.NewTimerField(entry.EventTime)}
}

func checkFields(operator string, fields []*entry.Field) func([]snapshotState) error {
	return func(stored []snapshotState) error { return state.CheckFields(operator, fields, stored) }
}

// CheckRestore implements stage.RestoreChecker.
func (b *aggregateBody[K, In, Acc, Mid, Out]) CheckRestore(op *snapshot.Operator) error {
	p, err := b.pane()
	if err != nil {
		return err
	}
	return checkKeyed[K](op.ID, op.KeyFormat, op.States, checkFields(op.ID, fieldsOf(p)))
}

// RestoreNotes implements stage.RestoreNoter.
func (b *aggregateBody[K, In, Acc, Mid, Out]) RestoreNotes(op *snapshot.Operator) []string {
	p, err := b.pane()
	if err != nil {
		return nil
	}
	return state.Notes(op.ID, fieldsOf(p), op.States)
}

// DeclaresState implements stage.StateDeclarer.
func (b *aggregateBody[K, In, Acc, Mid, Out]) DeclaresState(name string) bool {
	p, err := b.pane()
	return err == nil && slices.ContainsFunc(fieldsOf(p), func(f *entry.Field) bool { return f.Name == name })
}

func (b *aggregateBody[K, In, Acc, Mid, Out]) NewOperator() stage.Operator {
	return &aggregateOp[K, In, Acc, Mid, Out]{body: b, out: newOutputs[Out](b.sides)}
}

// aggregateOp keeps the slices of a key's windows in its entry and one timer
// per key: for the next window to fire or slice to expire.
type aggregateOp[K comparable, In, Acc, Mid, Out any] struct {
	base
	body     *aggregateBody[K, In, Acc, Mid, Out]
	out      outputs[Out]
	late     *stage.Emitter[In]
	windows  window.Assigner
	lateness int64
	cur      entry.Cursor
	panes    *pane.Store[Acc]
	store    *heap.Store[K]
	fire     func(at int64) error
	fired    K // the key whose window was emitted last

	// wm is the bound for lateness: the watermark, or that of the snapshot
	// while it is ahead.
	wm int64
	// slice is the start of the slice located last, expiry the watermark at
	// which it is too late for all its windows.
	slice, expiry int64
	located       bool
}

func (o *aggregateOp[K, In, Acc, Mid, Out]) Input() any { return o }
func (o *aggregateOp[K, In, Acc, Mid, Out]) Connect(tag string, to any) error {
	return o.out.Connect(tag, to)
}
func (o *aggregateOp[K, In, Acc, Mid, Out]) Flush() error { return o.out.flush() }

func (o *aggregateOp[K, In, Acc, Mid, Out]) Open(c *stage.Context) (err error) {
	o.ctx, o.wm = c, math.MinInt64
	o.out.main.CountInto(&c.Metrics.RecordsOut)
	o.windows, o.lateness, o.fire = o.body.windows, o.body.lateness.Milliseconds(), o.onTimer
	if s, ok := o.out.sides[o.body.lateTag]; ok {
		o.late = s.(*stage.Emitter[In])
	}
	if o.panes, err = o.body.pane(); err != nil {
		return o.fail(err)
	}
	o.panes.Bind(&o.cur)
	fields := fieldsOf(o.panes)
	if o.store, err = openStore[K](c, &o.cur, fields, checkFields(c.Operator, fields), nil); err != nil {
		return err
	}
	if c.Restore != nil && c.Restore.Watermark != nil {
		o.wm = *c.Restore.Watermark
		c.Logger.Info("records late before the restored snapshot stay late", "watermark", o.wm)
	}
	return nil
}

// ReceiveKeyed implements stage.KeyedReceiver.
func (o *aggregateOp[K, In, Acc, Mid, Out]) ReceiveKeyed(b *stage.KeyedRows[K, In]) error {
	o.count(len(b.Vals))
	o.store.Bind(b.Keys, b.Hashes)
	o.runs = keyCode
	for i, ts := range b.Times {
		start, ok := o.panes.Locate(ts)
		if !ok {
			if err := o.outside(ts); err != nil {
				return err
			}
			continue
		}
		if !o.located || start != o.slice {
			o.locate(start)
		}
		if o.expiry <= o.wm {
			o.tooLate(b.Vals[i], ts)
			continue
		}
		o.store.Seek(i)
		had := o.panes.Len()
		acc := o.panes.At(start)
		if err := o.body.agg.Add(acc, b.Vals[i]); err != nil {
			return o.fail(fmt.Errorf("key %v: %w", b.Keys[i], err))
		}
		o.panes.Keep()
		if o.panes.Len() != had {
			o.schedule(start)
		}
		if o.lateness > 0 && o.wm >= start {
			if err := o.refire(b.Keys[i], ts); err != nil {
				return err
			}
		}
	}
	o.runs = noCode
	o.store.Release()
	return o.out.main.Err()
}

// Key implements stage.Witness.
func (o *aggregateOp[K, In, Acc, Mid, Out]) Key() string {
	if o.cur.P == nil { // timers fire, and the store has let go of the key
		return fmt.Sprint(o.fired)
	}
	return fmt.Sprint(o.store.Key())
}

func (o *aggregateOp[K, In, Acc, Mid, Out]) locate(start int64) {
	end, _ := o.windows.LastEnd(start)
	o.slice, o.located = start, true
	o.expiry = window.Span{End: end}.Expiry(o.lateness)
}

// outside handles a record that is in no window: between two of them, which
// is right, or without a usable time, which is not.
func (o *aggregateOp[K, In, Acc, Mid, Out]) outside(ts int64) error {
	err := o.windows.Check(ts)
	if err == nil {
		o.ctx.Metrics.Counter("recordsInNoWindow").Add(1)
		return nil
	}
	if errors.Is(err, window.ErrNoTimestamp) || ts == connector.NoTimestamp {
		return o.fail(fmt.Errorf("%w (stream.From takes a watermark strategy with one, for example watermark.Bounded)", err))
	}
	return o.fail(err)
}

func (o *aggregateOp[K, In, Acc, Mid, Out]) tooLate(v In, ts int64) {
	o.ctx.Metrics.Late.Add(1)
	if o.late != nil {
		o.late.Emit(v, ts)
	}
}

// schedule sets the key's timer for a new slice, unless an earlier one is set
// already, which will set it.
func (o *aggregateOp[K, In, Acc, Mid, Out]) schedule(start int64) {
	at, ok := o.due(start)
	if !ok {
		return
	}
	if next, set := o.store.NextTimer(entry.EventTime); !set || at < next {
		o.cur.Timers.Set(entry.EventTime, at)
	}
}

// due is when something is to be done for a slice: its next window fires, or
// it expires.
func (o *aggregateOp[K, In, Acc, Mid, Out]) due(start int64) (at int64, ok bool) {
	after := o.wm
	if after < math.MaxInt64 {
		after++ // windows that end at wm+1 have fired
	}
	if end, ok := o.windows.EndAfter(start, after); ok {
		return end - 1, true
	}
	return o.expiry, o.lateness > 0
}

// refire emits again the windows of a late record that have fired.
func (o *aggregateOp[K, In, Acc, Mid, Out]) refire(key K, ts int64) error {
	for w := range o.windows.Windows(ts) {
		if w.MaxTimestamp() <= o.wm && w.Expiry(o.lateness) > o.wm {
			if err := o.emitWindow(key, w); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *aggregateOp[K, In, Acc, Mid, Out]) emitWindow(key K, w window.Span) error {
	o.fired = key
	acc, ok, err := o.panes.Window(w)
	if err != nil {
		return o.fail(fmt.Errorf("key %v, window %v: %w", key, w, err))
	}
	if !ok {
		return nil
	}
	if n := agg.Skipped(o.body.agg, acc); n > 0 {
		o.ctx.Metrics.Counter("valuesLeftOut").Add(n)
	}
	if r, ok := o.body.agg.Result(acc); ok {
		o.out.main.Emit(o.body.emit(key, w, r), w.MaxTimestamp())
	}
	return nil
}

// onTimer fires the window that ends behind at, drops what has expired, and
// sets the key's next timer.
func (o *aggregateOp[K, In, Acc, Mid, Out]) onTimer(at int64) error {
	if end, ok := o.windows.FirstEnd(at); ok && end == at+1 {
		if err := o.emitWindow(o.store.Key(), o.windows.Ending(end)); err != nil {
			return err
		}
	}
	o.panes.Expire(at)
	next, ok := o.panes.NextEnd(at + 1)
	next--
	if o.lateness > 0 {
		if e, has := o.panes.NextExpiry(); has && (!ok || e < next) {
			next, ok = e, true
		}
	}
	if ok {
		o.cur.Timers.Set(entry.EventTime, next)
	}
	return nil
}

func (o *aggregateOp[K, In, Acc, Mid, Out]) Advance(wm int64, budget int) (bool, error) {
	o.wm, o.runs = max(o.wm, wm), keyCode
	_, more, err := o.store.AdvanceEventTime(wm, budget, o.fire)
	o.runs = noCode
	return more, err
}

func (o *aggregateOp[K, In, Acc, Mid, Out]) Snapshot(*stage.Barrier) (stage.Part, error) {
	p := stage.Part{Keyed: newKeyedPart[K](o.store)}
	if o.wm > math.MinInt64 && o.wm < math.MaxInt64 {
		wm := o.wm
		p.Watermark = &wm
	}
	return p, nil
}

func (o *aggregateOp[K, In, Acc, Mid, Out]) Close() error {
	if o.store != nil {
		o.store.Close()
	}
	return nil
}
