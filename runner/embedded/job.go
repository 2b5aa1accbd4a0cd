package embedded

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/location"
)

// Job runs a graph, again and again as the restart strategy allows. Run may
// be called once.
type Job struct {
	graph *graph.Graph
	opts  Options
	batch bool
	// opener opens the storages that the options, and requests, name.
	opener *location.Opener
	log    *slog.Logger
	pool   *memory.Pool
	m      *metrics
	// process tells claims of this process from those of its namesakes in other
	// containers.
	process string
	// probed tells that the storage at a URL is known to be fit. It belongs to
	// the goroutine of Run.
	probed bool

	mu      sync.Mutex
	current *attempt
	// plan is that of the current attempt, or of the last one.
	plan *graph.Plan
	// endStart ends an attempt that has not begun to run, or the pause before.
	endStart  func()
	state     string
	suspended bool // asked for
	stopped   bool // ended by it, or by a savepoint
	ended     bool // Run has returned, or is about to
	restarts  int
	restarter *coord.Restarter
	failure   error
	started   time.Time
	changed   time.Time
	done      recordCounts // of attempts that are over
	gaps      stage.Histogram
}

// New validates the options against the graph. It opens nothing.
func New(g *graph.Graph, o Options) (*Job, error) {
	o.ensureDefaults()
	batch, err := IsBatch(g, o.RuntimeMode)
	errs := []error{err}
	if batch {
		Chunk(&o.Checkpoint)
	}
	o.Checkpoint.EnsureDefaults()
	if o.Storage == nil || o.Checkpoint.Dir != "" {
		errs = append(errs, o.Checkpoint.Validate())
	}
	o.Restart = checkpoint.DefaultRestart(o.Restart, o.Checkpoint.Interval > 0)
	errs = append(errs, o.Restart.Validate(), checkSinks(g, o.Checkpoint), checkStandby(o), checkFailover(o.Failover), o.settleBackend(memory.Limit()))
	plan, err := g.Plan(o.Parallelism, o.MaxParallelism)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	opener, err := settlePlaces(&o)
	if err != nil {
		return nil, err
	}
	j := &Job{graph: g, opts: o, batch: batch, opener: opener, log: o.Logger.With("job", g.Job), process: cryptorand.Text(), state: "created", plan: plan, changed: time.Now()}
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	j.restarter = coord.NewRestarter(o.Restart, random.Float64)
	j.m = newMetrics(j)
	return j, nil
}

// checkSinks refuses exactly-once sinks that cannot keep their promise.
func checkSinks(g *graph.Graph, c checkpoint.Options) error {
	var errs []error
	for _, n := range g.Nodes {
		b, ok := n.Body.(stage.SinkBody)
		if !ok || b.Delivery() != connector.ExactlyOnce {
			continue
		}
		switch {
		case c.Interval <= 0:
			errs = append(errs, fmt.Errorf("%s: sink %q delivers exactly once, which needs checkpoints: set execution.checkpointing.interval and execution.checkpointing.dir (--checkpoint-interval, --checkpoint-dir)", n.Site, n.ID))
		case c.Mode == checkpoint.AtLeastOnce:
			errs = append(errs, fmt.Errorf("%s: sink %q delivers exactly once, but execution.checkpointing.mode is at-least-once: use exactly-once mode or another delivery", n.Site, n.ID))
		}
	}
	return errors.Join(errs...)
}

// Run runs the job until it has finished or was suspended (nil), ctx ended
// (its cause), or it failed for good. When it returns nothing of the job runs
// any more.
func (j *Job) Run(ctx context.Context) error {
	j.mu.Lock()
	j.started = time.Now()
	j.mu.Unlock()
	j.pool = memory.NewPool(j.opts.HeapMemory)
	defer func() {
		if n := j.pool.InUse(); n != 0 {
			j.log.Warn("state memory was not given back", "bytes", n)
		}
		if err := j.pool.Close(); err != nil {
			j.log.Warn("giving state memory back", "error", err)
		}
	}()
	defer j.end()
	defer j.closeStorages()
	blobs, unlock, err := j.openStorage(ctx)
	if err == nil {
		defer unlock()
		if err := j.m.register(j.opts.Registerer); err != nil {
			j.log.Warn("registering metrics", "error", err)
		}
		err = j.attempts(ctx, blobs)
	}
	switch {
	case errors.Is(err, errSuspended):
		j.log.Info("the standby ends; it has not started the job")
		j.stop()
		j.event(Event{Kind: Suspended})
		j.setState("finished", nil)
		return nil
	case errors.Is(err, coord.ErrFinished):
		j.setState("finished", nil)
		return err
	case err == nil:
		j.setState("finished", nil)
	case ctx.Err() != nil:
		if errors.Is(err, ctx.Err()) {
			err = context.Cause(ctx)
		}
		j.setState("canceled", err)
	default:
		j.setState("failed", err)
	}
	return err
}

func (j *Job) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = true
}

// isOver reports whether Run is over.
func (j *Job) isOver() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended
}

// attempts starts the job until it ends, or fails for good.
func (j *Job) attempts(ctx context.Context, blobs storage.Blobs) error {
	opts, last := j.opts, int64(0)
	for {
		j.setState("starting", nil)
		begin := time.Now()
		a := newAttempt(j, opts, blobs, last)
		err := j.attempt(ctx, a)
		switch {
		case errors.Is(err, errSuspended):
			j.log.Warn("suspended while no attempt was running: the same command goes on from the last checkpoint")
			j.stop()
			j.event(Event{Kind: Suspended, Attempt: a.number()})
			return nil
		case errors.Is(err, coord.ErrFinished) && j.Status().Restarts > 0:
			// It is this process that finished it: only the answer was lost.
			j.event(Event{Kind: Finished, Attempt: a.number()})
			return nil
		case err == nil || ctx.Err() != nil || coord.Fatal(err):
			return err
		}
		if a.start != nil {
			// What was asked for is used up by the ledger's restored record.
			opts.RestorePath, opts.Rewind, opts.Fresh = "", false, false
			last = a.start.Number
		}
		j.event(Event{Kind: Failed, Attempt: a.number(), Err: err})
		d, ok := j.restartAfter(begin)
		if !ok {
			return err
		}
		j.log.Warn("attempt failed, restarting", "attempt", a.number(), "delay", d, "error", err)
		j.setState("restarting", err)
		suspended := j.pauseOrSuspend(ctx, d)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if suspended {
			continue
		}
		j.restarted()
		j.event(Event{Kind: Restarting, Attempt: a.number()})
	}
}

// restartAfter asks the restart strategy how long what began at begin, and has
// failed now, is to wait before it starts again; false if it must not.
func (j *Job) restartAfter(begin time.Time) (time.Duration, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.restarter.Failure(begin, time.Now())
}

// restarted counts a restart.
func (j *Job) restarted() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.restarts++
}

// errSuspended ends an attempt that has not begun to run.
var errSuspended = errors.New("suspended")

// attempt runs an attempt unless the job is suspended; while it starts,
// Suspend ends it.
func (j *Job) attempt(parent context.Context, a *attempt) error {
	starting, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	j.mu.Lock()
	suspended := j.suspended
	j.endStart = func() { cancel(errSuspended) }
	j.mu.Unlock()
	if suspended {
		return errSuspended
	}
	err := a.run(parent, starting)
	j.over(a)
	return err
}

// pauseOrSuspend waits for d, or until ctx ends or the job is suspended, and
// reports that.
func (j *Job) pauseOrSuspend(ctx context.Context, d time.Duration) (suspended bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	j.mu.Lock()
	if j.suspended {
		cancel()
	}
	j.endStart = cancel
	j.mu.Unlock()
	pause(ctx, d)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.suspended
}

func (j *Job) event(e Event) {
	e.Time = time.Now()
	j.opts.OnEvent(e)
}

func (j *Job) setState(s string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s == "finished" && j.stopped {
		s = "suspended"
	}
	j.state, j.failure, j.changed = s, err, time.Now()
}

// stop notes that the job ends before its input.
func (j *Job) stop() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopped = true
}

// begin makes a the running attempt.
func (j *Job) begin(a *attempt) {
	j.mu.Lock()
	j.current, j.plan, j.state, j.changed, j.endStart = a, a.plan, "running", time.Now(), nil
	suspend := j.suspended
	j.mu.Unlock()
	if suspend {
		a.coordinator.Suspend()
	}
}

// over keeps the counts of an attempt that has ended.
func (j *Job) over(a *attempt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if w := a.wiring.Load(); w != nil {
		j.done.add(a.counts())
		for _, l := range w.loads {
			j.gaps.AddAll(&l.Gaps)
		}
	}
	j.current = nil
}

// Suspend stops the job with a final snapshot from which the same command
// goes on: sources stop, the snapshot is taken, sinks commit, and Run returns
// nil. It returns at once, may be called from any goroutine and more than
// once. Without checkpoints the job just stops.
func (j *Job) Suspend() {
	j.mu.Lock()
	j.suspended = true
	a, endStart := j.current, j.endStart
	j.mu.Unlock()
	switch {
	case a != nil:
		a.coordinator.Suspend()
	case endStart != nil:
		endStart()
	}
}

func wallMillis() int64 { return time.Now().UnixMilli() }

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return h
}
