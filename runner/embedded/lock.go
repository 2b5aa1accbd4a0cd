package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/internal/storage/location"
	"github.com/weirstream/weir/internal/storage/mem"
)

// standbyEvery is how often a standby tries to get the lock.
const standbyEvery = time.Second

// locker is storage whose directories a process can lock.
type locker interface {
	LockDir(name string) (unlock func() error, err error)
}

// checkStandby refuses a standby that has no lock to wait for, or that would
// drop what the other process leaves.
func checkStandby(o Options) error {
	switch {
	case !o.Standby:
		return nil
	case o.Fresh:
		return errors.New("a standby goes on from what the other process leaves: leave out --fresh or --standby")
	case o.Storage != nil || o.Checkpoint.Dir == "" || o.Checkpoint.Dir == checkpoint.Memory || location.IsURL(o.Checkpoint.Dir):
		return errors.New("a standby is not possible here: it waits for the lock of the checkpoint directory, so both processes need the same --checkpoint-dir, on a file system with locks")
	}
	return nil
}

// openStorage opens the checkpoint storage and locks the job's directory. Its
// error is errSuspended if the job was suspended while it stood by.
func (j *Job) openStorage(ctx context.Context) (storage.Blobs, func(), error) {
	dir := j.opts.Checkpoint.Dir
	switch {
	case j.opts.Storage != nil:
		return j.opts.Storage, func() {}, nil
	case dir == "" || dir == checkpoint.Memory:
		return mem.New(), func() {}, nil
	}
	if location.IsURL(dir) {
		blobs, err := j.opener.Open(ctx, dir)
		return blobs, func() {}, err
	}
	fs := file.New(dir)
	unlock, err := j.lock(ctx, fs)
	if err != nil {
		return nil, nil, err
	}
	if unlock == nil {
		return fs, func() {}, nil
	}
	// Under the lock nobody else writes here.
	if _, err := fs.RemoveStale(context.Background(), j.graph.Job, time.Now()); err != nil {
		j.log.Warn("removing what a killed process left unfinished", "error", err)
	}
	return fs, func() {
		if err := unlock(); err != nil {
			j.log.Warn("unlocking the checkpoint directory", "error", err)
		}
	}, nil
}

// lock locks the job's directory, a standby as soon as it is free. Where there
// are no locks unlock is nil: the ledger alone keeps two processes apart.
func (j *Job) lock(ctx context.Context, dir locker) (unlock func() error, err error) {
	unlock, err = dir.LockDir(j.graph.Job)
	held := (*file.LockedError)(nil)
	switch {
	case errors.As(err, &held) && j.opts.Standby:
		unlock, err = j.standBy(ctx, dir, held)
	case errors.As(err, &held):
		err = fmt.Errorf("%w; --standby waits until it has ended", err)
	case errors.Is(err, errors.ErrUnsupported) && j.opts.Standby:
		err = fmt.Errorf("a standby is not possible here, for there are no locks to wait for: %w", err)
	case errors.Is(err, errors.ErrUnsupported):
		j.log.Warn("the checkpoint directory cannot be locked: of two processes that run this job the one that starts last goes on", "error", err)
		return nil, nil
	}
	if err != nil && !errors.Is(err, errSuspended) && ctx.Err() == nil {
		err = fmt.Errorf("checkpoint directory %s, job %q: %w", j.opts.Checkpoint.Dir, j.graph.Job, err)
	}
	return unlock, err
}

// standBy waits for the lock that is held.
func (j *Job) standBy(ctx context.Context, dir locker, held *file.LockedError) (unlock func() error, err error) {
	j.log.Info("standing by: the job starts here when the process that runs it has ended", "holder", held.Holder, "dir", held.Dir)
	j.setState("standing by", nil)
	j.event(Event{Kind: StandingBy, Err: held})
	for {
		suspended := j.pauseOrSuspend(ctx, standbyEvery)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case suspended:
			return nil, errSuspended
		}
		unlock, err = dir.LockDir(j.graph.Job)
		if errors.As(err, new(*file.LockedError)) {
			continue
		}
		if err == nil {
			j.log.Info("the process that ran the job has ended: starting")
			j.setState("starting", nil)
			j.event(Event{Kind: TakingOver})
		}
		return unlock, err
	}
}
