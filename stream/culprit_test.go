package stream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
	"github.com/weirstream/weir/window"
)

// mined panics where it is told to.
type mined struct {
	at     func(place string)
	timers state.Timers
}

func (f *mined) Open(*stream.Runtime) error { f.at("open"); return nil }

func (f *mined) Process(c *stream.Ctx[string, int], v int) error {
	for range 10 {
		c.Emit(v)
	}
	if v == 700 {
		f.at("process")
	}
	return f.timers.Set(time.UnixMilli(5))
}

func (f *mined) OnTimer(*stream.Ctx[string, int], time.Time) error { f.at("timer"); return nil }

func (f *mined) EndInput(*stream.Ctx[string, int]) error { f.at("end"); return nil }

type minedSink struct {
	connector.Sink[int, connector.NoCommit]
	at func(string)
}

func (s minedSink) CommittableCodec() codec.Codec[connector.NoCommit] {
	return connector.NoCommitCodec{}
}

func (s minedSink) NewWriter(connector.SinkContext) (connector.Writer[int, connector.NoCommit], error) {
	return minedWriter{at: s.at}, nil
}

type minedWriter struct {
	connector.Writer[int, connector.NoCommit]
	at func(string)
}

func (w minedWriter) Write([]int, []int64) error  { w.at("sink"); return nil }
func (w minedWriter) Flush(context.Context) error { return nil }
func (w minedWriter) Close() error                { return nil }

// A panic names the operator whose code it came from, and the key.
func TestAPanicNamesItsOperator(t *testing.T) {
	for place, want := range map[string]string{
		"source map": `operator "before": panic`,
		"filter":     `operator "filter": panic`,
		"open":       `operator "function": panic`,
		"process":    `operator "function", key key-700: panic`,
		"timer":      `operator "function", key key-`,
		"end":        `operator "function": panic`,
		"map":        `operator "after": panic`,
		"window":     `operator "windows", key 7: panic`,
		"emit":       `operator "windows", key 7: panic`,
		"sink":       `operator "sink": panic`,
	} {
		at := func(here string) {
			if here == place {
				panic("at " + here)
			}
		}
		job := jobtest.Job(t, embedded.Options{Restart: checkpoint.None{}}, func(j *stream.Job) {
			numbers := make([]int, 1000)
			for i := range numbers {
				numbers[i] = i
			}
			in := stream.FromSlice(j, "in", numbers, watermark.Monotonous(func(v int) time.Time { return time.UnixMilli(int64(v)) }))
			m := stream.Map(in, func(v int) int { at("source map"); return v }, stream.ID("before"))
			f := stream.Filter(m, func(int) bool { at("filter"); return true }, stream.ID("filter"))
			p := stream.Process(stream.KeyBy(f, func(v int) string { return fmt.Sprint("key-", v) }), "function",
				func(r *state.Registry) *mined { return &mined{at, state.EventTimers(r)} })
			q := stream.Map(p, func(v int) int { at("map"); return v }, stream.ID("after"))
			sum := agg.Sum(func(v int) int { at("window"); return v })
			w := stream.Aggregate(stream.KeyBy(q, func(int) int { return 7 }), "windows", window.Tumbling(time.Second), sum,
				func(_ int, _ window.Span, n int64) int { at("emit"); return int(n) })
			stream.To(w, "sink", minedSink{connector.Discard[int](), at})
		})
		if err := job.Run(t.Context()); err == nil || !strings.Contains(err.Error(), ", "+want) {
			t.Errorf("%s: %.200v\nwant %s", place, err, want)
		}
	}
}
