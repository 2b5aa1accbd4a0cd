// Command buffering keeps records in operator state, which belongs to a
// subtask and not to a key: it collects three and emits them together. What is
// collected survives stops and failures.
//
//	go run ./examples/buffering run --checkpoint-dir /tmp/buffering
//
// With --threshold it is an alarm: it emits the last --count values that were
// above the threshold.
package main

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/runner"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// options are the flags of the job.
type options struct {
	events    int
	rate      float64
	count     int
	threshold int
}

func (o *options) define(f *flag.FlagSet) {
	f.IntVar(&o.events, "events", 9, "number of events to read")
	f.Float64Var(&o.rate, "rate", 0, "events per second; 0 is as fast as possible")
	f.IntVar(&o.count, "count", 3, "how many events are emitted together")
	f.IntVar(&o.threshold, "threshold", 0, "only collect events whose number is above this")
}

// interval is the time between checkpoints.
const interval = 500 * time.Millisecond

// event is a numbered event.
type event int

func (e event) String() string { return fmt.Sprintf("event%d", int(e)) }

// group is what is emitted together.
type group []event

func (g group) String() string {
	s := make([]string, len(g))
	for i, e := range g {
		s[i] = e.String()
	}
	return "[" + strings.Join(s, ",") + "]"
}

// collector buffers in a field and writes the buffer into operator state when
// a snapshot is taken.
type collector struct {
	count, threshold int
	buffer           []event
	stored           state.OperatorList[event]
}

func (o *options) newCollector(r *state.Registry) *collector {
	return &collector{
		count: o.count, threshold: o.threshold,
		stored: state.OperatorListIn[event](r, "buffered"),
	}
}

// Initialize takes over what a snapshot held.
func (c *collector) Initialize(rt *stream.Runtime) error {
	if rt.IsRestored() {
		c.buffer = c.stored.Get()
	}
	return nil
}

func (c *collector) Process(ctx *stream.Ctx[stream.NoKey, group], e event) error {
	if int(e) <= c.threshold {
		return nil
	}
	c.buffer = append(c.buffer, e)
	if len(c.buffer) >= c.count {
		ctx.Emit(group(c.buffer))
		c.buffer = nil
	}
	return nil
}

// Snapshot is called before each snapshot.
func (c *collector) Snapshot() error {
	c.stored.Update(c.buffer)
	return nil
}

func (o *options) groups(job *stream.Job) stream.Stream[group] {
	job.Parallelism(1)
	job.Checkpoints(checkpoint.Options{Interval: interval})
	events := make([]event, o.events)
	for i := range events {
		events[i] = event(i + 1)
	}
	var limit []datagen.Option
	if o.rate > 0 {
		limit = append(limit, datagen.Rate(o.rate))
	}
	s := stream.From(job, "events", datagen.FromSlice(events, limit...))
	return stream.ProcessUnkeyed(s, "collect", o.newCollector)
}

func main() {
	var o options
	runner.Main("buffering", func(job *stream.Job) {
		stream.Print(o.groups(job), "group")
	}, runner.Flags(o.define))
}
