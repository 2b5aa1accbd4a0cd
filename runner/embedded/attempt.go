package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/alignment"
	"github.com/weirstream/weir/internal/backend/lsm"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/killpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/state"
)

// errDone ends the tasks of an attempt that has finished or was suspended.
var errDone = errors.New("done")

// attempt is one start of the job: it claims the ledger, restores, runs until
// something fails or all is done, and leaves nothing behind.
type attempt struct {
	job   *Job
	opts  Options
	blobs storage.Blobs
	// after is the number of the attempt that this one follows, 0 for none.
	after int64

	start       *coord.Attempt
	restored    *restored
	plan        *graph.Plan
	stages      map[string]*graph.Stage
	kinds       map[string]string
	committers  map[string]stage.Committer
	coordinator *coord.Coordinator
	wiring      atomic.Pointer[wiring]
	enumerators map[string]*enumerator
	gate        gate
	// regions are what can fail by itself, regionOf those of the tasks.
	regions  []*region
	regionOf map[stage.TaskID]*region
	rewiring sync.Mutex // held by the region that makes another wiring
	// uploads are what tasks write the files of snapshots by.
	uploads map[stage.TaskID]*snapshot.Uploads
	// alignment is where sources wait for others.
	alignment alignment.Groups
	// disk is nil if all state is in memory.
	disk *lsm.Disk

	// host is what tasks report to, connect makes their queues, target is
	// where a snapshot goes, now is their wall clock: a Stepped has its own.
	host    stage.Host
	connect func(r *region, producer, consumer *stage.Waker) queue
	target  func(id int64) (storage.Blobs, string, bool)
	now     func() int64

	// ctx is that of everything that runs; it ends some time after parent.
	parent, ctx context.Context
	cancel      context.CancelCauseFunc
	running     sync.WaitGroup
}

// queue is both ends of a channel between two tasks.
type queue interface {
	stage.Channel
	stage.Input
}

func newAttempt(j *Job, o Options, blobs storage.Blobs, after int64) *attempt {
	a := &attempt{job: j, opts: o, blobs: blobs, after: after, now: wallMillis}
	if j.batch { // processing time stands still
		start := wallMillis()
		a.now = func() int64 { return start }
	}
	a.host = a
	a.connect = func(r *region, producer, consumer *stage.Waker) queue {
		return exchange.New(producer, consumer, r.ctx.Done())
	}
	a.target = func(id int64) (storage.Blobs, string, bool) { return a.coordinator.Target(id) }
	return a
}

func (a *attempt) number() int64 {
	if a.start == nil {
		return 0
	}
	return a.start.Number
}

// run returns nil when the job has finished or was suspended. The end of
// starting, which is no later than that of parent, ends the attempt at once as
// long as no task runs.
func (a *attempt) run(parent, starting context.Context) (err error) {
	a.parent = parent
	a.ctx, a.cancel = context.WithCancelCause(context.WithoutCancel(parent))
	defer a.cancel(nil)
	stop := context.AfterFunc(starting, func() { a.cancel(context.Cause(starting)) })
	defer stop()
	defer a.closeCommitters()
	defer a.closeDisk()
	err = a.claim()
	if err == nil {
		err = guarded(a.prepare)
	}
	switch {
	case !stop():
		return context.Cause(starting)
	case err != nil:
		return a.standing(a.overtaken(err))
	}
	return a.standing(a.overtaken(a.work()))
}

// standing adds to an error where the job stands, if this start has moved it
// and nothing was completed since.
func (a *attempt) standing(err error) error {
	if a.start == nil || a.parent.Err() != nil || a.coordinator != nil && a.coordinator.Status().Completed > 0 {
		return err
	}
	return a.start.Standing(err)
}

// overtakenTimeout bounds the look into the ledger after an error.
const overtakenTimeout = 10 * time.Second

// overtaken finds out whether an error came only because another start has
// taken the job over.
func (a *attempt) overtaken(err error) error {
	if err == nil || a.start == nil || a.parent.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.parent, overtakenTimeout)
	defer cancel()
	return a.start.Overtaken(ctx, err)
}

// claim starts in the ledger's order: claim, list, choose, load, record.
func (a *attempt) claim() error {
	if err := a.job.probe(a.ctx, a.blobs); err != nil {
		return err
	}
	start, err := coord.Start(a.ctx, coord.StartOptions{
		Job: a.job.graph.Job, Blobs: a.blobs, RestorePath: a.opts.RestorePath, OpenPath: coord.OpenPath(a.ctx, a.job.opener),
		Claim: a.opts.Claim, Rewind: a.opts.Rewind, Fresh: a.opts.Fresh, Nth: a.opts.Nth, AcceptLoss: a.opts.AcceptLoss,
		After: a.after, ExactlyOnceSinks: a.exactlyOnce(), Prepare: a.fit, Describer: newDescriber(a.job.graph),
		Host: hostname(), PID: os.Getpid(), Process: a.job.process, Now: wallMillis, Logger: a.opts.Logger,
	})
	switch {
	case err == nil:
		a.start = start
		return nil
	case a.opts.RestorePath != "" && a.start == nil:
		err = coord.AsFatal(err) // what was asked for by hand is not retried in the dark
	}
	a.start = nil // it is not on record
	return err
}

// fit plans the job for the snapshot that a start has chosen, and makes the
// committers.
func (a *attempt) fit(_ context.Context, chosen *coord.Attempt) (map[string]stage.Committer, error) {
	a.start = chosen
	err := guarded(a.layOut)
	if err == nil {
		err = a.openCommitters()
	}
	a.permitRestarts()
	return a.committers, err
}

// openDir opens the directory that a savepoint is written below.
func (a *attempt) openDir(path string) (storage.Blobs, error) {
	return a.job.opener.Open(a.ctx, path)
}

func (a *attempt) exactlyOnce() bool {
	for _, n := range a.job.graph.Nodes {
		if b, ok := n.Body.(stage.SinkBody); ok && b.Delivery() == connector.ExactlyOnce {
			return true
		}
	}
	return false
}

// prepare settles what sinks have open, and makes the tasks.
func (a *attempt) prepare() error {
	if err := a.start.ResolveSinks(a.ctx, a.committers); err != nil {
		return err
	}
	killpoint.Reach("tasks.make")
	err := a.openDisk()
	if err != nil {
		return err
	}
	w, err := a.wire()
	if err != nil {
		return err
	}
	a.wiring.Store(w)
	a.makeEnumerators()
	return a.makeCoordinator()
}

// layOut plans the stages for the restored state.
func (a *attempt) layOut() error {
	plan, err := a.job.graph.Plan(a.opts.Parallelism, a.opts.MaxParallelism)
	if err != nil {
		return err
	}
	a.plan, a.stages, a.kinds = plan, map[string]*graph.Stage{}, map[string]string{}
	for _, s := range plan.Stages {
		a.stages[s.ID] = s
		for _, n := range s.Nodes {
			a.kinds[n.ID] = n.Kind
		}
	}
	a.makeRegions()
	if a.start.Restored == nil {
		return nil
	}
	if a.restored, err = newRestored(a.start.Restored, a.job.graph, a.opts.AllowNonRestoredState); a.restored != nil {
		a.restored.blobs, a.restored.dir = a.start.RestoredBlobs, a.start.RestoredDir
		// All that is wrong, at once.
		err = errors.Join(err, a.restored.check(a.job.graph), a.restored.adoptMaxParallelism(plan, a.opts.MaxParallelism))
	}
	if err != nil {
		return coord.AsFatal(err)
	}
	if lost := a.restored.dropped; len(lost) > 0 {
		a.job.log.Warn("state that the job has no place for is dropped, as --allow-non-restored-state says", "snapshot", a.start.Restored.ID, "dropped", lost)
	}
	for _, note := range a.restored.notes(a.job.graph) {
		a.job.log.Info("state is converted", "snapshot", a.start.Restored.ID, "note", note)
	}
	return nil
}

func (a *attempt) openCommitters() error {
	a.committers = map[string]stage.Committer{}
	for _, n := range a.job.graph.Nodes {
		b, ok := n.Body.(stage.SinkBody)
		if !ok {
			continue
		}
		err := guarded(func() error {
			c, err := b.NewCommitter(committerContext{a, a.start, n.ID})
			if c != nil {
				a.committers[n.ID] = guardedCommitter{c}
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("sink %q: %w", n.ID, err)
		}
	}
	return nil
}

func (a *attempt) closeCommitters() {
	for id, c := range a.committers {
		if err := c.Close(); err != nil {
			a.job.log.Warn("closing a committer", "operator", id, "error", err)
		}
	}
}

func (a *attempt) makeEnumerators() {
	a.enumerators = map[string]*enumerator{}
	for _, n := range a.job.graph.Nodes {
		b, ok := n.Body.(stage.SourceBody)
		if !ok {
			continue
		}
		var state []byte
		var back [][][]byte
		if a.restored != nil && a.restored.ops[n.ID] != nil {
			op := a.restored.ops[n.ID]
			state = op.Enumerator
			if b.ReassignSplits() {
				back = splitsBack(op)
			}
		}
		e := newEnumerator(n.ID, b, a.wiring.Load(), state, a.job.log)
		e.back = back
		if slices.ContainsFunc(a.regions, func(r *region) bool { return r.alone && slices.Contains(r.sources, n) }) {
			e.assigned = &assignments{}
		}
		a.enumerators[n.ID] = e
	}
}

func (a *attempt) makeCoordinator() (err error) {
	a.coordinator, err = coord.New(coord.Config{
		Attempt: a.start, Options: a.opts.Checkpoint, Job: a.job.graph.Job, Blobs: a.blobs,
		Host: a, Committers: a.committers, Now: wallMillis, Logger: a.job.log,
		OnEvent: a.coordinatorEvent, OpenDir: a.openDir, Version: Version, KeyHash: keygroup.HashName,
		Seed: rand.Uint64(),
	})
	return err
}

// work runs the tasks, the enumerators and the coordinator until the first of
// them ends.
func (a *attempt) work() error {
	a.job.begin(a) // before any task, which may already be waited for by who wants a snapshot
	killpoint.Reach("tasks.start")
	for _, r := range a.regions {
		a.spawn(r.Run)
	}
	killpoint.Reach("tasks.started")
	for _, e := range a.enumerators {
		a.spawn(e.Run)
	}
	a.job.m.began(a.start)
	var from int64
	if a.start.Restored != nil {
		from = a.start.Restored.ID
	}
	a.job.event(Event{Kind: Started, Attempt: a.start.Number, Checkpoint: from})
	a.job.log.Debug("running", "attempt", a.start.Number)
	canceled := make(chan struct{})
	stop := context.AfterFunc(a.parent, func() {
		defer close(canceled)
		a.cancelled()
	})
	err := a.coordinator.Run(a.ctx)
	if err != nil {
		a.cancel(err)
	}
	a.cancel(errDone)
	if !stop() {
		<-canceled
	}
	a.running.Wait()
	cause := context.Cause(a.ctx)
	if err != nil {
		return cause // the first error, which may be a task's
	}
	if !errors.Is(cause, errDone) {
		a.job.log.Warn("failed when the job had already ended", "attempt", a.start.Number, "error", cause)
	}
	return a.ended(a.coordinator.Status().Outcome)
}

// ended tells how the job ended.
func (a *attempt) ended(o coord.Outcome) error {
	kind := Finished
	switch o {
	case coord.Canceled:
		return context.Cause(a.parent)
	case coord.Stopped:
		kind = Suspended
		a.job.stop()
	}
	a.job.event(Event{Kind: kind, Attempt: a.start.Number})
	return nil
}

// cancelGrace is how long a cancelled job may take to publish what completed
// checkpoints hold. What is left then is published by the next start.
const cancelGrace = 10 * time.Second

// cancelled ends the attempt in order, at the end of the caller's context.
func (a *attempt) cancelled() {
	a.coordinator.Cancel()
	if !pause(a.ctx, cancelGrace) {
		return
	}
	a.cancel(context.Cause(a.parent))
}

// spawn runs a component; its error ends the attempt.
func (a *attempt) spawn(run func(context.Context) error) {
	a.running.Go(func() { supervise(a.ctx, run, a.fail) })
}

// supervise runs a component and reports its error.
func supervise(ctx context.Context, run func(context.Context) error, fail func(error)) {
	err := errGoexit
	defer func() {
		if err != nil {
			fail(err)
		}
	}()
	err = run(ctx)
}

// fail ends the attempt; the first error counts. State that the job cannot
// take over is no other at the next start.
func (a *attempt) fail(err error) {
	if errors.Is(err, state.ErrIncompatible) {
		err = coord.AsFatal(err)
	}
	a.cancel(err)
}

// Ended implements stage.Host.
func (a *attempt) Ended(t stage.TaskID) { a.coordinator.Ended(t) }

// The coordinator's Host.

// Tasks implements coord.Host.
func (a *attempt) Tasks() []stage.TaskID {
	tasks := a.wiring.Load().tasks
	ids := make([]stage.TaskID, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids
}

// CheckpointComplete implements coord.Host.
func (a *attempt) CheckpointComplete(id int64) {
	for _, u := range a.uploads {
		u.Complete(id)
	}
	for _, t := range a.wiring.Load().tasks {
		t.PostComplete(id)
	}
	for _, e := range a.enumerators {
		e.complete(id)
	}
}

// CheckpointAborted implements coord.Host.
func (a *attempt) CheckpointAborted(id int64) {
	for _, t := range a.wiring.Load().tasks {
		t.PostAborted(id)
	}
}

// Committed implements coord.Host.
func (a *attempt) Committed(id int64) {
	for _, t := range a.wiring.Load().tasks {
		t.PostCommitted(id)
	}
}

// committerContext is what a sink's committer may use.
type committerContext struct {
	a     *attempt
	start *coord.Attempt
	op    string
}

func (c committerContext) Logger() *slog.Logger { return c.a.job.log.With("operator", c.op) }
func (c committerContext) Job() string          { return c.a.job.graph.Job }
func (c committerContext) Lineage() string      { return c.start.Lineage }
func (c committerContext) Attempt() int64       { return c.start.Number }
func (c committerContext) Operator() string     { return c.op }
func (c committerContext) FormerLineages() []connector.FormerLineage {
	return c.start.FormerLineages
}
func (c committerContext) Count(name string, n int64) {
	c.a.job.m.count(c.op, name, n)
}
