package checkpoint

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

var (
	// ErrNotRunning refuses a snapshot while not all tasks are running.
	ErrNotRunning = errors.New("not all tasks are running: try again once the job runs")
	// ErrStopping refuses a snapshot of a job that is taking its last one.
	ErrStopping = errors.New("the job is already stopping")
	// ErrEnded refuses a snapshot of a job that has ended.
	ErrEnded = errors.New("the job has already ended")
	// ErrInterrupted ends a snapshot with its attempt.
	ErrInterrupted = errors.New("the attempt ended before the snapshot was done")
	// ErrCanceled refuses or ends a snapshot of a job that was cancelled.
	ErrCanceled = errors.New("the job was cancelled")
	// ErrOff refuses a snapshot of a job without a checkpoint directory.
	ErrOff = errors.New("the job has no place for snapshots: set a checkpoint directory (execution.checkpointing.dir, --checkpoint-dir)")
	// ErrNoSavepointDir refuses a savepoint without target.
	ErrNoSavepointDir = errors.New("no savepoint directory: name one, or set a default (execution.checkpointing.savepoint-dir)")
	// ErrTimeout is why a checkpoint that took too long failed.
	ErrTimeout = errors.New("timed out")
	// errSubsumed is why a checkpoint ends that a later one has overtaken.
	errSubsumed = errors.New("a later checkpoint was written first")
	// errRegionFailed is why a snapshot ends that a part of the job cannot take
	// part in.
	errRegionFailed = errors.New("a region of the job failed and starts again")
	// errIDTaken is why a checkpoint ends whose id another attempt has used.
	errIDTaken = errors.New("its id was used by another attempt")
)

// UncommittedError says that the snapshot of a savepoint or a stop is
// complete, but that its transactions are not known to be committed. Starting
// the job again commits them.
type UncommittedError struct {
	ID int64
	// Path is the snapshot's directory.
	Path string
	Err  error
}

func (e *UncommittedError) Error() string {
	return fmt.Sprintf("snapshot %d at %s is complete, but its output is not known to be committed: %v; starting the job again commits it", e.ID, e.Path, e.Err)
}

func (e *UncommittedError) Unwrap() error { return e.Err }

// Event is what Core.Step is told.
type Event interface{ fmt.Stringer }

type (
	// Started: all tasks are running. It comes first.
	Started struct{ Tasks []stage.TaskID }
	// Tick: the time of SetTimer has come.
	Tick struct{}
	// Requested: somebody asks for a snapshot; the answer is a Reply.
	Requested struct {
		Token int64
		// Kind is Final for a suspend, which always has Stop.
		Kind snapshot.Kind
		Stop bool
		// Drain, of a savepoint with Stop, ends the input before it.
		Drain bool
		// Path is the target directory of a savepoint.
		Path string
		// Native asks for a savepoint in the state backend's own files.
		Native bool
	}
	// Acked: a task has taken its part of a snapshot and stored it.
	Acked struct {
		Task stage.TaskID
		ID   int64
	}
	// Declined: a task could not take or store its part.
	Declined struct {
		Task stage.TaskID
		ID   int64
		Err  error
	}
	// EnumeratorFailed: the state of a source's enumerator could not be had.
	EnumeratorFailed struct {
		ID  int64
		Err error
	}
	// Published: the end of a Publish.
	Published struct {
		ID      int64
		Outcome PublishOutcome
		// Committables is how many the snapshot holds.
		Committables int
		Err          error
	}
	// Recorded: the end of an Append.
	Recorded struct {
		Kind RecordKind
		Err  error
	}
	// Marked: the end of a Mark.
	Marked struct {
		ID  int64
		Err error
	}
	// CommittedUpTo: the commits of the completed checkpoint ID, and of all
	// before it, have returned.
	CommittedUpTo struct{ ID int64 }
	// CommitFailed: a committer has given up.
	CommitFailed struct{ Err error }
	// Ended: the input of a task has ended and all of it is processed.
	Ended struct{ Task stage.TaskID }
	// Cancel: the user cancels the job.
	Cancel struct{}
)

// PublishOutcome is how a Publish ended.
type PublishOutcome string

const (
	// PublishedOK: _metadata stands and the attempt is still the newest.
	PublishedOK PublishOutcome = "ok"
	// PublishedFenced: another start has claimed the job.
	PublishedFenced PublishOutcome = "fenced"
	// PublishedTaken: a snapshot with this id exists.
	PublishedTaken PublishOutcome = "taken"
	// PublishedFailed: the storage failed; _metadata may stand or not.
	PublishedFailed PublishOutcome = "failed"
)

// Action is what Core.Step wants done.
type Action interface{ fmt.Stringer }

type (
	// Trigger sends a barrier; Path is the target of a savepoint.
	Trigger struct {
		Barrier *stage.Barrier
		Path    string
	}
	// Drain ends the input of all sources, behind the barriers sent before.
	Drain struct{}
	// Publish writes _metadata, then reads the ledger again. Deletes are the
	// checkpoints that its completion deletes. One is under way at a time.
	Publish struct {
		ID      int64
		Deletes []int64
	}
	// Append appends a stopping or stopped record about snapshot ID, 0 for
	// none, to the ledger.
	Append struct {
		Kind    RecordKind
		ID      int64
		Outcome Outcome
	}
	// Mark puts the mark beside a snapshot all of whose commits have returned.
	Mark struct{ ID int64 }
	// Commit commits all that was pre-committed up to the completed checkpoint ID.
	Commit struct{ ID int64 }
	// NotifyComplete tells the tasks that a checkpoint is completed.
	NotifyComplete struct{ ID int64 }
	// NotifyCommitted tells the tasks that no completed checkpoint needs the
	// transactions of checkpoints up to ID any more.
	NotifyCommitted struct{ ID int64 }
	// NotifyAborted tells the tasks that a snapshot will not be completed.
	NotifyAborted struct {
		ID     int64
		Reason error
	}
	// Discard deletes the files of a snapshot that was never published.
	Discard struct{ ID int64 }
	// Delete deletes checkpoints of the job.
	Delete struct{ IDs []int64 }
	// Sweep deletes what earlier attempts left unfinished; with Own, at the end of
	// a job whose checkpoints are deleted, shared files of this one as well.
	Sweep struct{ Own bool }
	// SetTimer asks for a Tick at a time, replacing the one before; 0 for none.
	SetTimer struct{ At int64 }
	// Reply answers a Requested.
	Reply struct {
		Token, ID int64
		Err       error
	}
	// Fail ends the attempt. No action follows, no event has an effect.
	Fail struct{ Err error }
	// Finish ends the job. No action follows, no event has an effect.
	Finish struct{ Outcome Outcome }
)

func (e Started) String() string { return fmt.Sprintf("started %v", taskNames(e.Tasks)) }
func (Drain) String() string     { return "drain" }
func (Tick) String() string      { return "tick" }
func (e Requested) String() string {
	return fmt.Sprintf("requested %s%s%s token %d%s", e.Kind, word(e.Stop, " stop"), word(e.Drain, " drain"), e.Token, word(e.Path != "", " to "+e.Path))
}
func (e Acked) String() string { return fmt.Sprintf("acked %d by %s", e.ID, taskName(e.Task)) }
func (e Declined) String() string {
	return fmt.Sprintf("declined %d by %s: %v", e.ID, taskName(e.Task), e.Err)
}
func (e EnumeratorFailed) String() string {
	return fmt.Sprintf("enumerator failed %d: %v", e.ID, e.Err)
}
func (e Published) String() string {
	return fmt.Sprintf("published %d %s", e.ID, e.Outcome) + cause(e.Err)
}
func (e Recorded) String() string      { return "recorded " + string(e.Kind) + cause(e.Err) }
func (e Marked) String() string        { return fmt.Sprintf("marked %d", e.ID) + cause(e.Err) }
func (e CommittedUpTo) String() string { return fmt.Sprintf("committed up to %d", e.ID) }
func (e CommitFailed) String() string  { return "commit failed" + cause(e.Err) }
func (e Ended) String() string         { return "ended " + taskName(e.Task) }
func (Cancel) String() string          { return "cancel" }

func (a Trigger) String() string {
	b := a.Barrier
	return fmt.Sprintf("trigger %s %d%s%s%s", b.Kind, b.ID, word(b.Stop, " stop"), word(b.AtLeastOnce, " at-least-once"), word(a.Path != "", " to "+a.Path))
}
func (a Publish) String() string {
	return fmt.Sprintf("publish %d", a.ID) + word(len(a.Deletes) > 0, fmt.Sprintf(" deletes %v", a.Deletes))
}
func (a Append) String() string {
	return fmt.Sprintf("append %s %d", a.Kind, a.ID) + word(a.Outcome != "", " "+string(a.Outcome))
}
func (a Mark) String() string            { return fmt.Sprintf("mark %d", a.ID) }
func (a Commit) String() string          { return fmt.Sprintf("commit up to %d", a.ID) }
func (a NotifyComplete) String() string  { return fmt.Sprintf("notify complete %d", a.ID) }
func (a NotifyCommitted) String() string { return fmt.Sprintf("notify committed up to %d", a.ID) }
func (a NotifyAborted) String() string   { return fmt.Sprintf("notify aborted %d: %v", a.ID, a.Reason) }
func (a Discard) String() string         { return fmt.Sprintf("discard %d", a.ID) }
func (a Delete) String() string          { return fmt.Sprintf("delete %v", a.IDs) }
func (a Sweep) String() string           { return "sweep" + word(a.Own, " own") }
func (a SetTimer) String() string {
	if a.At == 0 {
		return "no timer"
	}
	return fmt.Sprintf("timer at %d", a.At)
}
func (a Reply) String() string {
	if a.Err != nil {
		return fmt.Sprintf("reply to %d: error: %v", a.Token, a.Err)
	}
	return fmt.Sprintf("reply to %d: snapshot %d", a.Token, a.ID)
}
func (a Fail) String() string   { return fmt.Sprintf("fail: %v", a.Err) }
func (a Finish) String() string { return "finish: " + string(a.Outcome) }

func taskName(t stage.TaskID) string { return fmt.Sprintf("%s/%d", t.Stage, t.Subtask) }

func taskNames(ts []stage.TaskID) []string {
	names := make([]string, len(ts))
	for i, t := range ts {
		names[i] = taskName(t)
	}
	return names
}

func word(when bool, s string) string {
	if when {
		return s
	}
	return ""
}

func cause(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
