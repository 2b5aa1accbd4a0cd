package embedded

import (
	"context"
	"fmt"
	"math"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
)

// wiring is one attempt's tasks and the queues between them.
type wiring struct {
	tasks   []*stage.Task
	byStage map[string][]*stage.Task
	// sources are the tasks by the id of their source.
	sources map[string][]*stage.Task
	loads   map[stage.TaskID]*stage.Load
	metrics map[string][]*stage.Metrics // by operator, by subtask
	// configs, and metrics of enumerators, by source.
	configs           map[string]connector.Config
	enumeratorMetrics map[string]*stage.Metrics
}

// wirer builds a wiring.
type wirer struct {
	job     *Job
	attempt *attempt
	ctx     context.Context
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

func (a *attempt) wire(ctx context.Context, plan *graph.Plan) (*wiring, error) {
	w := &wirer{
		job: a.job, attempt: a, ctx: ctx,
		out: &wiring{
			byStage: map[string][]*stage.Task{}, sources: map[string][]*stage.Task{},
			loads: map[stage.TaskID]*stage.Load{}, metrics: map[string][]*stage.Metrics{},
			configs: map[string]connector.Config{}, enumeratorMetrics: map[string]*stage.Metrics{},
		},
		wakers: map[stage.TaskID]*stage.Waker{}, inputs: map[stage.TaskID][]stage.Input{},
		second:  map[stage.TaskID][]bool{},
		writers: map[stage.TaskID][]edgeWriter{},
	}
	a.makeUploads()
	for _, s := range plan.Stages {
		for i := range s.Parallelism {
			w.wakers[stage.TaskID{Stage: s.ID, Subtask: i}] = stage.NewWaker()
		}
	}
	for _, s := range plan.Stages {
		for _, e := range s.Inputs {
			if err := w.connect(e); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range plan.Stages {
		for i := range s.Parallelism {
			if err := w.task(s, i); err != nil {
				return nil, err
			}
		}
	}
	return w.out, nil
}

// connect makes the channels and writers of an edge between two stages. A
// forward edge has one channel per subtask, every other one per pair.
func (w *wirer) connect(e graph.CrossEdge) error {
	body, ok := e.Edge.Body.(stage.EdgeBody)
	if !ok {
		return fmt.Errorf("edge %s -> %s has no writer", e.Producer.ID, e.Consumer.ID)
	}
	for p := range e.From.Parallelism {
		from := stage.TaskID{Stage: e.From.ID, Subtask: p}
		var targets []stage.Channel
		for c := range e.To.Parallelism {
			if e.Partition == graph.Forward && c != p {
				continue
			}
			to := stage.TaskID{Stage: e.To.ID, Subtask: c}
			ch := w.attempt.connect(w.wakers[from], w.wakers[to])
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
func (w *wirer) task(s *graph.Stage, subtask int) error {
	id := stage.TaskID{Stage: s.ID, Subtask: subtask}
	c := stage.TaskConfig{
		ID: id, Inputs: w.inputs[id], Second: w.second[id], Waker: w.wakers[id], Host: w.attempt.host, Load: &stage.Load{},
		BufferTimeout: w.job.opts.BufferTimeout, WatermarkInterval: w.job.opts.WatermarkInterval, Batch: w.job.batch,
		Now: w.attempt.now,
	}
	ops := map[*graph.Node]stage.Operator{}
	for _, n := range s.Nodes {
		op := n.Body.(stage.Body).NewOperator()
		ops[n] = op
		ctx, err := w.context(s, n, id)
		if err != nil {
			return err
		}
		c.Operators, c.Contexts = append(c.Operators, op), append(c.Contexts, ctx)
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
	w.out.tasks = append(w.out.tasks, t)
	w.out.byStage[s.ID] = append(w.out.byStage[s.ID], t)
	w.out.loads[id] = c.Load
	if head := s.Head(); head.Role == graph.Source {
		w.out.sources[head.ID] = append(w.out.sources[head.ID], t)
	}
	return nil
}

func (w *wirer) context(s *graph.Stage, n *graph.Node, id stage.TaskID) (*stage.Context, error) {
	m := &stage.Metrics{}
	m.Watermark.Store(math.MinInt64)
	w.out.metrics[n.ID] = append(w.out.metrics[n.ID], m)
	restore, err := w.attempt.restoreFor(w.ctx, n, id.Subtask, s.Parallelism)
	if err != nil {
		return nil, err
	}
	o := w.job.opts
	c := &stage.Context{
		Context: w.ctx, Job: w.job.graph.Job, Lineage: w.attempt.start.Lineage, Attempt: w.attempt.start.Number,
		Operator: n.ID, Subtask: id.Subtask, Parallelism: s.Parallelism, MaxParallelism: s.MaxParallelism,
		Logger:  w.job.opts.Logger.With("operator", n.ID, "subtask", id.Subtask),
		Metrics: m, Now: w.attempt.now, Batch: w.job.batch, Restore: restore, Wake: w.wakers[id].Wake, Fail: w.attempt.fail,
		Incremental: o.Checkpoint.Incremental && o.Checkpoint.Enabled(),
		Alignment:   &w.attempt.alignment,
		Pool:        w.job.pool, Tier: w.attempt.tier(n.ID, id.Subtask, restore),
	}
	if o.Checkpoint.Interval > 0 {
		c.CheckpointInterval, c.CheckpointTimeout = o.Checkpoint.Interval.Milliseconds(), o.Checkpoint.Timeout.Milliseconds()
	}
	if n.Role == graph.Source {
		op := n.ID
		if id.Subtask == 0 {
			w.out.configs[op], w.out.enumeratorMetrics[op] = c.Config(), &stage.Metrics{}
		}
		c.ToEnumerator = func(m stage.ReaderMessage) { w.attempt.enumerators[op].message(m) }
	}
	return c, nil
}
