package embedded_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/window"
)

// tail emits at its end what came in, and keeps it: emitted twice it would be
// there twice. It tells ends when it has ended.
type tail struct {
	kept state.OperatorList[string]
	ends chan<- int
	rt   *stream.Runtime
}

func newTail(ends chan<- int) func(*state.Registry) *tail {
	return func(r *state.Registry) *tail {
		return &tail{kept: state.OperatorListIn[string](r, "kept"), ends: ends}
	}
}

func (f *tail) Open(rt *stream.Runtime) error { f.rt = rt; return nil }

func (f *tail) Process(_ *stream.Ctx[stream.NoKey, string], v string) error {
	f.kept.Add(v)
	return nil
}

func (f *tail) EndInput(c *stream.Ctx[stream.NoKey, string]) error {
	for v := range f.kept.All() {
		c.Emit("tail " + v)
	}
	f.ends <- f.rt.Subtask()
	return nil
}

// late sets timers that only the end of event time reaches.
type late struct {
	events, wall state.Timers
	ends         chan<- int
	rt           *stream.Runtime
}

func newLate(ends chan<- int) func(*state.Registry) *late {
	return func(r *state.Registry) *late {
		return &late{events: state.EventTimers(r), wall: state.ProcessingTimers(r), ends: ends}
	}
}

func (f *late) Open(rt *stream.Runtime) error { f.rt = rt; return nil }

func (f *late) Process(*stream.Ctx[string, string], string) error {
	if err := f.wall.Set(time.UnixMilli(1 << 50)); err != nil {
		return err
	}
	return f.events.Set(time.UnixMilli(1 << 50))
}

func (f *late) OnTimer(c *stream.Ctx[string, string], _ time.Time) error {
	c.Emit("timer " + c.Key())
	return nil
}

func (f *late) EndInput(c *stream.Ctx[string, string]) error {
	c.Emit(fmt.Sprint("end ", f.rt.Subtask()))
	f.ends <- f.rt.Subtask()
	return nil
}

// What operators emit at their end lies before a snapshot taken behind it and
// comes no second time, whatever the parallelism and however often the job
// starts again.
func TestOperatorsEndOnce(t *testing.T) {
	dir, gate, out, ends := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string](), make(chan int, 100)
	build := func(j *stream.Job) {
		short := jobtest.Splits(j, "short", 0, records("a", "b"), records("c", "d"))
		long := jobtest.Script(j, "long", script(records("x"), hold(gate), records("y"))...)
		counts := stream.Aggregate(stream.KeyBy(short, itself), "windows", window.Sliding(time.Hour, 30*time.Minute), agg.Count[string](),
			func(key string, w window.Span, n int64) string { return fmt.Sprint("window ", key, n, " ", w.End) },
			stream.AllowedLateness(time.Hour))
		stream.To(stream.Union(long,
			stream.ProcessUnkeyed(short, "tail", newTail(ends)),
			stream.Process(stream.KeyBy(short, itself), "timers", newLate(ends)),
			counts), "out", out)
	}
	r := launch(t, dir, embedded.Options{Parallelism: 2}, build)
	r.reach(gate)
	for range 4 {
		<-ends
	}
	r.checkpoint()
	r.kill()
	r = launch(t, dir, embedded.Options{Parallelism: 1}, build)
	r.wait(embedded.Started)
	r.checkpoint() // perhaps before the short source has ended again
	r.kill()
	gate.Open()
	launch(t, dir, embedded.Options{Parallelism: 3}, build).end()
	wanted := []string{"x", "y", "end 0", "end 1"}
	for _, k := range []string{"a", "b", "c", "d"} {
		wanted = append(wanted, "tail "+k, "timer "+k,
			fmt.Sprint("window ", k, "1 ", 30*time.Minute.Milliseconds()), fmt.Sprint("window ", k, "1 ", time.Hour.Milliseconds()))
	}
	want(t, "output", out.Values(), wanted...)
	if n := len(ends); n != 0 {
		t.Errorf("EndInput ran %d times after a restore", n)
	}
}

// One subtask has ended and the other has not: at the same parallelism only
// that one has something left to say.
func TestASubtaskEndsOnce(t *testing.T) {
	dir, gate, out, ends := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string](), make(chan int, 100)
	build := func(j *stream.Job) {
		in := jobtest.Splits(j, "in", 0, records("a"), script(records("b"), hold(gate)))
		stream.To(stream.ProcessUnkeyed(in, "tail", newTail(ends)), "out", out)
	}
	o := embedded.Options{Parallelism: 2}
	r := launch(t, dir, o, build)
	r.reach(gate)
	if s := <-ends; s != 0 {
		t.Fatalf("subtask %d has ended first", s)
	}
	r.checkpoint()
	r.kill()
	gate.Open()
	launch(t, dir, o, build).end()
	want(t, "output", out.Values(), "tail a", "tail b")
	if s := <-ends; s != 1 || len(ends) > 0 {
		t.Errorf("after the restore subtask %d ended first, %d after it; want only 1", s, len(ends))
	}
}
