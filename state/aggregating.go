package state

import (
	"reflect"
	"unsafe"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
)

// Aggregating is one accumulator per key, and the result computed from it.
type Aggregating[In, Acc, Out any] struct{ c *aggregate[In, Acc, Out] }

// aggregate is what the copies of an Aggregating handle share.
type aggregate[In, Acc, Out any] struct {
	single[Acc]
	agg agg.Aggregator[In, Acc, Out]
	// flat accumulators are byte slices.
	flat bool
	// acc is the accumulator being used, unless it is used in place.
	acc Acc
}

// AggregatingIn declares an aggregating state. The accumulator of the
// aggregator must be without pointers, or a []byte. A codec cannot be given.
func AggregatingIn[In, Acc, Out any](r *Registry, name string, a agg.Aggregator[In, Acc, Out], opts ...Option) Aggregating[In, Acc, Out] {
	o := collect(opts)
	c := &aggregate[In, Acc, Out]{single: single[Acc]{cell: r.cell(o)}, agg: a}
	c.f = &entry.Field{Name: name, Kind: entry.Aggregating, TTL: o.ttl.on()}
	r.declare(c.f, o, func() error { return c.init(o) })
	return Aggregating[In, Acc, Out]{c}
}

func (c *aggregate[In, Acc, Out]) init(o options) error {
	if c.agg == nil {
		return errNoAggregator
	}
	if o.codec != nil {
		return errAccumulatorCodec
	}
	f, err := accumulatorForm[Acc]()
	if err != nil {
		return err
	}
	if err := o.migrations.check(reflect.TypeFor[Acc]()); err != nil {
		return err
	}
	f.fresh = c.agg.Init // of a []byte it is not asked for
	c.adopt(f)
	c.f.Detail = c.agg.Kind()
	c.flat = c.form.class == byt
	return nil
}

// Add folds v in.
func (s *Aggregating[In, Acc, Out]) Add(v In) error {
	c := s.c
	p := c.cur.P
	if p == nil {
		return ErrNoKey
	}
	a := c.cur.Arena
	held := c.f.Has(p)
	if held && c.ttl.on() && !c.ttl.visible(*timeAt(c.f.At(p)), c.cur.Now) {
		c.clear(p, a)
		held = false
	}
	if c.flat {
		return c.addFlat(p, a, held, v)
	}
	acc := (*Acc)(c.form.room(c.slot(p), a, held))
	if !held {
		var zero Acc
		*acc = zero
		c.agg.Init(acc)
	}
	c.written(p)
	return c.agg.Add(acc, v)
}

func (c *aggregate[In, Acc, Out]) addFlat(p unsafe.Pointer, a *memory.Arena, held bool, v In) error {
	t := textAt(c.slot(p))
	if !held {
		t.init(a, nil, 0)
	}
	b := (*[]byte)(unsafe.Pointer(&c.acc))
	*b = t.open(a)
	if !held {
		c.agg.Init(&c.acc)
	}
	err := c.agg.Add(&c.acc, v)
	t.close(a, *b)
	*b = nil
	c.written(p)
	return err
}

// Get returns the result, and false if nothing was added or the aggregator
// has no result.
func (s *Aggregating[In, Acc, Out]) Get() (out Out, ok bool, err error) {
	c := s.c
	p := c.cur.P
	if p == nil {
		return out, false, ErrNoKey
	}
	if !c.f.Has(p) {
		return out, false, nil
	}
	a := c.cur.Arena
	if !c.ttl.on() {
		out, ok = c.result(p, a)
		return out, ok, nil
	}
	at := timeAt(c.f.At(p))
	if c.ttl.visible(*at, c.cur.Now) {
		out, ok = c.result(p, a)
	}
	if c.ttl.expired(*at, c.cur.Now) {
		c.clear(p, a)
	} else if c.ttl.onRead {
		*at = c.cur.Now
	}
	return out, ok, nil
}

func (c *aggregate[In, Acc, Out]) result(p unsafe.Pointer, a *memory.Arena) (out Out, ok bool) {
	switch c.form.class {
	case inline:
		return c.agg.Result((*Acc)(c.slot(p)))
	case block:
		return c.agg.Result((*Acc)(c.form.blockAt(c.slot(p), a)))
	}
	b := (*[]byte)(unsafe.Pointer(&c.acc))
	*b = textAt(c.slot(p)).bytes(a)
	out, ok = c.agg.Result(&c.acc)
	*b = nil
	return out, ok
}

// Clear removes the accumulator.
func (s *Aggregating[In, Acc, Out]) Clear() error { return s.c.remove() }
