package runner

import (
	"sync"
	"time"

	"github.com/weirstream/weir/runner/embedded"
)

// jobState is what a job is doing.
type jobState string

const (
	standingBy jobState = "standing by"
	starting   jobState = "starting"
	running    jobState = "running"
	restarting jobState = "restarting"
	suspending jobState = "suspending"
	suspended  jobState = "suspended"
	finished   jobState = "finished"
	cancelled  jobState = "cancelled"
	failed     jobState = "failed"
)

// counts is what has happened to a job so far.
type counts struct {
	State    jobState
	Attempt  int64
	Restarts int64
	// Checkpoints completed and failed, and the last completed one.
	Checkpoints, Failed int64
	LastID              int64
	LastDuration        time.Duration
	LastBytes           int64
}

// tracker follows a job by its events. The engine calls event from any
// goroutine; it does not block.
type tracker struct {
	mu     sync.Mutex
	counts counts
	events []embedded.Event
	// keep makes events wait for take.
	keep bool
	// more has room for one signal that there are events to take.
	more chan struct{}
}

func newTracker(keep bool) *tracker {
	return &tracker{counts: counts{State: starting}, keep: keep, more: make(chan struct{}, 1)}
}

func (t *tracker) event(e embedded.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(e)
	if !t.keep {
		return
	}
	t.events = append(t.events, e)
	select {
	case t.more <- struct{}{}:
	default:
	}
}

func (t *tracker) count(e embedded.Event) {
	c := &t.counts
	switch e.Kind {
	case embedded.StandingBy:
		c.become(standingBy)
	case embedded.TakingOver:
		c.become(starting)
	case embedded.Started:
		c.Attempt = e.Attempt
		c.become(running)
	case embedded.CheckpointCompleted:
		c.Checkpoints++
		c.LastID, c.LastDuration, c.LastBytes = e.Checkpoint, e.Duration, e.Bytes
	case embedded.CheckpointFailed:
		c.Failed++
	case embedded.Failed:
		// If there is no restart, the end follows at once.
		c.become(restarting)
	case embedded.Restarting, embedded.RegionRestarted:
		c.Restarts++
	case embedded.Finished:
		c.State = finished
	case embedded.Suspended:
		c.State = suspended
	}
}

// become changes the state, but a job that is asked to suspend stays so
// until its end.
func (c *counts) become(s jobState) {
	if c.State != suspending {
		c.State = s
	}
}

func (t *tracker) suspend() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.State = suspending
}

// end settles the last state from what the engine returned.
func (t *tracker) end(err error, ctxEnded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.counts
	switch {
	case err == nil && c.State == suspending:
		c.State = suspended
	case err == nil && c.State != suspended:
		c.State = finished
	case err != nil && ctxEnded:
		c.State = cancelled
	case err != nil:
		c.State = failed
	}
}

func (t *tracker) snapshot() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

func (t *tracker) state() jobState { return t.snapshot().State }

// take returns the events since the last call.
func (t *tracker) take() []embedded.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	es := t.events
	t.events = nil
	return es
}
