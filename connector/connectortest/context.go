// Package connectortest drives sources and sinks without an engine, for the
// tests of connectors.
package connectortest

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weirstream/weir/connector"
)

// Context is the part of a connector's world that is the same for sources and
// sinks. The zero value of each field is usable. It implements
// connector.SinkContext and connector.CommitterContext.
type Context struct {
	Ctx           context.Context
	Log           *slog.Logger
	JobName       string
	LineageID     string
	Former        []connector.FormerLineage
	AttemptNumber int64
	OperatorID    string
	SubtaskIndex  int
	SubtaskCount  int
	Interval      time.Duration
	Timeout       time.Duration
	// Hosts names the machine of each reader's subtask; those beyond it have
	// none.
	Hosts    []string
	mu       sync.Mutex
	counters map[string]int64
	gauges   map[[2]string]int64
}

// Context returns Ctx, or the background context.
func (c *Context) Context() context.Context {
	if c.Ctx == nil {
		return context.Background()
	}
	return c.Ctx
}

// Logger returns Log, or one that discards.
func (c *Context) Logger() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}

// Job returns JobName.
func (c *Context) Job() string { return c.JobName }

// Lineage returns LineageID.
func (c *Context) Lineage() string { return c.LineageID }

// FormerLineages returns Former.
func (c *Context) FormerLineages() []connector.FormerLineage { return c.Former }

// Attempt returns AttemptNumber.
func (c *Context) Attempt() int64 { return c.AttemptNumber }

// Operator returns OperatorID.
func (c *Context) Operator() string { return c.OperatorID }

// Subtask returns SubtaskIndex.
func (c *Context) Subtask() int { return c.SubtaskIndex }

// Parallelism returns SubtaskCount, at least 1.
func (c *Context) Parallelism() int { return max(1, c.SubtaskCount) }

// CheckpointInterval returns Interval.
func (c *Context) CheckpointInterval() time.Duration { return c.Interval }

// CheckpointTimeout returns Timeout.
func (c *Context) CheckpointTimeout() time.Duration { return c.Timeout }

// Count adds to a counter.
func (c *Context) Count(name string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counters == nil {
		c.counters = map[string]int64{}
	}
	c.counters[name] += n
}

// Counter returns the value of a counter.
func (c *Context) Counter(name string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counters[name]
}

// Config returns what a source may know of its job.
func (c *Context) Config() connector.Config {
	return connector.Config{
		Job: c.JobName, Operator: c.OperatorID, Attempt: c.AttemptNumber, MaxParallelism: 128,
		CheckpointInterval: c.Interval, CheckpointTimeout: c.Timeout,
	}
}

func (c *Context) host(subtask int) string {
	if subtask < len(c.Hosts) {
		return c.Hosts[subtask]
	}
	return ""
}

// SetGauge sets a value.
func (c *Context) SetGauge(name, split string, value int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gauges == nil {
		c.gauges = map[[2]string]int64{}
	}
	c.gauges[[2]string{name, split}] = value
}

// Gauge returns the last value set, of whichever subtask.
func (c *Context) Gauge(name, split string) (value int64, set bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, set = c.gauges[[2]string{name, split}]
	return value, set
}
