package embedded

import (
	"context"
	"errors"
	"fmt"

	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
)

// ErrNotRunning refuses a snapshot of a job that is not running, or no more.
var ErrNotRunning = errors.New("the job is not running: a snapshot is taken of a running job")

// Checkpoint takes a checkpoint besides the periodic ones and waits until it
// is completed. It returns its id. Restarts of the job do not repeat the
// request: the error then says that the attempt ended.
func (j *Job) Checkpoint(ctx context.Context) (id int64, err error) {
	r, err := j.take(ctx, coord.Request{Kind: snapshot.Checkpoint})
	return r.ID, err
}

// Savepoint takes a savepoint below dir, a directory or URL, and waits
// until it is stored and what it holds for sinks is committed: from then on
// any job may start from it, also in another checkpoint directory and with
// another parallelism. It returns the absolute path of the savepoint, also with
// an error that says that it is complete but not known to be committed. An empty dir
// means the default savepoint directory of the options.
func (j *Job) Savepoint(ctx context.Context, dir string) (path string, err error) {
	return j.savepoint(ctx, coord.Request{Kind: snapshot.Savepoint, Path: dir})
}

// StopWithSavepoint ends the job with a savepoint below dir: sources stop, the
// savepoint is taken, what it holds for sinks is committed, and Run returns
// nil. The same command goes on from it. Otherwise it is like Savepoint.
func (j *Job) StopWithSavepoint(ctx context.Context, dir string) (path string, err error) {
	return j.savepoint(ctx, coord.Request{Kind: snapshot.Savepoint, Path: dir, Stop: true})
}

// DrainWithSavepoint is StopWithSavepoint for a job that is not to go on: its
// input ends where it is, event time goes to its end, so that windows and
// event-time timers fire, and then the savepoint is taken. The job has finished:
// the same command has nothing left to do. If the drain fails the attempt does,
// and a restart goes on from the checkpoint before it.
func (j *Job) DrainWithSavepoint(ctx context.Context, dir string) (path string, err error) {
	return j.savepoint(ctx, coord.Request{Kind: snapshot.Savepoint, Path: dir, Stop: true, Drain: true})
}

// SavepointOptions say how SavepointWith takes a savepoint.
type SavepointOptions struct {
	// Dir is as in Savepoint.
	Dir string
	// Native writes the files of the state backend, if it has any: this is
	// faster, and so is a start from it with the same backend. It restores into
	// either all the same.
	Native bool
	// Stop and Drain are StopWithSavepoint and DrainWithSavepoint.
	Stop, Drain bool
}

// SavepointWith is Savepoint, StopWithSavepoint or DrainWithSavepoint, as o says.
func (j *Job) SavepointWith(ctx context.Context, o SavepointOptions) (path string, err error) {
	return j.savepoint(ctx, coord.Request{Kind: snapshot.Savepoint, Path: o.Dir, Stop: o.Stop || o.Drain, Drain: o.Drain, Native: o.Native})
}

func (j *Job) savepoint(ctx context.Context, r coord.Request) (path string, err error) {
	if r.Path != "" {
		if r.Path, err = j.opener.Check(r.Path); err != nil {
			return "", fmt.Errorf("savepoint to %s: %w", r.Path, err)
		}
	}
	result, err := j.take(ctx, r)
	var uncommitted *coord.UncommittedError
	if errors.As(err, &uncommitted) {
		return uncommitted.Path, err
	}
	return result.Path, err
}

// Dispose deletes the savepoint at path, its directory or its _metadata. It may
// be called at any time.
func (j *Job) Dispose(ctx context.Context, path string) error {
	if j.isOver() {
		defer j.closeStorages() // Run does no more
	}
	return coord.Dispose(ctx, j.opener, path)
}

// take asks the running attempt for a snapshot and waits for it.
func (j *Job) take(ctx context.Context, r coord.Request) (coord.Result, error) {
	j.mu.Lock()
	a := j.current
	j.mu.Unlock()
	if a == nil {
		return coord.Result{}, ErrNotRunning
	}
	return a.coordinator.Trigger(ctx, r)
}
