package streamtest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
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
	// clock is the wall clock in milliseconds.
	clock int64

	sides     int
	starts    int64
	snapshots int64
	// run is nil before the first step, and after the last.
	run    *embedded.Stepped
	trying int
	failed bool
	closed bool
}

func (c *core) build() {
	c.t.Helper()
	g, err := c.job.Build()
	if err != nil {
		c.t.Fatalf("the pipeline cannot be built: %v", err)
	}
	c.graph = g
}

// running makes sure that the job runs, for a step that the test calls by name.
func (c *core) running(step string) {
	c.t.Helper()
	switch {
	case c.closed:
		c.t.Fatalf("%s after Close", step)
	case c.failed:
		c.t.Fatalf("%s: %v", step, errStopped)
	case c.run == nil:
		c.start(c.opts.from)
	}
}

// start opens the job, from a snapshot if there is one.
func (c *core) start(from *Snapshot) {
	c.t.Helper()
	c.starts++
	o := embedded.SteppedOptions{
		Parallelism: c.opts.parallelism, MaxParallelism: c.opts.maxParallelism, Attempt: c.starts,
		Blobs: c.blobs, Now: func() int64 { return c.clock },
	}
	if from != nil {
		o.From = &from.stored
	}
	run, err := embedded.NewStepped(c.graph, o)
	if err != nil {
		c.fail(err)
	}
	c.run, c.failed = run, false
	if from == nil {
		split, err := json.Marshal(channel{})
		if err != nil {
			c.t.Fatal(err)
		}
		run.Assign(inputID, 0, split)
	}
	c.settle()
}

// settle lets the job work until nothing is left to do.
func (c *core) settle() {
	c.t.Helper()
	if err := c.run.Settle(); err != nil {
		c.fail(err)
	}
}

// advance moves the clock, from timer to timer.
func (c *core) advance(to int64) {
	c.t.Helper()
	for {
		at, ok := c.run.Alarm()
		if !ok || at > to {
			break
		}
		c.clock = max(c.clock, at)
		c.settle()
	}
	c.clock = to
	c.settle()
}

// fail ends the job with its error: the test with it, unless it is tried.
func (c *core) fail(err error) {
	c.t.Helper()
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
	if err := run.Close(); err != nil {
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
