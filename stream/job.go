// Package stream is how a job is written: sources, transformations of
// streams, keyed state, event-time windows and sinks.
//
// Building only records a graph; nothing runs. Errors are collected with the
// place in the program they come from and returned together by Job.Build, or
// by the runner. All transformations are free functions with the stream
// first. Functions passed to stateless transformations are shared by all
// subtasks and must not keep anything; functions with state are made by a
// constructor once per subtask and keep everything in handles of package
// state. A record must not be changed after it was emitted.
package stream

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/graph"
)

// Job collects a job's graph and the options set in code. It is used by one
// goroutine.
type Job struct {
	name  string
	nodes []*graph.Node
	errs  []error
	opts  JobOptions
}

// JobOptions are the options set in code; zero values are not set. They take
// precedence over a file and the environment; flags take precedence over them.
type JobOptions struct {
	// Parallelism is the number of subtasks of operators that set none.
	Parallelism int
	// MaxParallelism is the number of key groups. It is fixed by the first
	// snapshot.
	MaxParallelism int
	Checkpoint     checkpoint.Options
	Restart        checkpoint.Restart
	// BufferTimeout bounds how long a record waits for its batch to fill.
	BufferTimeout time.Duration
	// WatermarkInterval is the period of source watermarks under load.
	WatermarkInterval time.Duration
	StateBackend      StateBackend
	RuntimeMode       RuntimeMode
}

// RuntimeMode says how event time passes in a job whose sources end.
type RuntimeMode string

const (
	// Streaming is the default: results come while the input is read.
	Streaming RuntimeMode = "STREAMING"
	// Batch lets event time stand still until all sources have ended: no record
	// is late, and results of windows and timers come once, at the end. Wall-clock
	// timers fire then, too: processing time stands still. Sources that do not
	// end are refused. Exactly-once sinks commit at each checkpoint, every minute
	// if no interval is set.
	Batch RuntimeMode = "BATCH"
	// Automatic is Batch if all sources end, and Streaming otherwise.
	Automatic RuntimeMode = "AUTOMATIC"
)

// StateBackend is where keyed state lives.
type StateBackend string

const (
	// Heap keeps all keyed state in memory. It is the default.
	Heap StateBackend = "heap"
	// LSM keeps what does not fit into memory on local disk. How much memory it
	// takes is set by state.backend.lsm.memory.
	LSM StateBackend = "lsm"
)

// NewJob starts the graph of a job. The runner calls it and passes the job to
// the build function.
func NewJob(name string) *Job { return &Job{name: name} }

// Name returns the name of the job.
func (j *Job) Name() string { return j.name }

// Checkpoints sets the options of checkpoints.
func (j *Job) Checkpoints(o checkpoint.Options) { j.opts.Checkpoint = o }

// Restarts sets the restart strategy.
func (j *Job) Restarts(r checkpoint.Restart) { j.opts.Restart = r }

// StateBackend sets where keyed state lives. It may change from one run to the
// next: either restores the snapshots of the other.
func (j *Job) StateBackend(b StateBackend) { j.opts.StateBackend = b }

// RuntimeMode sets how event time passes. It may change from one run to the next.
func (j *Job) RuntimeMode(m RuntimeMode) { j.opts.RuntimeMode = m }

// Parallelism sets the number of subtasks of operators that set none.
func (j *Job) Parallelism(n int) { j.opts.Parallelism = n }

// MaxParallelism sets the number of key groups, the largest parallelism the
// job's state can ever be spread over.
func (j *Job) MaxParallelism(n int) { j.opts.MaxParallelism = n }

// BufferTimeout bounds how long a record waits for its batch to fill.
// Default 10 ms.
func (j *Job) BufferTimeout(d time.Duration) { j.opts.BufferTimeout = d }

// WatermarkInterval sets the period of source watermarks under load; an idle
// source passes its watermark on at once. Default 200 ms.
func (j *Job) WatermarkInterval(d time.Duration) { j.opts.WatermarkInterval = d }

// Options returns the options set in code.
func (j *Job) Options() JobOptions { return j.opts }

// Build validates and returns the graph. The error joins everything found
// wrong, each with its place in the program.
func (j *Job) Build() (*graph.Graph, error) {
	g := &graph.Graph{Job: j.name, Nodes: j.nodes}
	errs := append([]error(nil), j.errs...)
	if err := g.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return g, nil
}

// failf records a build error at the caller's place in the program.
func (j *Job) failf(site, format string, args ...any) {
	j.refuseZero(site)
	j.errs = append(j.errs, fmt.Errorf("%s: %w", site, fmt.Errorf(format, args...)))
}

// refuseZero panics for the job of the zero Stream, nil, which can keep no
// error for Build.
func (j *Job) refuseZero(site string) {
	if j == nil {
		panic(fmt.Sprintf("%s: a zero Stream or Keyed is used: streams come from stream.From and from transformations", site))
	}
}

// add appends a node; options have been applied.
func (j *Job) add(n *graph.Node) *graph.Node {
	j.refuseZero(n.Site)
	if n.ID == "" && !n.Stateful { // state is matched by id: that of others must be given
		n.ID = fmt.Sprintf("%s-%d", n.Kind, len(j.nodes)+1)
	}
	if n.Name == "" {
		n.Name = n.ID
	}
	j.nodes = append(j.nodes, n)
	return n
}

// builders are the packages that call stream for the user.
var builders = []string{"weirstream/weir/stream.", "weirstream/weir/streamtest."}

// site returns the first place on the call stack outside this package and the
// one that tests jobs.
func site() string {
	pc := make([]uintptr, 16)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	for {
		f, more := frames.Next()
		if !slices.ContainsFunc(builders, func(p string) bool { return strings.Contains(f.Function, p) }) || strings.HasSuffix(f.File, "_test.go") {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}
