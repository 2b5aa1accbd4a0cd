package stream

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/state"
)

// Processor is a function on a keyed stream. Its state and timers, declared
// by its constructor, are those of the record's key. See Process for the
// hooks it may have besides.
type Processor[K comparable, In, Out any] interface {
	// Process handles a record. Its error fails the attempt: the job restarts
	// from its last checkpoint, or ends. ctx is valid during the call only.
	Process(ctx *Ctx[K, Out], v In) error
}

// NoKey is the key type of functions on streams without keys.
type NoKey struct{}

// Process applies a function with state to a keyed stream. newP is run once
// here, to learn what state there is, and once in every subtask; it opens
// nothing and keeps what it declares. Besides Process the function may have
//
//	Initialize(*Runtime) error              state is there, restored or empty
//	Open(*Runtime) error                    after Initialize
//	OnTimer(*Ctx[K, Out], time.Time) error  a timer is due; required if timers are declared
//	Snapshot() error                        a snapshot follows: write what is buffered into handles
//	EndInput(*Ctx[K, Out]) error            the input has ended; operator state only, no current key
//	Close() error                           always, also after a failure
//
// EndInput runs once per subtask. After a start from a snapshot before which it
// had run in all of them it does not run again, unless further records come. If
// it had run in some, and the parallelism is another one, it runs in all: a
// function should remove from its state what EndInput has emitted.
func Process[K comparable, In, Out any, P Processor[K, In, Out]](s Keyed[K, In], id string, newP func(*state.Registry) P, opts ...Option) Stream[Out] {
	n := apply(s.stream.job, &graph.Node{
		ID: id, Kind: "process", Role: graph.Operator, Stateful: true, Keyed: true, Inputs: keyedEdges(s),
	}, opts)
	b := processBody[K, In, Out, P]{newP: newP, sides: sides{}, keyed: true}
	if err := b.declare(n.ID); err != nil {
		s.stream.job.failf(n.Site, "%w", err)
	}
	n.Body = &b
	return from[Out](s.stream.job, s.stream.job.add(n))
}

// ProcessUnkeyed applies a function to a stream without keys. It may declare
// operator state, but no keyed state and no timers; hooks are those of
// Process.
func ProcessUnkeyed[In, Out any, P Processor[NoKey, In, Out]](s Stream[In], id string, newP func(*state.Registry) P, opts ...Option) Stream[Out] {
	n := apply(s.job, &graph.Node{
		ID: id, Kind: "process", Role: graph.Operator, Stateful: true, Inputs: edges(s),
	}, opts)
	b := processBody[NoKey, In, Out, P]{newP: newP, sides: sides{}}
	if err := b.declare(n.ID); err != nil {
		s.job.failf(n.Site, "%w", err)
	}
	n.Body = &b
	return from[Out](s.job, s.job.add(n))
}

type processBody[K comparable, In, Out any, P Processor[K, In, Out]] struct {
	sides
	newP func(*state.Registry) P
	// keyed and broadcast say what inputs there are.
	keyed, broadcast bool
	reg              *state.Registry
}

// declare runs the constructor once and checks what it declares.
func (b *processBody[K, In, Out, P]) declare(id string) error {
	b.reg = state.NewRegistry(id)
	if b.newP == nil {
		return fmt.Errorf("operator %q: its constructor is nil", id)
	}
	fn := b.newP(b.reg)
	if v := reflect.ValueOf(fn); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.Join(b.reg.Err(), fmt.Errorf("operator %q: its constructor returns nil", id))
	}
	h, err := hooksOf[K, Out](fn)
	var errs []error
	if err != nil {
		errs = append(errs, err)
	}
	timers := len(b.reg.TimerDomains()) > 0
	if timers && h.onTimer == nil && err == nil {
		errs = append(errs, fmt.Errorf("timers are declared, but %T has no method OnTimer(*stream.Ctx, time.Time) error", fn))
	}
	if !b.keyed && (timers || len(b.reg.Fields()) > 0 || len(b.reg.RawStates()) > 0) {
		errs = append(errs, errors.New("keyed state or timers are declared on a stream without keys: apply KeyBy first, or use operator state"))
	}
	if !b.broadcast && b.reg.HasBroadcast() {
		errs = append(errs, errors.New("broadcast state is declared by a function without a broadcast input: use KeyedBroadcastProcess or BroadcastProcess"))
	}
	err = errors.Join(errs...)
	if err != nil {
		err = fmt.Errorf("operator %q: %w", id, err)
	}
	return errors.Join(b.reg.Err(), err) // the registry names the operator itself
}

// CheckRestore implements stage.RestoreChecker.
func (b *processBody[K, In, Out, P]) CheckRestore(op *snapshot.Operator) error {
	var errs []error
	for _, s := range op.Subtasks {
		if err := b.reg.CheckLists(s.Lists); err != nil {
			errs = append(errs, err) // the others have the same lists
			break
		}
	}
	if b.keyed {
		errs = append(errs, checkKeyed[K](op.ID, op.KeyFormat, op.States, b.reg.Check))
	} else {
		errs = append(errs, b.reg.Check(op.States)) // it has none: all are refused
	}
	return errors.Join(errs...)
}

// RestoreNotes implements stage.RestoreNoter.
func (b *processBody[K, In, Out, P]) RestoreNotes(op *snapshot.Operator) []string {
	return state.Notes(op.ID, b.reg.Fields(), op.States)
}

// DeclaresState implements stage.StateDeclarer.
func (b *processBody[K, In, Out, P]) DeclaresState(name string) bool { return b.reg.Declares(name) }

// Fields and RawStates are the declared keyed states, for tests that look into
// them.
func (b *processBody[K, In, Out, P]) Fields() []*entry.Field      { return b.reg.Fields() }
func (b *processBody[K, In, Out, P]) RawStates() []snapshot.State { return b.reg.RawStates() }

func (b *processBody[K, In, Out, P]) NewOperator() stage.Operator {
	op := b.newProcessOp()
	if b.keyed {
		return &keyedOp[K, In, Out, P]{processOp: op}
	}
	return op
}

func (b *processBody[K, In, Out, P]) newProcessOp() *processOp[K, In, Out, P] {
	op := &processOp[K, In, Out, P]{body: b}
	op.ctx.out = newOutputs[Out](b.sides)
	return op
}

// processOp drives a function on a stream without keys; keyedOp builds on it.
type processOp[K comparable, In, Out any, P Processor[K, In, Out]] struct {
	base
	body  *processBody[K, In, Out, P]
	reg   *state.Registry
	cur   entry.Cursor
	fn    P
	hooks hooks[K, Out]
	ctx   Ctx[K, Out]
}

func (o *processOp[K, In, Out, P]) Input() any { return o }
func (o *processOp[K, In, Out, P]) Connect(tag string, to any) error {
	return o.ctx.out.Connect(tag, to)
}
func (o *processOp[K, In, Out, P]) Flush() error { return o.ctx.out.flush() }

func (o *processOp[K, In, Out, P]) Open(c *stage.Context) error {
	if err := o.bind(c); err != nil {
		return err
	}
	return o.initialize()
}

// bind runs the constructor and restores operator state.
func (o *processOp[K, In, Out, P]) bind(c *stage.Context) (err error) {
	o.base.ctx, o.ctx.op, o.ctx.wm = c, c, math.MinInt64
	o.runs = anyCode // until initialize has
	o.ctx.out.main.CountInto(&c.Metrics.RecordsOut)
	o.reg = o.body.reg.Bind(&o.cur)
	o.fn = o.body.newP(o.reg)
	if err := o.reg.Err(); err != nil {
		return err
	}
	if o.hooks, err = hooksOf[K, Out](o.fn); err != nil {
		return o.fail(err)
	}
	if c.Restore != nil {
		return o.reg.RestoreLists(c.Restore.Lists)
	}
	return nil
}

func (o *processOp[K, In, Out, P]) initialize() error {
	rt := &Runtime{op: o.base.ctx, restored: o.base.ctx.Restore != nil}
	if o.hooks.initialize != nil {
		o.reg.AllowBroadcast(true)
		if err := o.hooks.initialize.Initialize(rt); err != nil {
			return o.fail(err)
		}
		o.reg.AllowBroadcast(false)
	}
	if o.hooks.open != nil {
		if err := o.hooks.open.Open(rt); err != nil {
			return o.fail(err)
		}
	}
	o.runs = noCode
	return nil
}

// Receive implements stage.Receiver.
func (o *processOp[K, In, Out, P]) Receive(b *stage.Rows[In]) error {
	o.count(len(b.Vals))
	o.runs = anyCode
	for i := range b.Vals {
		o.ctx.time = b.Times[i]
		if err := o.fn.Process(&o.ctx, b.Vals[i]); err != nil {
			return o.fail(err)
		}
	}
	o.runs = noCode
	return o.ctx.out.main.Err()
}

func (o *processOp[K, In, Out, P]) Advance(wm int64, _ int) (bool, error) {
	o.ctx.wm = wm
	return false, nil
}

func (o *processOp[K, In, Out, P]) PrepareSnapshot(*stage.Barrier) error {
	if o.hooks.snapshot == nil {
		return nil
	}
	return o.run(o.hooks.snapshot.Snapshot)
}

func (o *processOp[K, In, Out, P]) Snapshot(*stage.Barrier) (stage.Part, error) {
	o.runs = anyCode // codecs
	lists, err := o.reg.SnapshotLists()
	o.runs = noCode
	return stage.Part{Lists: lists}, err
}

func (o *processOp[K, In, Out, P]) EndInput() error {
	if o.hooks.endInput == nil || o.base.ctx.Over() {
		return nil
	}
	return o.run(func() error { return o.hooks.endInput.EndInput(&o.ctx) })
}

func (o *processOp[K, In, Out, P]) Close() error {
	if o.hooks.close == nil {
		return nil
	}
	if err := o.hooks.close.Close(); err != nil {
		return o.fail(err)
	}
	return nil
}

// keyedOp drives a function on a keyed stream.
type keyedOp[K comparable, In, Out any, P Processor[K, In, Out]] struct {
	*processOp[K, In, Out, P]
	store *heap.Store[K]
	fire  func(at int64) error
	// fired counts down the timers to the next reading of the TTL clock.
	fired int
}

func (o *keyedOp[K, In, Out, P]) Input() any { return o }

func (o *keyedOp[K, In, Out, P]) Open(c *stage.Context) (err error) {
	if err := o.bind(c); err != nil {
		return err
	}
	fields := o.reg.Fields()
	for _, d := range o.reg.TimerDomains() {
		fields = append(fields, heap.NewTimerField(d))
	}
	o.reg.BindGroups(groupsOf(c), c.MaxParallelism)
	if o.store, err = openStore[K](c, &o.cur, fields, o.reg.Check, o.reg.RestoreRaw); err != nil {
		return err
	}
	o.fire = o.onTimer
	return o.initialize()
}

// ReceiveKeyed implements stage.KeyedReceiver.
func (o *keyedOp[K, In, Out, P]) ReceiveKeyed(b *stage.KeyedRows[K, In]) error {
	o.count(len(b.Vals))
	o.store.Bind(b.Keys, b.Hashes)
	tick := o.store.Pace()
	o.runs = keyCode
	for i := range b.Vals {
		if i == tick {
			tick += o.store.Tick()
		}
		o.store.Seek(i)
		o.ctx.key, o.ctx.time = b.Keys[i], b.Times[i]
		if err := o.fn.Process(&o.ctx, b.Vals[i]); err != nil {
			return o.failKey(err)
		}
	}
	o.runs = noCode
	o.store.Release()
	return o.ctx.out.main.Err()
}

// Key implements stage.Witness.
func (o *keyedOp[K, In, Out, P]) Key() string { return fmt.Sprint(o.ctx.key) }

func (o *keyedOp[K, In, Out, P]) failKey(err error) error {
	return o.fail(fmt.Errorf("key %v: %w", o.ctx.key, err))
}

func (o *keyedOp[K, In, Out, P]) Advance(wm int64, budget int) (bool, error) {
	o.ctx.wm, o.ctx.domain, o.runs = wm, EventTime, keyCode
	_, more, err := o.store.AdvanceEventTime(wm, budget, o.fire)
	o.runs = noCode
	return more, err
}

func (o *keyedOp[K, In, Out, P]) ProcessingTime(now int64, budget int) (bool, error) {
	if o.base.ctx.Batch { // the input has ended
		o.store.SealProcessingTimers()
	}
	o.ctx.domain, o.runs = ProcessingTime, keyCode
	_, more, err := o.store.AdvanceProcessingTime(now, budget, o.fire)
	o.runs = noCode
	return more, err
}

func (o *keyedOp[K, In, Out, P]) NextProcessingTime() (int64, bool) {
	return o.store.NextProcessingTimer()
}

// onTimer runs the hook for a timer of the current entry.
func (o *keyedOp[K, In, Out, P]) onTimer(at int64) error {
	if o.fired--; o.fired <= 0 {
		o.fired = o.store.Tick()
	}
	o.ctx.key, o.ctx.time = o.store.Key(), at
	if err := o.hooks.onTimer.OnTimer(&o.ctx, time.UnixMilli(at).UTC()); err != nil {
		return o.failKey(err)
	}
	return nil
}

func (o *keyedOp[K, In, Out, P]) Snapshot(b *stage.Barrier) (stage.Part, error) {
	p, err := o.processOp.Snapshot(b)
	if err == nil {
		p.Keyed = newKeyedPart(o.store, o.reg.FreezeRaw()...)
	}
	return p, err
}

func (o *keyedOp[K, In, Out, P]) EndInput() error {
	if n := o.store.DropProcessingTimers(); n > 0 {
		o.base.ctx.Metrics.Counter("processingTimersDropped").Add(int64(n))
	}
	return o.processOp.EndInput()
}

func (o *keyedOp[K, In, Out, P]) Close() error {
	o.cur.P = nil // after a failure there still is a current key
	if o.store != nil {
		defer o.store.Close() // also if the function panics: memory outlives attempts
	}
	return o.processOp.Close()
}
