package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
	"github.com/weirstream/weir/window"
)

// Event is a record of the workload.
type Event struct{ Key, TS, Val int64 }

// mix64 is the finalizer of SplitMix64.
func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// dists are how many of 1,024 records are of the first hundredth of the keys.
var dists = map[string]uint64{"uniform": 0, "hot": 922, "fixed": 1024}

// workload is one run: n records, cut into one share per source subtask,
// interleaved in event time so that 1,000 records over all subtasks have the
// same millisecond.
type workload struct {
	job         string
	n, keys     int64
	parallelism int
	// hot is how many of 1,024 records are of the hot keys.
	hot uint64
	// fill lets one record for each key go before the n.
	fill bool
	// valueBytes is the size of the value of the job keyed, 0 for the default.
	valueBytes int
	// filledAt is when the first source subtask had made the records that fill,
	// steadyFrom when it had made a third of those behind, in nanoseconds of the
	// wall clock.
	filledAt, steadyFrom atomic.Int64
}

// filled is how many of its records each source subtask makes to fill.
func (w *workload) filled() int64 {
	if !w.fill {
		return 0
	}
	return w.keys / int64(w.parallelism)
}

// share is how many records each source subtask makes.
func (w *workload) share() int64 { return w.filled() + w.n/int64(w.parallelism) }

// source makes the records.
func (w *workload) source() *datagen.Sequence[Event] {
	p, per, filled := int64(w.parallelism), w.share(), w.filled()
	third, keys, hotKeys := filled+(per-filled)/3, uint64(w.keys), uint64(max(1, w.keys/100))
	at := func(i int64) (uint64, int64) {
		if i == third {
			w.steadyFrom.Store(time.Now().UnixNano())
		}
		return mix64(uint64(i)), i % per * p / 1000
	}
	if w.fill {
		steady := w.steady(at, keys, hotKeys)
		return datagen.Source(per*p, func(i int64) Event {
			j := i % per
			if j >= filled {
				return steady(i)
			}
			if i == filled-1 {
				w.filledAt.Store(time.Now().UnixNano())
			}
			return Event{scattered(uint64(i/per*filled+j), keys), j * p / 1000, i & 1023}
		})
	}
	return datagen.Source(per*p, w.steady(at, keys, hotKeys))
}

// scattered takes the numbers below keys to one another, so that those that
// follow one another are far apart: keys has no prime factor of that size.
func scattered(i, keys uint64) int64 { return int64(i * 2654435761 % keys) }

// steady makes the records that are measured.
func (w *workload) steady(at func(i int64) (hash uint64, ts int64), keys, hotKeys uint64) func(i int64) Event {
	if hot := w.hot; hot > 0 {
		return func(i int64) Event {
			h, ts := at(i)
			k := h % keys
			if h&1023 < hot {
				k = (h >> 10) % hotKeys
			}
			return Event{int64(k), ts, i & 1023}
		}
	}
	return func(i int64) Event {
		h, ts := at(i)
		return Event{int64(h % keys), ts, i & 1023}
	}
}

func eventTime(e Event, _ int64) int64 { return e.TS }

// build makes the graph of the job.
func (w *workload) build(j *stream.Job) error {
	j.Parallelism(w.parallelism)
	var wm []watermark.Strategy[Event]
	switch w.job {
	case "tumbling", "sliding", "timers":
		wm = append(wm, watermark.Bounded[Event](100*time.Millisecond, nil).WithTimestamps(eventTime))
	}
	s := stream.From(j, "source", w.source(), wm...)
	byKey := func() stream.Keyed[int64, Event] { return stream.KeyBy(s, func(e Event) int64 { return e.Key }) }
	byID := func() stream.Keyed[string, Event] { return stream.KeyBy(s, newIDs().of) }
	switch w.job {
	case "source":
		discard(s)
	case "chain":
		a := stream.Map(s, func(e Event) Event { e.Val = e.Val*31 + 7; return e })
		b := stream.Filter(a, func(e Event) bool { return e.Val&7 != 0 })
		discard(stream.Map(b, func(e Event) Event { e.Val ^= e.Key; return e }))
	case "keyed":
		if w.valueBytes == wideBytes {
			discard(stream.Process(byKey(), "count", newWideCount))
		} else {
			discard(stream.Process(byKey(), "count", newCount[int64]))
		}
	case "keyed-string":
		discard(stream.Process(byID(), "count", newCount[string]))
	case "dedupe":
		discard(stream.Process(byID(), "dedupe", newDedupe))
	case "mapstate":
		discard(stream.Process(byKey(), "count", newMapCount))
	case "timers":
		discard(stream.Process(byKey(), "quiet", newQuiet))
	case "tumbling":
		discard(sums(byKey(), window.Tumbling(10*time.Second)))
	case "sliding":
		discard(sums(byKey(), window.Sliding(60*time.Second, time.Second)))
	default:
		return fmt.Errorf("no job %q", w.job)
	}
	return nil
}

func discard[T any](s stream.Stream[T]) { stream.To(s, "discard", connector.Discard[T]()) }

func sums(s stream.Keyed[int64, Event], w window.Assigner) stream.Stream[int64] {
	sum := agg.Sum(func(e Event) int64 { return e.Val })
	return stream.Aggregate(s, "sum", w, sum, func(_ int64, _ window.Span, v int64) int64 { return v })
}

// ids makes the 36-character id of an event's key, as request ids look. The
// characters of many ids lie in one block, as those of a decoded batch do.
type ids struct{ blocks sync.Pool }

// block is the unused rest of a block.
type block struct{ rest []byte }

const idSize = 36

func newIDs() *ids {
	return &ids{sync.Pool{New: func() any { return &block{} }}}
}

func (s *ids) of(e Event) string {
	b := s.blocks.Get().(*block)
	if len(b.rest) < idSize {
		b.rest = make([]byte, 1024*idSize)
	}
	id := b.rest[:idSize:idSize]
	b.rest = b.rest[idSize:]
	s.blocks.Put(b)

	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], mix64(uint64(e.Key)))
	binary.BigEndian.PutUint64(raw[8:], mix64(^uint64(e.Key)))
	hex.Encode(id[:8], raw[:4])
	hex.Encode(id[9:13], raw[4:6])
	hex.Encode(id[14:18], raw[6:8])
	hex.Encode(id[19:23], raw[8:10])
	hex.Encode(id[24:], raw[10:])
	id[8], id[13], id[18], id[23] = '-', '-', '-', '-'
	return unsafe.String(&id[0], idSize) // id is never written again
}

// count emits every 1,024th count of a key.
type count[K comparable] struct{ n state.Value[int64] }

func newCount[K comparable](r *state.Registry) *count[K] {
	return &count[K]{state.ValueIn[int64](r, "count")}
}

func (c *count[K]) Process(ctx *stream.Ctx[K, int64], _ Event) error {
	n, err := c.n.Get()
	if err != nil {
		return err
	}
	n++
	if n&1023 == 0 {
		ctx.Emit(n)
	}
	return c.n.Set(n)
}

// wideCount counts in a value of 100 bytes.
type wideCount struct{ v state.Value[wide] }

const wideBytes = 100

type wide struct {
	N    int64
	Rest [92]byte
}

func newWideCount(r *state.Registry) *wideCount {
	return &wideCount{state.ValueIn[wide](r, "count")}
}

func (c *wideCount) Process(ctx *stream.Ctx[int64, int64], e Event) error {
	v, err := c.v.Get()
	if err != nil {
		return err
	}
	if v.N == 0 {
		v.Rest = incompressible(e.Key)
	}
	v.N++
	v.Rest[v.N%int64(len(v.Rest))] = byte(e.Val)
	if v.N&1023 == 0 {
		ctx.Emit(v.N)
	}
	return c.v.Set(v)
}

// incompressible are bytes that no compression makes fewer.
func incompressible(key int64) (b [92]byte) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], mix64(uint64(key)^uint64(i)))
	}
	return b
}

// dedupe passes the first record of each id within an hour.
type dedupe struct{ seen state.Value[bool] }

func newDedupe(r *state.Registry) *dedupe {
	return &dedupe{state.ValueIn[bool](r, "seen", state.TTL(time.Hour))}
}

func (d *dedupe) Process(ctx *stream.Ctx[string, Event], e Event) error {
	dup, err := d.seen.Get()
	if err != nil || dup {
		return err
	}
	ctx.Emit(e)
	return d.seen.Set(true)
}

// mapCount counts per key and val mod 16.
type mapCount struct{ m state.Map[int64, int64] }

func newMapCount(r *state.Registry) *mapCount {
	return &mapCount{state.MapIn[int64, int64](r, "m")}
}

func (c *mapCount) Process(ctx *stream.Ctx[int64, int64], e Event) error {
	f := e.Val & 15
	n, _, err := c.m.Get(f)
	if err != nil {
		return err
	}
	n++
	if n&1023 == 0 {
		ctx.Emit(n)
	}
	return c.m.Put(f, n)
}

// quiet reports a key that was quiet for 5 s of event time.
type quiet struct {
	due    state.Value[int64]
	timers state.Timers
}

func newQuiet(r *state.Registry) *quiet {
	return &quiet{state.ValueIn[int64](r, "due"), state.EventTimers(r)}
}

func (q *quiet) Process(_ *stream.Ctx[int64, int64], e Event) error {
	d, ok, err := q.due.Lookup()
	if err != nil {
		return err
	}
	if ok {
		if err := q.timers.DeleteMillis(d); err != nil {
			return err
		}
	}
	n := e.TS + 5000
	if err := q.due.Set(n); err != nil {
		return err
	}
	return q.timers.SetMillis(n)
}

func (q *quiet) OnTimer(ctx *stream.Ctx[int64, int64], _ time.Time) error {
	q.due.Clear()
	ctx.Emit(ctx.Key())
	return nil
}
