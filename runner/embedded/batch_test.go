package embedded_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
	"github.com/weirstream/weir/window"
)

// clocks sets an event-time and a wall-clock timer per record, and others from
// its timers, and emits what happens and the clocks it sees.
type clocks struct {
	event, wall state.Timers
}

func newClocks(r *state.Registry) *clocks {
	return &clocks{state.EventTimers(r), state.ProcessingTimers(r)}
}

func (f *clocks) Process(c *stream.Ctx[string, string], v string) error {
	c.Emit(fmt.Sprintf("%s at watermark %d", v, c.Watermark()))
	start := c.ProcessingTime()
	if err := f.event.SetMillis(c.Millis() + 10); err != nil {
		return err
	}
	return f.wall.Set(start.Add(-time.Hour)) // long since due
}

func (f *clocks) OnTimer(c *stream.Ctx[string, string], at time.Time) error {
	if c.Domain() == stream.EventTime {
		c.Emit(fmt.Sprintf("%s: event time %d at watermark %d", c.Key(), at.UnixMilli(), c.Watermark()))
		if at.UnixMilli() == 11 {
			return f.event.SetMillis(15)
		}
		return nil
	}
	c.Emit(fmt.Sprintf("%s: wall clock, an hour before %t", c.Key(), at.Equal(c.ProcessingTime().Add(-time.Hour))))
	return f.wall.Set(at.Add(time.Minute)) // for ever, if time passed
}

// In batch mode nothing fires before the end, then what is due by event time in
// its order, then what the wall clock would fire; a wall-clock timer that sets
// the next one comes to an end.
func TestBatchTimersFireAtTheEnd(t *testing.T) {
	out := collect.New[string]()
	o := embedded.Options{RuntimeMode: stream.Batch}
	jobtest.Run(t, o, func(j *stream.Job) {
		in := jobtest.Script(j, "in", jobtest.R("a", 5), jobtest.WM[string](100), jobtest.R("a", 1), jobtest.R("a", 7))
		stream.To(stream.Process(stream.KeyBy(in, func(s string) string { return s }), "clocks", newClocks), "out", out)
	})
	none, end := int64(math.MinInt64), int64(math.MaxInt64)
	want := []string{
		fmt.Sprintf("a at watermark %d", none), fmt.Sprintf("a at watermark %d", none), fmt.Sprintf("a at watermark %d", none),
		fmt.Sprintf("a: event time 11 at watermark %d", end), fmt.Sprintf("a: event time 15 at watermark %d", end), fmt.Sprintf("a: event time 17 at watermark %d", end),
		"a: wall clock, an hour before true",
	}
	if got := out.Values(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// shuffled is n events of ten keys over an hour, far out of order.
func shuffled(n int64) *datagen.Sequence[int64] {
	return datagen.Source(n, func(i int64) int64 { return i * 7919 % n })
}

func perMinute(j *stream.Job, n int64, disorder time.Duration) stream.Stream[string] {
	at := func(v int64) time.Time { return time.UnixMilli(v * 3_600_000 / n) }
	in := stream.From(j, "in", shuffled(n), watermark.Bounded(disorder, at).Idle(time.Second))
	return stream.Aggregate(stream.KeyBy(in, func(v int64) int64 { return v % 10 }), "count", window.Tumbling(time.Minute), agg.Count[int64](),
		func(k int64, w window.Span, n int64) string { return fmt.Sprint(k, " ", w.Start, " ", n) })
}

func TestBatchHasNoLateRecords(t *testing.T) {
	for _, p := range []int{1, 3} {
		count := func(m stream.RuntimeMode, disorder time.Duration) []string {
			out := collect.New[string]()
			jobtest.Run(t, embedded.Options{Parallelism: p, RuntimeMode: m, WatermarkInterval: time.Millisecond}, func(j *stream.Job) {
				stream.To(perMinute(j, 6000, disorder), "out", out)
			})
			got := out.Values()
			slices.Sort(got)
			return got
		}
		want := count(stream.Streaming, time.Hour)
		if len(want) != 600 || !strings.HasSuffix(want[0], " 10") {
			t.Fatalf("%d results, the first %q", len(want), want[0])
		}
		for _, m := range []stream.RuntimeMode{stream.Batch, stream.Automatic} {
			if got := count(m, 0); !slices.Equal(got, want) {
				t.Errorf("parallelism %d, %s: %d results, want the %d of a stream that waits for all: %q", p, m, len(got), len(want), got)
			}
		}
	}
}

func TestBatchNeedsAnEnd(t *testing.T) {
	build := func(j *stream.Job) {
		for _, id := range []string{"a", "b"} {
			stream.To(stream.From(j, id, datagen.Source(-1, func(i int64) int64 { return i })), id+"-out", collect.New[int64]())
		}
		stream.To(stream.FromSlice(j, "c", []int64{1}), "c-out", collect.New[int64]())
	}
	j := stream.NewJob("test")
	build(j)
	g, err := j.Build()
	if err != nil {
		t.Fatal(err)
	}
	_, err = embedded.New(g, embedded.Options{RuntimeMode: stream.Batch})
	if err == nil || strings.Contains(err.Error(), `"c"`) || !strings.Contains(err.Error(), `"a" never ends`) || !strings.Contains(err.Error(), `"b" never ends`) {
		t.Errorf("endless sources in batch mode: %v", err)
	}
	if _, err = embedded.New(g, embedded.Options{RuntimeMode: "FAST"}); err == nil || !strings.Contains(err.Error(), "STREAMING, BATCH, AUTOMATIC") {
		t.Errorf("an unknown mode: %v", err)
	}
	if batch, err := embedded.IsBatch(g, stream.Automatic); batch || err != nil {
		t.Errorf("automatic with endless sources: batch %t, %v", batch, err)
	}
}

// A batch job with a directory takes checkpoints by itself: it goes on after a
// failure, and its exactly-once sinks commit on the way.
func TestBatchCommitsInChunks(t *testing.T) {
	dir, out, gate := t.TempDir(), collect.NewExactlyOnce[int](), jobtest.NewGate()
	build := func(j *stream.Job) {
		items := []jobtest.Item[int]{jobtest.R(1, 1), jobtest.R(2, 2), jobtest.Hold[int](gate), jobtest.R(3, 3)}
		stream.To(jobtest.Script(j, "in", items...), "out", out)
	}
	o := embedded.Options{RuntimeMode: stream.Batch, Restart: checkpoint.None{}}
	j := stream.NewJob("test")
	build(j)
	g, err := j.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.New(g, o); err == nil || !strings.Contains(err.Error(), "execution.checkpointing.dir") {
		t.Errorf("an exactly-once sink without a directory: %v", err)
	}
	o.Checkpoint.Dir = dir
	if _, err := embedded.New(g, o); err != nil {
		t.Errorf("an exactly-once sink with a directory and no interval: %v", err)
	}

	r := launch(t, dir, o, build)
	r.reach(gate)
	r.checkpoint()
	if err := out.Wait(r.ctx, 2); err != nil {
		t.Fatal(err)
	}
	if got := out.Values(); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("committed on the way: %v, want 1 and 2", got)
	}
	r.kill()
	gate.Open()
	r = launch(t, dir, o, build)
	r.end()
	if got := out.Values(); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("committed in the end: %v, want 1, 2, 3", got)
	}
}

// The mode may change from one run to the next.
func TestModeChanges(t *testing.T) {
	for _, modes := range [][2]stream.RuntimeMode{{stream.Streaming, stream.Batch}, {stream.Batch, stream.Streaming}} {
		dir, out, gate := t.TempDir(), collect.NewExactlyOnce[string](), jobtest.NewGate()
		build := func(j *stream.Job) {
			items := []jobtest.Item[string]{
				jobtest.R("a", 1), jobtest.R("a", 2), jobtest.WM[string](12), jobtest.R("b", 13), jobtest.Hold[string](gate), jobtest.R("a", 14), jobtest.R("c", 15),
			}
			in := stream.KeyBy(jobtest.Script(j, "in", items...), func(s string) string { return s })
			stream.To(stream.Aggregate(in, "count", window.Tumbling(10*ms), agg.Count[string](),
				func(k string, w window.Span, n int64) string { return fmt.Sprint(k, " ", w.Start, " ", n) }), "out", out)
		}
		r := launch(t, dir, embedded.Options{RuntimeMode: modes[0]}, build)
		r.reach(gate)
		r.checkpoint()
		r.kill()
		gate.Open()
		launch(t, dir, embedded.Options{RuntimeMode: modes[1]}, build).end()
		got := out.Values()
		slices.Sort(got)
		if want := []string{"a 0 2", "a 10 1", "b 10 1", "c 10 1"}; !slices.Equal(got, want) {
			t.Errorf("%v: got %q, want %q", modes, got, want)
		}
	}
}
