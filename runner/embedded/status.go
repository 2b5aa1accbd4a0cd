package embedded

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
)

// Status is what a job is doing.
type Status struct {
	// State is created, standing by, starting, running, restarting, finished,
	// suspended, canceled or failed.
	State    string `json:"state"`
	Job      string `json:"job"`
	Attempt  int64  `json:"attempt"`
	Restarts int    `json:"restarts"`
	// Failure is the last error, "" if none.
	Failure string        `json:"failure,omitempty"`
	Uptime  time.Duration `json:"uptime"`
	// Started is when Run was called, zero before; Changed when State came to be.
	Started time.Time `json:"started,omitzero"`
	Changed time.Time `json:"changed,omitzero"`
	// RecordsIn counts what sources emitted, RecordsOut what sinks took, over
	// all attempts of this process.
	RecordsIn  int64 `json:"records_in"`
	RecordsOut int64 `json:"records_out"`
	// Checkpoints completed and failed by this process.
	Checkpoints       int64            `json:"checkpoints"`
	FailedCheckpoints int64            `json:"failed_checkpoints"`
	LastCheckpoint    CheckpointStatus `json:"last_checkpoint"`
	Operators         []OperatorStatus `json:"operators,omitempty"`
	Tasks             []TaskStatus     `json:"tasks,omitempty"`
}

// CheckpointStatus describes a completed checkpoint.
type CheckpointStatus struct {
	ID       int64         `json:"id"`
	Duration time.Duration `json:"duration"`
	Bytes    int64         `json:"bytes"`
	// Encoding is the CPU time of encoding and writing, summed over subtasks;
	// BarrierMax the longest time one subtask spent on its barrier.
	Encoding   time.Duration `json:"encoding"`
	BarrierMax time.Duration `json:"barrier_max"`
}

// OperatorStatus sums an operator's subtasks.
type OperatorStatus struct {
	ID         string           `json:"id"`
	Kind       string           `json:"kind"`
	RecordsIn  int64            `json:"records_in"`
	RecordsOut int64            `json:"records_out"`
	Late       int64            `json:"late,omitempty"`
	Watermark  int64            `json:"watermark"`
	Counters   map[string]int64 `json:"counters,omitempty"`
	Gauges     []Gauge          `json:"gauges,omitempty"`
}

// Gauge is a value of a source: of one of its splits, or, summed over the
// subtasks, of all of it if Split is "".
type Gauge struct {
	Name  string `json:"name"`
	Split string `json:"split,omitempty"`
	Value int64  `json:"value"`
}

// TaskStatus tells how a subtask spends its time since its start.
type TaskStatus struct {
	Task                      stage.TaskID  `json:"task"`
	Busy, Idle, BackPressured time.Duration `json:",omitzero"`
}

// recordCounts sums the records of sources and sinks.
type recordCounts struct{ in, out int64 }

func (r *recordCounts) add(o recordCounts) { r.in, r.out = r.in+o.in, r.out+o.out }

// counts sums what the sources and sinks of the attempt have counted.
func (a *attempt) counts() recordCounts {
	w := a.wiring.Load()
	c := w.past
	for _, n := range a.job.graph.Nodes {
		for _, m := range w.metrics[n.ID] {
			c.count(n, m)
		}
	}
	return c
}

// count adds what a subtask of a source, or a sink, has counted.
func (r *recordCounts) count(n *graph.Node, m *stage.Metrics) {
	switch n.Role {
	case graph.Source:
		r.in += m.RecordsOut.Load()
	case graph.Sink:
		r.out += m.RecordsOut.Load()
	}
}

// Status may be called from any goroutine at any time.
func (j *Job) Status() Status {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := Status{State: j.state, Job: j.graph.Job, Restarts: j.restarts, Started: j.started, Changed: j.changed}
	if !j.started.IsZero() {
		s.Uptime = time.Since(j.started)
	}
	if j.failure != nil {
		s.Failure = j.failure.Error()
	}
	counts := j.done
	s.Checkpoints, s.FailedCheckpoints, s.LastCheckpoint = j.m.checkpoints()
	if a := j.current; a != nil {
		s.Attempt = a.number()
		counts.add(a.counts())
		s.Operators, s.Tasks = a.operatorStatus(), a.taskStatus()
	}
	s.RecordsIn, s.RecordsOut = counts.in, counts.out
	return s
}

// Plan is how the running attempt, or the last one, divides the job into
// stages. Before the first one it is that of a start from nothing. It must not
// be changed.
func (j *Job) Plan() *graph.Plan {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.plan
}

func (a *attempt) operatorStatus() []OperatorStatus {
	var ops []OperatorStatus
	w := a.wiring.Load()
	for _, n := range a.job.graph.Nodes {
		o := OperatorStatus{ID: n.ID, Kind: n.Kind}
		gauges := map[stage.GaugeID]int64{}
		for i, m := range w.metrics[n.ID] {
			o.RecordsIn += m.RecordsIn.Load()
			o.RecordsOut += m.RecordsOut.Load()
			o.Late += m.Late.Load()
			if wm := m.Watermark.Load(); i == 0 || wm < o.Watermark {
				o.Watermark = wm
			}
			o.addCustom(m, gauges)
		}
		if m := w.enumeratorMetrics[n.ID]; m != nil {
			o.addCustom(m, gauges)
		}
		o.Gauges = listed(gauges)
		ops = append(ops, o)
	}
	return ops
}

// addCustom adds what functions and connectors measure.
func (o *OperatorStatus) addCustom(m *stage.Metrics, gauges map[stage.GaugeID]int64) {
	m.Each(func(name string, v int64) {
		if o.Counters == nil {
			o.Counters = map[string]int64{}
		}
		o.Counters[name] += v
	})
	for id, v := range m.Gauges() {
		gauges[id] += v
	}
}

func listed(gauges map[stage.GaugeID]int64) []Gauge {
	var l []Gauge
	for id, v := range gauges {
		l = append(l, Gauge{id.Name, id.Split, v})
	}
	slices.SortFunc(l, func(a, b Gauge) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Split, b.Split))
	})
	return l
}

func (a *attempt) taskStatus() []TaskStatus {
	var ts []TaskStatus
	for id, l := range a.wiring.Load().loads {
		ts = append(ts, TaskStatus{
			Task: id, Busy: time.Duration(l.Busy.Load()),
			Idle: time.Duration(l.Idle.Load()), BackPressured: time.Duration(l.BackPressured.Load()),
		})
	}
	sort.Slice(ts, func(i, k int) bool {
		if ts[i].Task.Stage != ts[k].Task.Stage {
			return ts[i].Task.Stage < ts[k].Task.Stage
		}
		return ts[i].Task.Subtask < ts[k].Task.Subtask
	})
	return ts
}

// BatchGap returns the quantile q of the times between the beginnings of two
// pieces of work of a stage with no wait between them, over all stages of the
// last attempt.
func (j *Job) BatchGap(q float64) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Duration(j.gaps.Quantile(q))
}
