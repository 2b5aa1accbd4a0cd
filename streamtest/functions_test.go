package streamtest_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

func at(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

// word is what the functions under test take.
type word string

func (w word) self() string { return string(w) }

// tally counts per key in state.
type tally struct{ n state.Value[int64] }

func newTally(r *state.Registry) *tally { return &tally{state.ValueIn[int64](r, "n")} }

func (c *tally) Process(ctx *stream.Ctx[string, string], _ word) error {
	n, err := c.n.Get()
	if err != nil {
		return err
	}
	ctx.Emit(fmt.Sprintf("%s %d", ctx.Key(), n+1))
	return c.n.Set(n + 1)
}

// forgetful counts per key in a field, which no snapshot holds.
type forgetful struct{ n map[string]int64 }

func newForgetful(*state.Registry) *forgetful { return &forgetful{map[string]int64{}} }

func (c *forgetful) Process(ctx *stream.Ctx[string, string], _ word) error {
	c.n[ctx.Key()]++
	ctx.Emit(fmt.Sprintf("%s %d", ctx.Key(), c.n[ctx.Key()]))
	return nil
}

// point is a struct that is kept in line.
type point struct{ X, Y int32 }

// hoard keeps every kind of state.
type hoard struct {
	last  state.Value[point]
	tags  state.Value[[]string]
	texts state.Value[string]
	named state.Value[point]
	all   state.List[string]
	seen  state.Map[int64, string]
	sum   state.Reducing[int64]
	mean  state.Aggregating[int64, agg.Mean, float64]
	brief state.Value[int64]
	warm  state.Value[int64]
}

func newHoard(r *state.Registry) *hoard {
	return &hoard{
		last:  state.ValueIn[point](r, "last"),
		tags:  state.ValueIn[[]string](r, "tags"),
		texts: state.ValueIn[string](r, "text"),
		named: state.ValueIn[point](r, "named", state.Codec(codec.JSON[point]())),
		all:   state.ListIn[string](r, "all"),
		seen:  state.MapIn[int64, string](r, "seen"),
		sum:   state.ReducingIn(r, "sum", func(a, b int64) int64 { return a + b }),
		mean:  state.AggregatingIn(r, "mean", agg.Avg(identity)),
		brief: state.ValueIn[int64](r, "brief", state.TTL(time.Minute)),
		warm:  state.ValueIn[int64](r, "warm", state.TTL(time.Minute, state.OnReadAndWrite)),
	}
}

func identity(v int64) int64 { return v }

func (h *hoard) Process(_ *stream.Ctx[int64, string], v int64) error {
	text := fmt.Sprintf("a text that is far too long for a slot in line: %d", v)
	if v < 0 { // reads only
		_, err := h.warm.Get()
		return err
	}
	return errors.Join(
		h.last.Set(point{int32(v), -int32(v)}), h.tags.Set([]string{"tag", text}), h.texts.Set(text),
		h.named.Set(point{int32(v), 1}), h.all.Add(text), h.seen.Put(v, text), h.sum.Add(v), h.mean.Add(v),
		h.brief.Set(v), h.warm.Set(v),
	)
}

// alarms sets timers as its records say, and tells when they fire.
type alarms struct {
	events, wall state.Timers
}

// alarm is a timer to be set.
type alarm struct {
	Key  string
	At   time.Time
	Wall bool
}

func (a alarm) key() string { return a.Key }

func newAlarms(r *state.Registry) *alarms {
	return &alarms{state.EventTimers(r), state.ProcessingTimers(r)}
}

func (a *alarms) Process(_ *stream.Ctx[string, string], v alarm) error {
	if v.Wall {
		return a.wall.Set(v.At)
	}
	return a.events.Set(v.At)
}

func (a *alarms) OnTimer(ctx *stream.Ctx[string, string], t time.Time) error {
	clock := "event"
	if ctx.Domain() == stream.ProcessingTime {
		clock = fmt.Sprintf("wall at %d", ctx.ProcessingTime().Unix())
	}
	ctx.Emit(fmt.Sprintf("%s %d %s", ctx.Key(), t.Unix(), clock))
	return nil
}

func (a *alarms) EndInput(ctx *stream.Ctx[string, string]) error {
	ctx.Emit("end")
	return nil
}

// buffer holds records back in a field and keeps them in state only when a
// snapshot is taken; hooks are told to calls.
type buffer struct {
	stored  state.OperatorList[string]
	pending []string
	calls   *[]string
}

func newBuffer(calls *[]string) func(*state.Registry) *buffer {
	return func(r *state.Registry) *buffer {
		return &buffer{stored: state.OperatorListIn[string](r, "stored"), calls: calls}
	}
}

func (b *buffer) Initialize(rt *stream.Runtime) error {
	b.pending = b.stored.Get()
	*b.calls = append(*b.calls, fmt.Sprintf("initialize %d/%d attempt %d restored %v", rt.Subtask(), rt.Parallelism(), rt.Attempt(), rt.IsRestored()))
	return nil
}

func (b *buffer) Process(_ *stream.Ctx[stream.NoKey, string], v string) error {
	b.pending = append(b.pending, v)
	return nil
}

func (b *buffer) Snapshot() error {
	*b.calls = append(*b.calls, "snapshot")
	b.stored.Update(b.pending)
	return nil
}

func (b *buffer) EndInput(ctx *stream.Ctx[stream.NoKey, string]) error {
	for _, v := range b.pending {
		ctx.Emit(v)
	}
	return nil
}

func (b *buffer) Close() error {
	*b.calls = append(*b.calls, "close")
	return nil
}
