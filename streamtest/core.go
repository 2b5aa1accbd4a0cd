package streamtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/window"
)

// inputID is the id of the source of a harness.
const inputID = "test-input"

// core is what harnesses of all types have.
type core struct {
	t     testing.TB
	job   *stream.Job
	graph *graph.Graph
	opts  options
	blobs storage.Blobs
	clock clock
	// outputs are the ids of the sinks that fill outputs.
	outputs map[string]bool

	starts    int64
	snapshots int64
	// run is nil before the first step, and after the last.
	run    *embedded.Stepped
	trying int
	// ending tells that the input has ended.
	ending bool
	// busy tells that code under test may be running.
	busy   bool
	failed bool
	closed bool
}

// clock is the wall clock of a harness. That of the engine counts milliseconds.
type clock struct {
	millis int64
	rest   time.Duration
}

func clockAt(t time.Time) clock {
	return clock{t.UnixMilli(), time.Duration(t.Nanosecond()) % time.Millisecond}
}

// after is the clock d later.
func (c clock) after(d time.Duration) clock {
	d += c.rest
	return clock{c.millis + d.Milliseconds(), d % time.Millisecond}
}

func (c clock) time() time.Time { return time.UnixMilli(c.millis).Add(c.rest).UTC() }

func (c *core) build() {
	c.t.Helper()
	g, err := c.job.Build()
	if err != nil {
		c.t.Fatalf("the pipeline cannot be built: %v", err)
	}
	c.graph = &graph.Graph{Job: g.Job, Nodes: beside(g.Nodes, c.outputs)}
}

// beside puts sinks into the subtasks of the operators whose output they take,
// each producer's into a sink of its own: a record is to tell the subtask that
// emitted it.
func beside(nodes []*graph.Node, sinks map[string]bool) []*graph.Node {
	var all []*graph.Node
	for _, n := range nodes {
		if !sinks[n.ID] {
			all = append(all, n)
			continue
		}
		for i, in := range n.Inputs {
			one := *n
			if i > 0 {
				one.ID = fmt.Sprintf("%s-from-%d", n.ID, i+1)
			}
			if in.Partition != graph.Broadcast {
				in.Partition, one.Parallelism = graph.Forward, in.From.Parallelism
			}
			one.Inputs = []graph.Edge{in}
			all = append(all, &one)
		}
	}
	return all
}

// running makes sure that the job runs, for a step that the test calls by name.
func (c *core) running(step string) {
	c.t.Helper()
	c.idle(step)
	switch {
	case c.closed:
		c.t.Fatalf("%s after Close", step)
	case c.failed:
		c.t.Fatalf("%s: the job has failed; go on from an earlier snapshot with Restore", step)
	case c.run == nil:
		c.start(c.opts.from)
	}
}

// idle refuses a step from within another.
func (c *core) idle(step string) {
	c.t.Helper()
	if c.busy {
		c.t.Fatalf("%s is called by the code under test, while the harness runs it; the test itself is to call it, between two steps", step)
	}
}

// work lets code under test run. An error is that of the job.
func (c *core) work(do func() error) {
	c.t.Helper()
	if err := c.guarded(do); err != nil {
		c.fail(err)
	}
}

func (c *core) guarded(do func() error) error {
	c.busy = true
	defer func() { c.busy = false }()
	return do()
}

// start opens the job, from a snapshot if there is one.
func (c *core) start(from *Snapshot) {
	c.t.Helper()
	c.starts++
	o := embedded.SteppedOptions{
		Parallelism: c.opts.parallelism, MaxParallelism: c.opts.maxParallelism, Attempt: c.starts,
		Blobs: c.blobs, Now: func() int64 { return c.clock.millis }, Logger: logger(c.t),
	}
	if from != nil {
		o.From = &from.stored
	}
	c.work(func() (err error) {
		c.run, err = embedded.NewStepped(c.graph, o)
		return err
	})
	c.failed = false
	if from == nil {
		split, err := json.Marshal(channel{})
		if err != nil {
			c.t.Fatal(err)
		}
		c.run.Assign(inputID, 0, split)
	}
	c.settle()
}

// endRounds bounds the work of a step when the input has ended. A timer that
// sets itself again does so for ever then: event time is at its end.
const endRounds = 5

// settle lets the job work until nothing is left to do.
func (c *core) settle() {
	c.t.Helper()
	c.work(func() error {
		if c.ending {
			return c.run.SettleWithin(endRounds)
		}
		return c.run.Settle()
	})
}

// advance moves the clock, from timer to timer.
func (c *core) advance(to clock) {
	c.t.Helper()
	for {
		at, ok := c.run.Alarm()
		if !ok || at > to.millis {
			break
		}
		if at > c.clock.millis {
			c.clock = clock{millis: at}
		}
		c.settle()
	}
	c.clock = to
	c.settle()
}

// fail ends the job with its error: the test with it, unless it is tried.
func (c *core) fail(err error) {
	c.t.Helper()
	if errors.Is(err, window.ErrNoTimestamp) {
		err = fmt.Errorf("give the harness streamtest.Timestamps, or use PushAt: %w", err)
	}
	c.stop()
	c.failed = true
	if c.trying > 0 {
		panic(failure{err})
	}
	c.t.Fatalf("the job failed: %v", err)
}

// stop closes the job, if it runs.
func (c *core) stop() {
	c.t.Helper()
	run := c.run
	if run == nil {
		return
	}
	c.run = nil
	if err := c.guarded(run.Close); err != nil {
		c.t.Errorf("closing the job: %v", err)
	}
}

// sum adds something up over all subtasks of all operators.
func (c *core) sum(of func(embedded.Subtask) int64) (sum int64) {
	c.t.Helper()
	c.running("a look at counters")
	for _, n := range c.graph.Nodes {
		for _, s := range c.run.Subtasks(n.ID) {
			sum += of(s)
		}
	}
	return sum
}

func text(millis int64) string {
	return time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z")
}
