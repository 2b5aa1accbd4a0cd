package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirstream/weir/checkpoint"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/state"
)

// region is a part of the job that exchanges no records with the rest (Flink's
// pipelined region). If one fails it starts again alone, from the newest
// checkpoint, while the others and the enumerators go on.
type region struct {
	coord.Region
	attempt *attempt
	// sources have subtasks here.
	sources []*graph.Node
	// alone tells that it may start again alone. It is set before it runs.
	alone bool

	// life is the present one. It changes while nothing of the region runs.
	*life
	running, writers sync.WaitGroup
}

// life is a region from a start to its end.
type life struct {
	region *region
	ctx    context.Context
	cancel context.CancelCauseFunc
	failed sync.Once
}

// makeRegions divides the tasks of the plan.
func (a *attempt) makeRegions() {
	a.regions, a.regionOf = nil, map[stage.TaskID]*region{}
	for i, tasks := range a.plan.Regions() {
		r := &region{Region: coord.Region{ID: i}, attempt: a}
		for _, t := range tasks {
			id := stage.TaskID{Stage: t.Stage.ID, Subtask: t.Subtask}
			r.Tasks = append(r.Tasks, id)
			a.regionOf[id] = r
			if head := t.Stage.Head(); head.Role == graph.Source && (len(r.sources) == 0 || r.sources[len(r.sources)-1] != head) {
				r.sources = append(r.sources, head)
			}
		}
		a.regions = append(a.regions, r)
		r.renew()
	}
}

// permitRestarts finds out which regions may start again alone: not one that
// commits, whose transactions belong to the attempt.
func (a *attempt) permitRestarts() {
	if _, never := a.opts.Restart.(checkpoint.None); never || a.opts.Failover != FailoverRegion || len(a.regions) == 1 {
		return
	}
	for _, r := range a.regions {
		r.alone = true
		for _, t := range r.Tasks {
			for _, n := range a.stages[t.Stage].Nodes {
				r.alone = r.alone && a.committers[n.ID] == nil
			}
		}
	}
}

// renew begins another life.
func (r *region) renew() {
	r.life = &life{region: r}
	r.ctx, r.cancel = context.WithCancelCause(r.attempt.ctx)
}

// fail ends the life, or, if the region cannot start again alone, the attempt.
// The first error counts.
func (l *life) fail(err error) {
	l.failed.Do(func() {
		a := l.region.attempt
		if !l.region.alone || a.ctx.Err() != nil || coord.Fatal(err) || errors.Is(err, state.ErrIncompatible) {
			a.fail(err)
			return
		}
		a.coordinator.RegionFailed(l.region.Region, err)
		l.cancel(err)
	})
}

// Run runs the tasks of the region, again and again as the restart strategy
// allows, until the attempt ends.
func (r *region) Run(ctx context.Context) error {
	for {
		began := time.Now()
		err := r.work()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.restart(ctx, began, err); err != nil {
			return err
		}
	}
}

// work is one life; it returns what ended that.
func (r *region) work() error {
	w := r.attempt.wiring.Load()
	for _, t := range r.Tasks {
		task := w.tasks[w.at[t]]
		r.running.Go(func() { supervise(r.ctx, task.Run, r.fail) })
	}
	r.running.Wait()
	r.writers.Wait()
	return context.Cause(r.ctx)
}

// restart makes the tasks anew, of the newest checkpoint, in place of those
// that a failure has ended. An error ends the attempt.
func (r *region) restart(ctx context.Context, began time.Time, failure error) error {
	a := r.attempt
	a.job.event(Event{Kind: RegionFailed, Attempt: a.number(), Err: failure})
	delay, ok := a.job.restartAfter(began)
	if !ok {
		return failure
	}
	a.job.log.Warn("a region of the job failed, restarting it", "region", r.ID, "tasks", len(r.Tasks), "delay", delay, "error", failure)
	id, err := a.coordinator.RegionStopped(ctx, r.Region)
	if err != nil {
		return err
	}
	if !pause(ctx, delay) {
		return context.Cause(ctx)
	}
	from, err := a.restoredAt(ctx, id)
	if err != nil {
		return fmt.Errorf("restart of a region that failed with %w: %w", failure, err)
	}
	if err := r.replace(ctx, from, id); err != nil {
		return err
	}
	a.job.restarted()
	a.job.event(Event{Kind: RegionRestarted, Attempt: a.number(), Checkpoint: id})
	a.coordinator.RegionRestarted(r.Region)
	return nil
}

// restoredAt loads a checkpoint of this attempt; 0 is what it began from.
func (a *attempt) restoredAt(ctx context.Context, id int64) (*restored, error) {
	if id == 0 {
		return a.restored, nil
	}
	dir := snapshot.CheckpointDir(a.job.graph.Job, id)
	m, err := snapshot.Load(ctx, a.blobs, dir)
	if err != nil {
		return nil, err
	}
	r, err := newRestored(m, a.job.graph, a.opts.AllowNonRestoredState)
	if err != nil {
		return nil, err
	}
	r.blobs, r.dir, r.share = a.blobs, dir, true
	return r, nil
}

// replace makes the tasks anew and puts them in the place of the old ones: not
// while a barrier is on its way from the enumerators to the readers, for it
// would meet readers that do not have what lies before it.
func (r *region) replace(ctx context.Context, from *restored, id int64) error {
	a := r.attempt
	a.rewiring.Lock()
	defer a.rewiring.Unlock()
	r.renew()
	next := a.wiring.Load().clone()
	if err := a.wireRegion(r, from, next); err != nil {
		return err
	}
	replaced := make(chan struct{})
	a.gate.enter(func() {
		a.wiring.Store(next)
		for _, n := range r.sources {
			e := a.enumerators[n.ID]
			e.restart(r.readers(n, next, from, id), id)
		}
		close(replaced)
		a.gate.leave()
	})
	select {
	case <-replaced:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readers are those of a source in this region. What they had in the checkpoint
// comes back to the enumerator if the source wants that.
func (r *region) readers(source *graph.Node, w *wiring, from *restored, id int64) []newReader {
	reassign := id != 0 && source.Body.(stage.SourceBody).ReassignSplits()
	var readers []newReader
	for _, t := range r.Tasks {
		if t.Stage != source.ID {
			continue
		}
		n := newReader{subtask: t.Subtask, task: w.tasks[w.at[t]]}
		if reassign && from.ops[source.ID] != nil {
			n.held = splitsBack(from.ops[source.ID])[t.Subtask]
		}
		readers = append(readers, n)
	}
	return readers
}
