package checkpoint

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what a coordinator exports.
type metrics struct {
	completed, failed prometheus.Counter
	duration, size    prometheus.Gauge
}

func newMetrics(r prometheus.Registerer, job string) *metrics {
	labels := prometheus.Labels{"job": job}
	counter := func(name, help string) prometheus.Counter {
		return register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}))
	}
	return &metrics{
		completed: counter("weir_coordinator_snapshots_completed_total", "Checkpoints and savepoints completed."),
		failed:    counter("weir_coordinator_snapshots_failed_total", "Checkpoints and savepoints failed."),
		duration:  gauge("weir_coordinator_last_snapshot_duration_seconds", "Duration of the last completed snapshot, from its trigger."),
		size:      gauge("weir_coordinator_last_snapshot_bytes", "Bytes written by the tasks for the last completed snapshot."),
	}
}

// register registers a metric, or takes the one that an earlier attempt of
// the process registered.
func register[M prometheus.Collector](r prometheus.Registerer, m M) M {
	if r == nil {
		return m
	}
	var already prometheus.AlreadyRegisteredError
	if err := r.Register(m); errors.As(err, &already) {
		if earlier, ok := already.ExistingCollector.(M); ok {
			return earlier
		}
	}
	return m
}

func (m *metrics) succeeded(n Notice) {
	m.completed.Inc()
	m.duration.Set(n.Duration.Seconds())
	m.size.Set(float64(n.Bytes))
}
