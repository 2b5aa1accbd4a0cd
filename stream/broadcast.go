package stream

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/state"
)

// BroadcastProcessor is a function on a stream that is connected to a broadcast
// one. Every subtask sees all records of the broadcast stream, and keeps what it
// needs of them in state.Broadcast.
type BroadcastProcessor[K comparable, In, B, Out any] interface {
	// Process handles a record of the first stream, as that of a Processor
	// does. Broadcast state is read-only here, as it is in OnTimer.
	Processor[K, In, Out]
	// ProcessBroadcast handles a record of the broadcast stream. It may write
	// broadcast state, and must do so in the same way in every subtask. No key
	// is current: Ctx.EachKey goes through them. What it emits, each subtask
	// emits.
	ProcessBroadcast(ctx *Ctx[K, Out], v B) error
}

// KeyedBroadcastProcess applies a function with state to a keyed stream and a
// broadcast one:
//
//	stream.KeyedBroadcastProcess(stream.Connect(keyed, stream.Broadcast(rules)), "id", newP)
//
// It is as Process, whose hooks and state the function may have; besides it may
// declare broadcast state, with state.BroadcastIn.
func KeyedBroadcastProcess[K comparable, In, B, Out any, P BroadcastProcessor[K, In, B, Out]](c Connected[Keyed[K, In], Stream[B]], id string, newP func(*state.Registry) P, opts ...Option) Stream[Out] {
	return broadcastProcess[K, In, B, Out](keyedEdges(c.first), c.second, id, newP, true, opts)
}

// BroadcastProcess is KeyedBroadcastProcess for a stream without keys. The function may
// declare operator and broadcast state, but no keyed state and no timers.
func BroadcastProcess[In, B, Out any, P BroadcastProcessor[NoKey, In, B, Out]](c Connected[Stream[In], Stream[B]], id string, newP func(*state.Registry) P, opts ...Option) Stream[Out] {
	return broadcastProcess[NoKey, In, B, Out](edges(c.first), c.second, id, newP, false, opts)
}

func broadcastProcess[K comparable, In, B, Out any, P BroadcastProcessor[K, In, B, Out]](first []graph.Edge, second Stream[B], id string, newP func(*state.Registry) P, keyed bool, opts []Option) Stream[Out] {
	j := second.job
	n := &graph.Node{ID: id, Kind: "broadcast process", Role: graph.Operator, Stateful: true, Keyed: keyed, Inputs: first}
	for _, e := range edges(second) {
		e.Second = true
		n.Inputs = append(n.Inputs, e)
	}
	apply(j, n, opts)
	for _, in := range second.inputs {
		if in.partition != graph.Broadcast {
			j.failf(n.Site, "operator %q: the second stream of Connect does not go to all subtasks; put it into stream.Broadcast", n.ID)
			break
		}
	}
	b := broadcastBody[K, In, B, Out, P]{processBody[K, In, Out, P]{newP: newP, sides: sides{}, keyed: keyed, broadcast: true}}
	if err := b.declare(n.ID); err != nil {
		j.failf(n.Site, "%w", err)
	}
	n.Body = &b
	return from[Out](j, j.add(n))
}

type broadcastBody[K comparable, In, B, Out any, P BroadcastProcessor[K, In, B, Out]] struct {
	processBody[K, In, Out, P]
}

func (b *broadcastBody[K, In, B, Out, P]) NewOperator() stage.Operator {
	op := b.newProcessOp()
	side := &broadcastSide[K, In, B, Out, P]{op: op}
	if !b.keyed {
		return &broadcastOp[K, In, B, Out, P]{op, side}
	}
	keyed := &keyedOp[K, In, Out, P]{processOp: op}
	side.each = keyed.eachKey
	return &keyedBroadcastOp[K, In, B, Out, P]{keyed, side}
}

// broadcastOp and keyedBroadcastOp drive a function with a broadcast input.
type (
	broadcastOp[K comparable, In, B, Out any, P BroadcastProcessor[K, In, B, Out]] struct {
		*processOp[K, In, Out, P]
		side *broadcastSide[K, In, B, Out, P]
	}
	keyedBroadcastOp[K comparable, In, B, Out any, P BroadcastProcessor[K, In, B, Out]] struct {
		*keyedOp[K, In, Out, P]
		side *broadcastSide[K, In, B, Out, P]
	}
)

// SecondInput implements stage.TwoInput.
func (o *broadcastOp[K, In, B, Out, P]) SecondInput() any { return o.side }

// SecondInput implements stage.TwoInput.
func (o *keyedBroadcastOp[K, In, B, Out, P]) SecondInput() any { return o.side }

// broadcastSide takes the records of the broadcast stream.
type broadcastSide[K comparable, In, B, Out any, P BroadcastProcessor[K, In, B, Out]] struct {
	op *processOp[K, In, Out, P]
	// each goes through the keys, nil if there are none.
	each func(func(K) error) error
}

// Receive implements stage.Receiver.
func (s *broadcastSide[K, In, B, Out, P]) Receive(b *stage.Rows[B]) error {
	o := s.op
	o.count(len(b.Vals))
	var none K
	o.ctx.key, o.ctx.each, o.runs = none, s.each, anyCode
	o.reg.AllowBroadcast(true)
	for i := range b.Vals {
		o.ctx.time = b.Times[i]
		if err := o.fn.ProcessBroadcast(&o.ctx, b.Vals[i]); err != nil {
			return o.fail(err)
		}
	}
	o.reg.AllowBroadcast(false)
	o.ctx.each, o.runs = nil, noCode
	return o.ctx.out.main.Err()
}

var errEachKey = errors.New("EachKey can be called in ProcessBroadcast of a function on a keyed stream, and not within itself")

// EachKey calls fn for each key of the subtask that holds keyed state or timers,
// in no particular order: the key is the current one during the call, and
// its state can be read and written. State that has expired may be listed still;
// it reads as none. The first error of fn ends it and is returned, with the key.
//
// It may be called in ProcessBroadcast only. Until it returns the subtask does
// nothing else; with state below memory every key is read from disk.
func (c *Ctx[K, Out]) EachKey(fn func(key K) error) error {
	if c.each == nil {
		return errEachKey
	}
	each := c.each
	c.each = nil
	err := each(fn)
	c.each = each
	return err
}

// eachBatch is how many keys are looked up together.
const eachBatch = 256

// eachKey makes each key the current one.
func (o *keyedOp[K, In, Out, P]) eachKey(fn func(K) error) error {
	groups := groupsOf(o.base.ctx)
	for g := groups.First; g <= groups.Last; g++ {
		keys, hashes := o.store.Keys(g)
		for len(keys) > 0 {
			n := min(len(keys), eachBatch)
			if err := o.visit(keys[:n], hashes[:n], fn); err != nil {
				return err
			}
			keys, hashes = keys[n:], hashes[n:]
		}
	}
	return nil
}

func (o *keyedOp[K, In, Out, P]) visit(keys []K, hashes []uint32, fn func(K) error) error {
	o.store.Bind(keys, hashes)
	o.runs = keyCode
	var err error
	for i, k := range keys {
		o.store.Seek(i)
		o.ctx.key = k
		if err = fn(k); err != nil {
			err = fmt.Errorf("key %v: %w", k, err)
			break
		}
	}
	var none K
	o.ctx.key, o.runs = none, anyCode
	o.store.Release()
	return err
}
