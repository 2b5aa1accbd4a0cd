package command

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/weirstream/weir/internal/rest"
)

const savepointUsage = `Usage: weir savepoint JOB [DIR] [flags]
       weir savepoint --dispose PATH [flags]

Take a savepoint of a running job, below DIR or the job's default directory
(execution.checkpointing.savepoint-dir), and print where it lies. It is complete
when what it holds for sinks is committed. The job goes on, and so do its
checkpoints. JOB is a name or an id, as weir list shows them, or the beginning
of an id.

A savepoint restores into any state backend and at any parallelism up to the
max parallelism, and its directory can be moved: -s PATH starts a job from it.

--dispose deletes a savepoint. Not one that a job is to go on from: with
--checkpoint-dir the jobs there are asked, those that run always are.
`

const stopUsage = `Usage: weir stop JOB [flags]

Stop a running job with a savepoint, and print where that lies: sources stop,
the savepoint is taken, what it holds for sinks is committed, and the process
ends. The same command goes on from there; -s PATH starts the job elsewhere.
JOB is a name or an id, as weir list shows them, or the beginning of an id.
If the savepoint fails the job restarts from its last checkpoint.
`

const checkpointUsage = `Usage: weir checkpoint JOB [flags]

Take a checkpoint of a running job besides the periodic ones, and print its id.
JOB is a name or an id, as weir list shows them, or the beginning of an id.
`

const cancelUsage = `Usage: weir cancel JOB [flags]

End a running job at once, without a snapshot. The same command goes on from the
last checkpoint, unless the job's checkpoints are deleted at its cancellation.
JOB is a name or an id, as weir list shows them, or the beginning of an id.
`

// request is a command about one job.
type request struct {
	*flags
	where
	// detached does not wait; trigger is an operation to wait for.
	detached bool
	trigger  string
	// ends tells that the command ends whatever process it is about, one that
	// stands by, too.
	ends bool
	job  running
}

// newRequest declares the flags of commands that start an operation.
func newRequest(usage string) *request {
	r := &request{flags: newFlags(usage)}
	r.where.declare(r.flags)
	return r
}

// savepointFormat declares the flag for the form of a savepoint.
func (r *request) savepointFormat(format *string) {
	*format = "canonical"
	r.text(format, "type", "FORMAT", "canonical, the same whatever the state backend, or native: the files of the lsm backend, without encoding them. Default canonical.")
}

// formatType is a form of savepoints as in a request.
func formatType(format string) (string, error) {
	switch strings.ToUpper(format) {
	case rest.Canonical:
		return "", nil
	case rest.Native:
		return rest.Native, nil
	}
	return "", misuse("--type %q: it is canonical or native", format)
}

func (r *request) declareWaiting() {
	r.boolean(&r.detached, "detached", "Do not wait: print the id of the operation, for --trigger.")
	r.text(&r.trigger, "trigger", "ID", "Begin nothing: wait for the operation with this id. What came of it is kept for 5 minutes.")
}

// find parses the arguments and finds the job, the first of at most n operands.
func (p *Program) find(ctx context.Context, r *request, args []string, n int) (operands []string, proceed bool, err error) {
	operands, proceed, err = r.parse(p.Stdout, args)
	if err != nil || !proceed {
		return nil, false, err
	}
	return operands, true, p.findAmong(ctx, r, operands, n)
}

func (p *Program) findAmong(ctx context.Context, r *request, operands []string, n int) (err error) {
	switch {
	case len(operands) == 0:
		return misuse("name a job; weir list shows those that run")
	case len(operands) > n:
		return misuse("unexpected argument %q", operands[n])
	}
	r.job, err = p.one(ctx, r.where, operands[0], !r.ends)
	return err
}

// directory is a directory as the job's process finds it. A relative one is
// one of here, which means nothing on another machine.
func (r *request) directory(dir string) (string, error) {
	if dir == "" || strings.Contains(dir, "://") || filepath.IsAbs(dir) {
		return dir, nil
	}
	if r.address != "" {
		return "", misuse("with --address the directory %q must be an absolute path: it is one of the job's machine", dir)
	}
	return filepath.Abs(dir)
}

// newTrigger is an id for an operation, so that it is known before it is asked
// for.
func newTrigger() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// outcome is what came of an operation, in its JSON form.
type outcome struct {
	Job     string `json:"job"`
	ID      string `json:"id"`
	Trigger string `json:"trigger"`
	// Status is IN_PROGRESS for a detached operation.
	Status       string `json:"status"`
	Path         string `json:"path,omitempty"`
	CheckpointID int64  `json:"checkpoint_id,omitempty"`
	Error        string `json:"error,omitempty"`
	// Class tells some errors apart: uncommitted, ending, timeout.
	Class string `json:"class,omitempty"`
}

// carryOut begins an operation, unless one is to be waited for, waits for its end and
// tells what came of it.
func (p *Program) carryOut(ctx context.Context, r *request, what string, kind rest.Kind, begin func(trigger string) (string, error)) error {
	trigger := r.trigger
	if trigger == "" {
		var err error
		if trigger, err = begin(newTrigger()); err != nil {
			return fmt.Errorf("%s of job %s: %w", what, r.job.Name, err)
		}
	}
	o := outcome{Job: r.job.Name, ID: r.job.ID, Trigger: trigger, Status: rest.TriggerInProgress}
	if r.detached {
		return p.tell(r, o, trigger)
	}
	op, err := r.job.client.Wait(ctx, r.job.ID, kind, trigger)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s of job %s: it goes on without anybody waiting; to wait for it again: weir %s %s --trigger %s", what, r.job.Name, what, r.job.ID, trigger)
	case err != nil:
		return fmt.Errorf("%s of job %s: what came of it is not known (weir checkpoints DIR shows what the job's directory has): %w", what, r.job.Name, err)
	}
	o.Status, o.Path, o.CheckpointID = rest.TriggerCompleted, op.Location, op.CheckpointID
	if op.FailureCause != nil {
		o.Error, o.Class = op.FailureCause.StackTrace, op.FailureCause.Class
		if r.output == "json" {
			err = p.writeJSON(o)
		}
		return errors.Join(fmt.Errorf("%s of job %s failed: %s", what, r.job.Name, o.Error), err)
	}
	result := o.Path
	if kind == rest.KindCheckpoint {
		result = fmt.Sprint(o.CheckpointID)
	}
	return p.tell(r, o, result)
}

// tell writes what came of an operation: the result alone, for scripts, or all
// as JSON.
func (p *Program) tell(r *request, o outcome, result string) error {
	if r.output == "json" {
		return p.writeJSON(o)
	}
	fmt.Fprintln(p.Stdout, result)
	return nil
}

func (p *Program) savepoint(ctx context.Context, args []string) error {
	r := newRequest(savepointUsage)
	r.declareWaiting()
	var d disposal
	d.declare(r.flags)
	var format string
	r.savepointFormat(&format)
	operands, proceed, err := r.parse(p.Stdout, args)
	if err != nil || !proceed {
		return err
	}
	if d.path != "" {
		if len(operands) > 0 {
			return misuse("--dispose takes no job: it deletes the savepoint at its path")
		}
		return p.dispose(ctx, r, d)
	}
	if err := p.findAmong(ctx, r, operands, 2); err != nil {
		return err
	}
	dir, err := r.directory(strings.Join(operands[1:], ""))
	if err != nil {
		return err
	}
	if format, err = formatType(format); err != nil {
		return err
	}
	return p.carryOut(ctx, r, "savepoint", rest.KindSavepoint, func(trigger string) (string, error) {
		return r.job.client.Savepoint(ctx, r.job.ID, rest.SavepointRequest{TargetDirectory: dir, FormatType: format, TriggerID: trigger})
	})
}

func (p *Program) stop(ctx context.Context, args []string) error {
	r := newRequest(stopUsage)
	r.declareWaiting()
	var drain bool
	var dir string
	r.boolean(&drain, "drain", "End the input first: event time goes to its end, so that windows and event-time timers fire. For a job that is not to go on: the same command has nothing left to do.")
	r.text(&dir, "savepoint", "DIR", "Write the savepoint below DIR. Default: the job's execution.checkpointing.savepoint-dir.")
	var format string
	r.savepointFormat(&format)
	if _, proceed, err := p.find(ctx, r, args, 1); err != nil || !proceed {
		return err
	}
	dir, err := r.directory(dir)
	if err != nil {
		return err
	}
	if format, err = formatType(format); err != nil {
		return err
	}
	err = p.carryOut(ctx, r, "stop", rest.KindSavepoint, func(trigger string) (string, error) {
		return r.job.client.Stop(ctx, r.job.ID, rest.StopRequest{TargetDirectory: dir, Drain: drain, FormatType: format, TriggerID: trigger})
	})
	if err != nil && noDirectory(err) {
		err = fmt.Errorf("%w. Name it with --savepoint DIR; a signal (SIGTERM) stops the job with a snapshot in its checkpoint directory", err)
	}
	return err
}

func noDirectory(err error) bool {
	var refused *rest.RefusedError
	return errors.As(err, &refused) && strings.Contains(refused.Text, "no savepoint directory")
}

func (p *Program) checkpoint(ctx context.Context, args []string) error {
	r := newRequest(checkpointUsage)
	r.declareWaiting()
	if _, proceed, err := p.find(ctx, r, args, 1); err != nil || !proceed {
		return err
	}
	return p.carryOut(ctx, r, "checkpoint", rest.KindCheckpoint, func(trigger string) (string, error) {
		return r.job.client.Checkpoint(ctx, r.job.ID, rest.CheckpointRequest{TriggerID: trigger})
	})
}

func (p *Program) cancel(ctx context.Context, args []string) error {
	r := newRequest(cancelUsage)
	r.ends = true
	r.boolean(&r.detached, "detached", "Do not wait until the job has ended.")
	if _, proceed, err := p.find(ctx, r, args, 1); err != nil || !proceed {
		return err
	}
	if err := r.job.client.Cancel(ctx, r.job.ID); err != nil {
		return fmt.Errorf("cancel job %s: %w", r.job.Name, err)
	}
	state := rest.Canceling
	if !r.detached {
		last, err := r.job.client.WaitForEnd(ctx, r.job.ID)
		switch {
		case err != nil:
			return fmt.Errorf("cancel job %s: it was asked to end and has not yet: %w", r.job.Name, err)
		case last == "", last == rest.Canceling: // the process has ended
			last = rest.Canceled
		}
		state = last
	}
	if r.output == "json" {
		return p.writeJSON(struct {
			Job   string        `json:"job"`
			ID    string        `json:"id"`
			State rest.JobState `json:"state"`
		}{r.job.Name, r.job.ID, state})
	}
	fmt.Fprintf(p.Stderr, "Job %s is %s.\n", r.job.Name, state)
	return nil
}
