package stream_test

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

func first(s string) string { return s[:1] }

// alarm sets one event-time timer per key and tells when it fires.
type alarm struct {
	timers state.Timers
	at     int64
}

func newAlarm(at int64) func(*state.Registry) *alarm {
	return func(r *state.Registry) *alarm { return &alarm{timers: state.EventTimers(r), at: at} }
}

func (a *alarm) Process(c *stream.Ctx[string, string], _ string) error {
	return a.timers.Set(time.UnixMilli(a.at))
}

func (a *alarm) OnTimer(c *stream.Ctx[string, string], at time.Time) error {
	c.Emit(fmt.Sprintf("%s@%d", c.Key(), at.UnixMilli()))
	return nil
}

// scripted is a function whose records say what to do with timers of their
// key: "a+10" sets one, "a-10" deletes one.
type scripted struct {
	timers state.Timers
	// chain[at] is deleted when at fires.
	chain map[int64]int64
}

func (s *scripted) Process(c *stream.Ctx[string, string], v string) error {
	var key string
	var at int64
	if _, err := fmt.Sscanf(v, "%1s%d", &key, &at); err != nil {
		return err
	}
	if at < 0 {
		return s.timers.Delete(time.UnixMilli(-at))
	}
	return s.timers.Set(time.UnixMilli(at))
}

func (s *scripted) OnTimer(c *stream.Ctx[string, string], at time.Time) error {
	c.Emit(fmt.Sprintf("%s@%d", c.Key(), at.UnixMilli()))
	if d, ok := s.chain[at.UnixMilli()]; ok {
		return s.timers.Delete(time.UnixMilli(d))
	}
	return nil
}

func timers(t *testing.T, chain map[int64]int64, items ...jobtest.Item[string]) []string {
	t.Helper()
	out := collect.New[string]()
	jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
		k := stream.KeyBy(jobtest.Script(j, "in", items...), first)
		stream.To(stream.Process(k, "timers", func(r *state.Registry) *scripted {
			return &scripted{timers: state.EventTimers(r), chain: chain}
		}), "out", out)
	})
	return out.Values()
}

func TestT01SameTimerRegisteredSeveralTimes(t *testing.T) {
	r := jobtest.R[string]
	got := timers(t, nil, r("a+10", 1), r("a+10", 1), r("a+10", 1), r("b+10", 1), jobtest.WM[string](10))
	slices.Sort(got)
	want(t, "calls", got, "a@10", "b@10")
}

func TestT03TimerExactlyAtTheWatermark(t *testing.T) {
	r, wm := jobtest.R[string], jobtest.WM[string]
	got := timers(t, nil, r("a+100", 1), r("a+1000", 1), wm(99), r("b+99", 1), wm(100), r("b+100", 1), wm(1000))
	// b shows when a fires: its own timers are due at the next watermark.
	want(t, "calls", got, "b@99", "a@100", "b@100", "a@1000")
}

func TestT05TimerAtMaximumTimestamp(t *testing.T) {
	gate, out := jobtest.NewGate(), collect.New[string]()
	build := func(j *stream.Job) {
		s := jobtest.Script(j, "in", jobtest.R("a", 1), jobtest.WM[string](9_000_000_000_000_000_000), jobtest.Hold[string](gate))
		stream.To(stream.Process(stream.KeyBy(s, first), "timers", newAlarm(math.MaxInt64)), "out", out)
	}
	job := start(t, build)
	<-gate.Reached()
	job.cancel()
	want(t, "cancelled", out.Values())
	gate.Open()
	job = start(t, build)
	job.end()
	want(t, "at the end", out.Values(), fmt.Sprint("a@", int64(math.MaxInt64)))
}

func TestT06DeletingTimers(t *testing.T) {
	r := jobtest.R[string]
	got := timers(t, map[int64]int64{30: 40},
		r("a+10", 1), r("b+10", 1), r("a-10", 1), r("a-15", 1), r("a+20", 1), r("a-20", 1), r("a+20", 1),
		r("a+30", 1), r("a+40", 1), r("b+50", 1), jobtest.WM[string](50))
	want(t, "calls", got, "b@10", "a@20", "a@30", "b@50")
}

// hourly sets a processing-time timer an hour ahead and an event-time one.
type hourly struct {
	wall, event state.Timers
	late        *atomic.Int64
}

func (h *hourly) Process(c *stream.Ctx[string, string], _ string) error {
	if err := h.event.Set(time.UnixMilli(5)); err != nil {
		return err
	}
	return h.wall.Set(c.ProcessingTime().Add(time.Hour))
}

func (h *hourly) OnTimer(c *stream.Ctx[string, string], _ time.Time) error {
	if c.Domain() == stream.ProcessingTime {
		h.late.Add(1)
	}
	c.Emit(c.Key())
	return nil
}

// ender passes records on and fails if one comes after the end of the input.
type ender struct{ ended bool }

func (e *ender) Process(c *stream.Ctx[stream.NoKey, string], v string) error {
	if e.ended {
		return fmt.Errorf("%s comes after the end of the input", v)
	}
	c.Emit(v)
	return nil
}

func (e *ender) EndInput(c *stream.Ctx[stream.NoKey, string]) error {
	e.ended = true
	c.Emit("end")
	return nil
}

func TestT09ProcessingTimeTimersAtTheEnd(t *testing.T) {
	out := collect.New[string]()
	var late atomic.Int64
	jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
		k := stream.KeyBy(jobtest.Script(j, "in", jobtest.R("a", 1), jobtest.R("b", 2), jobtest.R("c", 3)), first)
		r := stream.Process(k, "hourly", func(r *state.Registry) *hourly {
			return &hourly{wall: state.ProcessingTimers(r), event: state.EventTimers(r), late: &late}
		})
		stream.To(stream.ProcessUnkeyed(r, "ender", func(*state.Registry) *ender { return &ender{} }), "out", out)
	})
	got := out.Values()
	if len(got) != 4 || got[3] != "end" {
		t.Fatalf("got %v, want the event-time timers of a, b and c, then the end", got)
	}
	slices.Sort(got[:3])
	want(t, "event-time timers", got[:3], "a", "b", "c")
	if late.Load() != 0 {
		t.Errorf("%d processing-time timers fired, want none", late.Load())
	}
}

// tally counts per key and tells at a timer how many there were.
type tally struct {
	n      state.Value[int64]
	timers state.Timers
}

func (f *tally) Process(c *stream.Ctx[string, string], v string) error {
	n, err := f.n.Get()
	if err != nil {
		return err
	}
	if n == 0 {
		at := int64(10)
		if c.Millis() > 10 {
			at = 20
		}
		if err := f.timers.Set(time.UnixMilli(at)); err != nil {
			return err
		}
	}
	return f.n.Set(n + 1)
}

func (f *tally) OnTimer(c *stream.Ctx[string, string], _ time.Time) error {
	n, err := f.n.Get()
	if err != nil {
		return err
	}
	c.Emit(fmt.Sprintf("%s,%d", c.Key(), n))
	return f.n.Set(0)
}

func TestT11StateScopeInsideATimer(t *testing.T) {
	out := collect.New[string]()
	jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
		r := jobtest.R[string]
		s := jobtest.Script(j, "in", r("a", 1), r("a", 2), r("b", 3), jobtest.WM[string](10), r("a", 11), jobtest.WM[string](20))
		stream.To(stream.Process(stream.KeyBy(s, first), "tally", func(r *state.Registry) *tally {
			return &tally{n: state.ValueIn[int64](r, "n"), timers: state.EventTimers(r)}
		}), "out", out)
	})
	got := out.Values()
	slices.Sort(got[:min(2, len(got))])
	want(t, "results", got, "a,2", "b,1", "a,1")
}
