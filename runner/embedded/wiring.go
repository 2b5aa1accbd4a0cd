package embedded

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
)

// wiring is one attempt's tasks and the queues between them. It is not changed
// any more once the attempt has it: a region that starts again brings another.
type wiring struct {
	tasks []*stage.Task
	// at is where in tasks a task is.
	at map[stage.TaskID]int
	// sources are the tasks by the id of their source, by subtask.
	sources map[string][]*stage.Task
	loads   map[stage.TaskID]*stage.Load
	metrics map[string][]*stage.Metrics // by operator, by subtask
	// past is what tasks counted that others have replaced.
	past recordCounts
	// configs, and metrics of enumerators, by source.
	configs           map[string]connector.Config
	enumeratorMetrics map[string]*stage.Metrics
}

// newWiring has room for the tasks of a plan.
func newWiring(plan *graph.Plan) *wiring {
	w := &wiring{
		at: map[stage.TaskID]int{}, sources: map[string][]*stage.Task{},
		loads: map[stage.TaskID]*stage.Load{}, metrics: map[string][]*stage.Metrics{},
		configs: map[string]connector.Config{}, enumeratorMetrics: map[string]*stage.Metrics{},
	}
	for _, s := range plan.Stages {
		for i := range s.Parallelism {
			id := stage.TaskID{Stage: s.ID, Subtask: i}
			w.at[id] = len(w.at)
			w.loads[id] = &stage.Load{}
		}
		for _, n := range s.Nodes {
			w.metrics[n.ID] = make([]*stage.Metrics, s.Parallelism)
		}
		if head := s.Head(); head.Role == graph.Source {
			w.sources[head.ID] = make([]*stage.Task, s.Parallelism)
			w.enumeratorMetrics[head.ID] = &stage.Metrics{}
		}
	}
	w.tasks = make([]*stage.Task, len(w.at))
	return w
}

// clone is a copy in which tasks can be replaced.
func (w *wiring) clone() *wiring {
	c := *w
	c.tasks, c.sources, c.metrics = slices.Clone(w.tasks), maps.Clone(w.sources), maps.Clone(w.metrics)
	for op, ts := range c.sources {
		c.sources[op] = slices.Clone(ts)
	}
	for op, ms := range c.metrics {
		c.metrics[op] = slices.Clone(ms)
	}
	return &c
}

// wirer makes the tasks of one region, into a wiring.
type wirer struct {
	job     *Job
	attempt *attempt
	region  *region
	from    *restored
	out     *wiring
	wakers  map[stage.TaskID]*stage.Waker
	// channels by consumer task, in order of producing edge and subtask, and
	// whether they lead to the second input.
	inputs map[stage.TaskID][]stage.Input
	second map[stage.TaskID][]bool
	// writers by producing task.
	writers map[stage.TaskID][]edgeWriter
}

type edgeWriter struct {
	edge   graph.CrossEdge
	writer stage.Writer
}

// wire makes the tasks of all regions, which start from what the attempt does.
func (a *attempt) wire() (*wiring, error) {
	out := newWiring(a.plan)
	a.makeUploads()
	if a.restored != nil {
		a.restored.share = a.start.Share
	}
	for _, r := range a.regions {
		if err := a.wireRegion(r, a.restored, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (a *attempt) wireRegion(r *region, from *restored, out *wiring) error {
	w := &wirer{
		job: a.job, attempt: a, region: r, from: from, out: out,
		wakers: map[stage.TaskID]*stage.Waker{}, inputs: map[stage.TaskID][]stage.Input{},
		second:  map[stage.TaskID][]bool{},
		writers: map[stage.TaskID][]edgeWriter{},
	}
	for _, t := range r.Tasks {
		w.wakers[t] = stage.NewWaker()
	}
	for _, s := range a.plan.Stages {
		for _, e := range s.Inputs {
			if err := w.connect(e); err != nil {
				return err
			}
		}
	}
	for _, t := range r.Tasks {
		if err := w.task(a.stages[t.Stage], t); err != nil {
			return err
		}
	}
	return nil
}

// connect makes the region's channels and writers of an edge between two
// stages. A forward edge has one channel per subtask, every other one per pair.
func (w *wirer) connect(e graph.CrossEdge) error {
	body, ok := e.Edge.Body.(stage.EdgeBody)
	if !ok {
		return fmt.Errorf("edge %s -> %s has no writer", e.Producer.ID, e.Consumer.ID)
	}
	for p := range e.From.Parallelism {
		from := stage.TaskID{Stage: e.From.ID, Subtask: p}
		if w.wakers[from] == nil {
			continue
		}
		var targets []stage.Channel
		for c := range e.To.Parallelism {
			if e.Partition == graph.Forward && c != p {
				continue
			}
			to := stage.TaskID{Stage: e.To.ID, Subtask: c}
			ch := w.attempt.connect(w.region, w.wakers[from], w.wakers[to])
			targets = append(targets, ch)
			w.inputs[to] = append(w.inputs[to], ch)
			w.second[to] = append(w.second[to], e.Edge.Second)
		}
		writer, err := body.NewWriter(e.Partition, targets, p, e.To.MaxParallelism)
		if err != nil {
			return fmt.Errorf("edge %s -> %s: %w", e.Producer.ID, e.Consumer.ID, err)
		}
		w.writers[from] = append(w.writers[from], edgeWriter{e, writer})
	}
	return nil
}

// task makes the operators of one subtask, connects them and makes the task.
func (w *wirer) task(s *graph.Stage, id stage.TaskID) error {
	c := stage.TaskConfig{
		ID: id, Inputs: w.inputs[id], Second: w.second[id], Waker: w.wakers[id], Host: w.attempt.host, Load: w.out.loads[id],
		BufferTimeout: w.job.opts.BufferTimeout, WatermarkInterval: w.job.opts.WatermarkInterval, Batch: w.job.batch,
		Now: w.attempt.now,
	}
	ops := map[*graph.Node]stage.Operator{}
	for _, n := range s.Nodes {
		op := n.Body.(stage.Body).NewOperator()
		ops[n] = op
		c.Operators, c.Contexts = append(c.Operators, op), append(c.Contexts, w.context(s, n, id))
	}
	for _, n := range s.Nodes[1:] {
		in := n.Inputs[0]
		if err := ops[in.From].Connect(in.Tag, ops[n].Input()); err != nil {
			return fmt.Errorf("%s -> %s: %w", in.From.ID, n.ID, err)
		}
	}
	for _, ew := range w.writers[id] {
		if err := ops[ew.edge.Producer].Connect(ew.edge.Edge.Tag, ew.writer.Receiver()); err != nil {
			return fmt.Errorf("%s -> %s: %w", ew.edge.Producer.ID, ew.edge.Consumer.ID, err)
		}
		c.Outputs = append(c.Outputs, ew.writer)
	}
	t := stage.NewTask(c)
	w.out.tasks[w.out.at[id]] = t
	if head := s.Head(); head.Role == graph.Source {
		w.out.sources[head.ID][id.Subtask] = t
	}
	return nil
}

func (w *wirer) context(s *graph.Stage, n *graph.Node, id stage.TaskID) *stage.Context {
	m := &stage.Metrics{}
	m.Watermark.Store(math.MinInt64)
	if old := w.out.metrics[n.ID][id.Subtask]; old != nil {
		w.out.past.count(n, old)
	}
	w.out.metrics[n.ID][id.Subtask] = m
	ctx := w.region.ctx
	restore := w.from.restoreFor(ctx, n, id.Subtask, s.Parallelism)
	o := w.job.opts
	c := &stage.Context{
		Context: ctx, Job: w.job.graph.Job, Lineage: w.attempt.start.Lineage, Attempt: w.attempt.start.Number,
		Operator: n.ID, Subtask: id.Subtask, Parallelism: s.Parallelism, MaxParallelism: s.MaxParallelism,
		Logger:  w.job.opts.Logger.With("operator", n.ID, "subtask", id.Subtask),
		Metrics: m, Now: w.attempt.now, Batch: w.job.batch, Restore: restore, Wake: w.wakers[id].Wake, Fail: w.region.fail,
		Incremental: o.Checkpoint.Incremental && o.Checkpoint.Enabled(),
		Alignment:   &w.attempt.alignment,
		Pool:        w.job.pool, Tier: w.attempt.tier(ctx, w.from, n.ID, id.Subtask, restore),
	}
	if o.Checkpoint.Interval > 0 {
		c.CheckpointInterval, c.CheckpointTimeout = o.Checkpoint.Interval.Milliseconds(), o.Checkpoint.Timeout.Milliseconds()
	}
	if n.Role == graph.Source {
		op := n.ID
		if id.Subtask == 0 {
			w.out.configs[op] = c.Config()
		}
		c.ToEnumerator = func(m stage.ReaderMessage) { w.attempt.enumerators[op].message(m) }
	}
	return c
}
