package embedded

import (
	"context"
	"errors"
	"runtime"

	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

var errNotRunning = errors.New("the job has no attempt under way")

// trigger asks the running attempt for a snapshot and waits for it. Of an
// attempt that is starting it waits until it runs.
func (j *Job) trigger(ctx context.Context, r coord.Request) (coord.Result, error) {
	a, starting := j.underWay()
	for starting && ctx.Err() == nil {
		runtime.Gosched()
		a, starting = j.underWay()
	}
	if a == nil {
		return coord.Result{}, errNotRunning
	}
	return a.coordinator.Trigger(ctx, r)
}

func (j *Job) underWay() (a *attempt, starting bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.state != "running" {
		return nil, j.state == "starting" || j.state == "restarting"
	}
	return j.current, false
}

// TakeCheckpoint takes a checkpoint and returns its id.
func (j *Job) TakeCheckpoint(ctx context.Context) (int64, error) {
	r, err := j.trigger(ctx, coord.Request{Kind: snapshot.Checkpoint})
	return r.ID, err
}

// TakeSavepoint takes a savepoint below dir and returns its path.
func (j *Job) TakeSavepoint(ctx context.Context, dir string) (string, error) {
	r, err := j.trigger(ctx, coord.Request{Kind: snapshot.Savepoint, Path: dir})
	return r.Path, err
}

// TakeLastSavepoint ends the job with a savepoint below dir.
func (j *Job) TakeLastSavepoint(ctx context.Context, dir string) (string, error) {
	r, err := j.trigger(ctx, coord.Request{Kind: snapshot.Savepoint, Path: dir, Stop: true})
	return r.Path, err
}

// BarriersPassed is above 0 once subtask 0 of a stage has handled a barrier.
func (j *Job) BarriersPassed(id string) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.current == nil {
		return 0
	}
	return j.current.wiring.Load().loads[stage.TaskID{Stage: id}].BarrierMax.Load()
}
