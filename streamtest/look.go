package streamtest

import (
	"maps"
	"math"
	"reflect"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// Any is a Harness of any types.
type Any interface{ inner() *core }

func (h *Harness[In, Out]) inner() *core { return h.core }

// Value returns the value state, or reducing state, of a key by its name; false
// if the key has none, or it has expired. Where several operators declare a
// state of that name it is "operator/name". Of the options of its declaration
// those of codecs must be given.
func Value[T any, K comparable](h Any, name string, key K, opts ...state.Option) (value T, ok bool) {
	h.inner().t.Helper()
	s := find(h.inner(), "Value", name, key)
	if s.field.Kind == entry.Reducing {
		look(s, opts, types(reflect.TypeFor[T]()), func(r *state.Registry, opts []state.Option) state.Reducing[T] {
			return state.ReducingIn(r, s.field.Name, func(a, _ T) T { return a }, opts...)
		}, func(v state.Reducing[T]) (err error) { value, ok, err = v.Lookup(); return err })
		return value, ok
	}
	look(s, opts, types(reflect.TypeFor[T]()), func(r *state.Registry, opts []state.Option) state.Value[T] {
		return state.ValueIn[T](r, s.field.Name, opts...)
	}, func(v state.Value[T]) (err error) { value, ok, err = v.Lookup(); return err })
	return value, ok
}

// List returns the elements of a key's list state, nil if there are none; see
// Value.
func List[T any, K comparable](h Any, name string, key K, opts ...state.Option) (elements []T) {
	h.inner().t.Helper()
	s := find(h.inner(), "List", name, key)
	look(s, opts, types(reflect.TypeFor[T]()), func(r *state.Registry, opts []state.Option) state.List[T] {
		return state.ListIn[T](r, s.field.Name, opts...)
	}, func(l state.List[T]) (err error) { elements, err = l.Get(); return err })
	return elements
}

// Map returns the entries of a key's map state, nil if there are none; see
// Value.
func Map[MK comparable, MV any, K comparable](h Any, name string, key K, opts ...state.Option) (entries map[MK]MV) {
	h.inner().t.Helper()
	s := find(h.inner(), "Map", name, key)
	look(s, opts, types(reflect.TypeFor[MK](), reflect.TypeFor[MV]()), func(r *state.Registry, opts []state.Option) state.Map[MK, MV] {
		return state.MapIn[MK, MV](r, s.field.Name, opts...)
	}, func(m state.Map[MK, MV]) error {
		entries = maps.Collect(m.All())
		return m.Err()
	})
	return entries
}

// Aggregating returns the result of a key's aggregating state, false if there
// is none; a is the aggregator it was declared with. See Value.
func Aggregating[In, Acc, Out any, K comparable](h Any, name string, key K, a agg.Aggregator[In, Acc, Out]) (result Out, ok bool) {
	h.inner().t.Helper()
	s := find(h.inner(), "Aggregating", name, key)
	look(s, nil, nil, func(r *state.Registry, opts []state.Option) state.Aggregating[In, Acc, Out] {
		return state.AggregatingIn(r, s.field.Name, a, opts...)
	}, func(v state.Aggregating[In, Acc, Out]) (err error) { result, ok, err = v.Get(); return err })
	return result, ok
}

// Keys returns the keys that have a value of a keyed state, in no particular
// order, nil if there are none; see Value. A value that has expired counts
// until it is removed.
func Keys[K comparable](h Any, name string) (keys []K) {
	c := h.inner()
	c.t.Helper()
	op, field := c.field("Keys", name)
	encoding := keyEncoding[K](c, op)
	for _, s := range c.run.Subtasks(op.ID) {
		for _, section := range c.sections(s, field.Name, allGroups) {
			for data := section.data; len(data) > 0; {
				var e stored
				e, data = c.next(data, encoding.Format(), section.state)
				k, err := encoding.Decode(e.key)
				if err != nil {
					c.t.Fatal(err)
				}
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// Timers returns the times of a key's timers in a time domain, ascending, nil if
// there are none. Where several operators are keyed the operator must be named.
func Timers[K comparable](h Any, domain stream.TimeDomain, key K, operator ...string) (times []time.Time) {
	c := h.inner()
	c.t.Helper()
	op := c.keyed("Timers", operator)
	at := entry.EventTime
	if domain == stream.ProcessingTime {
		at = entry.ProcessingTime
	}
	field := heap.NewTimerField(at)
	s := locate(c, op, field, key)
	if s.data == nil {
		return nil
	}
	s.open([]*entry.Field{field}, new(entry.Cursor), func(store *heap.Store[K]) error {
		advance := store.AdvanceEventTime
		if at == entry.ProcessingTime {
			advance = store.AdvanceProcessingTime
		}
		for more := true; more; {
			var err error
			_, more, err = advance(math.MaxInt64, math.MaxInt, func(millis int64) error {
				times = append(times, time.UnixMilli(millis).UTC())
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return times
}
