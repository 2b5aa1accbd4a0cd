package embedded

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	coord "github.com/weirstream/weir/internal/checkpoint"
)

// metrics are what a job exports: collected from the running attempt when
// asked for, so that the hot path knows nothing of them.
type metrics struct {
	job *Job

	records, late, load, watermark *prometheus.Desc
	custom, gauges                 *prometheus.Desc
	restarts, checkpointed         *prometheus.Desc
	duration, size                 *prometheus.Desc

	mu                sync.Mutex
	completed, failed int64
	last              CheckpointStatus
	// ended are the last snapshots that completed or failed.
	ended        []SnapshotStatus
	restored     int
	lastRestored *RestoredStatus
	counters     map[[2]string]int64
}

func newMetrics(j *Job) *metrics {
	// A constant label tells the jobs of one registry apart.
	job := prometheus.Labels{"job": j.graph.Job}
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("weir_"+name, help, labels, job)
	}
	return &metrics{
		job:          j,
		records:      d("records_total", "Records by operator and direction (in, out) since the attempt began.", "operator", "direction"),
		late:         d("late_records_total", "Records that came too late for all their windows.", "operator"),
		load:         d("task_seconds_total", "Time of subtasks by state (busy, idle, backpressured).", "stage", "state"),
		watermark:    d("watermark_seconds", "Event time an operator has come to.", "operator"),
		custom:       d("operator_events_total", "Counters of connectors and functions.", "operator", "name"),
		gauges:       d("source_value", "Values of sources, by split where they have one.", "operator", "name", "split"),
		restarts:     d("restarts_total", "Restarts of the job within this process."),
		checkpointed: d("checkpoints_total", "Checkpoints by outcome (completed, failed).", "outcome"),
		duration:     d("checkpoint_last_duration_seconds", "Duration of the last completed checkpoint."),
		size:         d("checkpoint_last_bytes", "Bytes written by the last completed checkpoint."),
		counters:     map[[2]string]int64{},
	}
}

// register takes the place of an earlier run of the job, whose last values
// stay readable until then. A run that is under way keeps its place.
func (m *metrics) register(r prometheus.Registerer) error {
	err := r.Register(m)
	var taken prometheus.AlreadyRegisteredError
	if !errors.As(err, &taken) {
		return err
	}
	if earlier, ok := taken.ExistingCollector.(*metrics); ok && earlier.job.isOver() {
		r.Unregister(earlier)
		return r.Register(m)
	}
	return err
}

// count adds to a counter of a component that outlives attempts' metrics.
func (m *metrics) count(operator, name string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counters[[2]string{operator, name}] += n
}

func (m *metrics) checkpoints() (completed, failed int64, last CheckpointStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.completed, m.failed, m.last
}

// coordinatorEvent passes the coordinator's events on.
func (a *attempt) coordinatorEvent(e coord.Notice) {
	m := a.job.m
	out := Event{Attempt: a.number(), Checkpoint: e.ID, Duration: e.Duration, Bytes: e.Bytes, Err: e.Err,
		Encoding: time.Duration(e.AsyncNanos), BarrierMax: time.Duration(e.BarrierNanos),
	}
	m.mu.Lock()
	m.remember(e)
	if e.Err == nil {
		out.Kind = CheckpointCompleted
		m.completed++
		m.last = CheckpointStatus{
			ID: e.ID, Duration: e.Duration, Bytes: e.Bytes, Encoding: out.Encoding, BarrierMax: out.BarrierMax,
		}
	} else {
		out.Kind = CheckpointFailed
		m.failed++
	}
	m.mu.Unlock()
	a.job.event(out)
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.records, m.late, m.load, m.watermark, m.custom, m.gauges, m.restarts, m.checkpointed, m.duration, m.size,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	s := m.job.Status()
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter(m.restarts, float64(s.Restarts))
	counter(m.checkpointed, float64(s.Checkpoints), "completed")
	counter(m.checkpointed, float64(s.FailedCheckpoints), "failed")
	gauge(m.duration, s.LastCheckpoint.Duration.Seconds())
	gauge(m.size, float64(s.LastCheckpoint.Bytes))
	for _, o := range s.Operators {
		counter(m.records, float64(o.RecordsIn), o.ID, "in")
		counter(m.records, float64(o.RecordsOut), o.ID, "out")
		counter(m.late, float64(o.Late), o.ID)
		if o.Watermark > math.MinInt64 && o.Watermark < math.MaxInt64 {
			gauge(m.watermark, float64(o.Watermark)/1000, o.ID)
		}
		for _, g := range o.Gauges {
			gauge(m.gauges, float64(g.Value), o.ID, g.Name, g.Split)
		}
	}
	for k, v := range m.allCounters(s) {
		counter(m.custom, float64(v), k[0], k[1])
	}
	loads := map[string]*TaskStatus{}
	for _, t := range s.Tasks {
		l := loads[t.Task.Stage]
		if l == nil {
			l = &TaskStatus{}
			loads[t.Task.Stage] = l
		}
		l.Busy, l.Idle, l.BackPressured = l.Busy+t.Busy, l.Idle+t.Idle, l.BackPressured+t.BackPressured
	}
	for id, l := range loads {
		counter(m.load, l.Busy.Seconds(), id, "busy")
		counter(m.load, l.Idle.Seconds(), id, "idle")
		counter(m.load, l.BackPressured.Seconds(), id, "backpressured")
	}
}

func (m *metrics) allCounters(s Status) map[[2]string]int64 {
	all := map[[2]string]int64{}
	m.mu.Lock()
	for k, v := range m.counters {
		all[k] += v
	}
	m.mu.Unlock()
	for _, o := range s.Operators {
		for n, v := range o.Counters {
			all[[2]string{o.ID, n}] += v
		}
	}
	return all
}
