package streamtest

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// Harness runs a part of a job by hand. Its methods fail the test with
// t.Fatal, Expect with t.Error. They are called on the goroutine of the test,
// and not by the code under test.
type Harness[In, Out any] struct {
	// Output is the main output.
	*Output[Out]
	core *core
	feed *feed[In]
	of   func(In) time.Time
	out  stream.Stream[Out]
}

// New makes a harness of a part of a job: pipeline is what the job applies to
// the stream of its source. It runs once. Nothing else runs before the first
// step; side outputs are asked for until then, by Side.
func New[In, Out any](t testing.TB, pipeline func(in stream.Stream[In]) stream.Stream[Out], opts ...Option) *Harness[In, Out] {
	t.Helper()
	o, err := optionsOf(opts)
	if err != nil {
		t.Fatal(err)
	}
	of := timestampsOf[In](&o)
	if err := o.spent(reflect.TypeFor[In]()); err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, pipeline, o)
	h.of = of
	return h
}

func newHarness[In, Out any](t testing.TB, pipeline func(in stream.Stream[In]) stream.Stream[Out], o options) *Harness[In, Out] {
	t.Helper()
	h := &Harness[In, Out]{Output: &Output[Out]{t: t, name: "the output"}, feed: &feed[In]{wm: math.MinInt64}}
	h.core = &core{t: t, job: stream.NewJob("test"), opts: o, clock: clockAt(time.Unix(0, 0)), blobs: mem.New(), outputs: map[string]bool{}}
	if o.from != nil {
		h.core.clock = o.from.clock
		h.resume(o.from)
	}
	if o.start != nil {
		h.core.clock = clockAt(*o.start)
	}
	if pipeline == nil {
		t.Fatal("the pipeline is nil")
	}
	h.out = pipeline(stream.FromWith(h.core.job, inputID, h.feed, []stream.Option{stream.Parallelism(1)}, h.feed.strategy()))
	if reflect.ValueOf(h.out).IsZero() {
		t.Fatal("the pipeline returns a zero Stream; it is to return what it makes of its input")
	}
	output(h.core, h.out, "test-output", h.Output)
	h.core.build()
	t.Cleanup(h.Close)
	return h
}

// output has a stream fill an output.
func output[T any](c *core, s stream.Stream[T], id string, to *Output[T]) {
	stream.To(s, id, sink[T]{to})
	c.outputs[id] = true
}

// resume has the input go on as it does from a snapshot.
func (h *Harness[In, Out]) resume(from *Snapshot) {
	h.feed.wm, h.feed.ended, h.core.ending = math.MinInt64, from.ended, from.ended
	h.feed.records, h.feed.times = nil, nil
}

// Process makes a harness of a function on a keyed stream: stream.Process with
// the id "process".
func Process[K comparable, In, Out any, P stream.Processor[K, In, Out]](t testing.TB, key func(In) K, newP func(*state.Registry) P, opts ...Option) *Harness[In, Out] {
	t.Helper()
	return New(t, func(in stream.Stream[In]) stream.Stream[Out] {
		return stream.Process(stream.KeyBy(in, key), "process", newP)
	}, opts...)
}

// ProcessUnkeyed makes a harness of a function on a stream without keys:
// stream.ProcessUnkeyed with the id "process".
func ProcessUnkeyed[In, Out any, P stream.Processor[stream.NoKey, In, Out]](t testing.TB, newP func(*state.Registry) P, opts ...Option) *Harness[In, Out] {
	t.Helper()
	return New(t, func(in stream.Stream[In]) stream.Stream[Out] {
		return stream.ProcessUnkeyed(in, "process", newP)
	}, opts...)
}

// Side returns a side output of the operator whose output is that of the
// harness. It must be called before the first step: what nobody asked for is
// dropped. The tags of other operators are reached within the pipeline, with
// stream.SideOutput.
func Side[T, In, Out any](h *Harness[In, Out], tag stream.Tag[T]) *Output[T] {
	h.core.t.Helper()
	if h.core.starts > 0 {
		h.core.t.Fatalf("side output %q is asked for after the first step, which has dropped its records; call Side right after New", tag.Name())
	}
	o := &Output[T]{t: h.core.t, name: fmt.Sprintf("side output %q", tag.Name())}
	s := stream.SideOutput(h.out, tag)
	if _, err := h.core.job.Build(); err != nil {
		h.core.t.Fatalf("Side asks the operator whose output the pipeline returns: %v\nThose of other operators are reached within the pipeline, by stream.SideOutput", err)
	}
	output(h.core, s, fmt.Sprintf("test-side-%d", len(h.core.outputs)), o)
	h.core.build()
	return o
}

// Push hands in records, one after the other: when it returns all that they
// made the job emit is in the outputs. Their event time is that of the option
// Timestamps; without it they have none.
func (h *Harness[In, Out]) Push(vals ...In) {
	h.core.t.Helper()
	for _, v := range vals {
		var at time.Time
		if h.of != nil {
			at = h.of(v)
		}
		h.push(v, at)
	}
}

// PushAt is Push with an event time, whatever Timestamps says.
func (h *Harness[In, Out]) PushAt(at time.Time, vals ...In) {
	h.core.t.Helper()
	for _, v := range vals {
		h.push(v, at)
	}
}

func (h *Harness[In, Out]) push(v In, at time.Time) {
	h.core.t.Helper()
	h.core.running("Push")
	if h.feed.ended {
		h.core.t.Fatal("Push after End: the input has ended, here or in the snapshot; push before, or go on from a snapshot taken before with Restore")
	}
	h.feed.put(v, at)
	h.core.settle()
}

// Watermark says that no record at or before a time is to come: timers and
// windows up to it fire. It never goes back.
func (h *Harness[In, Out]) Watermark(at time.Time) {
	h.core.t.Helper()
	h.core.running("Watermark")
	wm := at.UnixMilli()
	switch {
	case h.feed.ended:
		h.core.t.Fatal("Watermark after End: event time is at its end")
	case wm < h.feed.wm:
		h.core.t.Fatalf("Watermark(%s) goes back behind %s; event time never does", text(wm), text(h.feed.wm))
	}
	h.feed.wm = wm
	h.core.settle()
}

// Now is the virtual wall clock, by which processing-time timers fire and
// state with a time to live expires. It moves by AdvanceClock alone.
func (h *Harness[In, Out]) Now() time.Time { return h.core.clock.time() }

// AdvanceClock moves the wall clock on. Each processing-time timer on the way
// fires at its own time: the function then finds the clock there. Functions see
// whole milliseconds; what is less adds up.
func (h *Harness[In, Out]) AdvanceClock(d time.Duration) {
	h.core.t.Helper()
	h.core.running("AdvanceClock")
	if d < 0 {
		h.core.t.Fatalf("AdvanceClock(%v): the wall clock of a harness never goes back", d)
	}
	h.core.advance(h.core.clock.after(d))
}

// End ends the input: event time goes to its end, so that all event-time timers
// and windows fire; then EndInput runs. Processing-time timers are dropped.
// What has ended does not end again after a Restore.
func (h *Harness[In, Out]) End() {
	h.core.t.Helper()
	h.core.running("End")
	if h.feed.ended {
		h.core.t.Fatal("End comes twice: the input has ended, here or in the snapshot")
	}
	h.feed.ended, h.core.ending = true, true
	h.core.settle()
}

// Try runs steps that may fail and returns the error with which the job would
// have ended: that of a function, with the id of its operator, or a panic with its
// stack. The first error ends the steps. The harness can then only be Restored
// from an earlier snapshot, or closed.
func (h *Harness[In, Out]) Try(steps func()) (err error) {
	h.core.trying++
	defer func() {
		h.core.trying--
		if p := recover(); p != nil {
			f, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = f.error
		}
	}()
	steps()
	return nil
}

// Late is the number of records that came too late for their windows, since the
// start or the last Restore.
func (h *Harness[In, Out]) Late() int64 {
	h.core.t.Helper()
	return h.core.sum(func(s embedded.Subtask) int64 { return s.Context.Metrics.Late.Load() })
}

// Counter is the value of a named counter, summed over operators and subtasks,
// since the start or the last Restore. 0 if nothing was ever counted. The
// engine itself counts processingTimersDropped, recordsInNoWindow and
// valuesLeftOut.
func (h *Harness[In, Out]) Counter(name string) (sum int64) {
	h.core.t.Helper()
	return h.core.sum(func(s embedded.Subtask) (n int64) {
		s.Context.Metrics.Each(func(counter string, value int64) {
			if counter == name {
				n = value
			}
		})
		return n
	})
}

// Close ends the harness as a failure would: without EndInput, with Close of
// the functions, whose errors fail the test. It is called at the end of the test;
// further calls do nothing.
func (h *Harness[In, Out]) Close() {
	h.core.t.Helper()
	h.core.idle("Close")
	h.core.closed = true
	h.core.stop()
}

// failure is the error of a job, on its way to Try.
type failure struct{ error }
