package connector

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/weirstream/weir/codec"
)

// Delivery is what a sink promises about each record.
type Delivery int

const (
	// None: a failure may lose and repeat records.
	None Delivery = iota
	// AtLeastOnce: nothing is lost; a failure may repeat records.
	AtLeastOnce
	// ExactlyOnce: each record is published once. Needs checkpoints in
	// exactly-once mode.
	ExactlyOnce
)

// String is "none", "at-least-once" or "exactly-once".
func (d Delivery) String() string { return [...]string{"none", "at-least-once", "exactly-once"}[d] }

// Sink describes an output of records T whose committables are of type C.
// A sink that publishes as it writes has C = NoCommit and no committer.
type Sink[T, C any] interface {
	// Delivery is what the sink promises, settled when the job is built.
	Delivery() Delivery
	// CommittableCodec encodes committables; it is not asked for without a
	// committer.
	CommittableCodec() codec.Codec[C]
	// NewWriter makes the writer of one subtask.
	NewWriter(ctx SinkContext) (Writer[T, C], error)
	// NewCommitter makes the committer, nil where there is nothing to commit.
	// One lives per sink, apart from the record path.
	NewCommitter(ctx CommitterContext) (Committer[C], error)
}

// NoCommit is the committable type of sinks that have none.
type NoCommit struct{}

// SinkContext is what a writer may use of the engine.
type SinkContext interface {
	// Context ends when the attempt ends.
	Context() context.Context
	// Logger logs with the sink's id; Job is the name of the job.
	Logger() *slog.Logger
	Job() string
	// Lineage and Attempt identify this start of the job (see the ledger);
	// Operator is the sink's id; Subtask is the writer's number, from 0, of
	// Parallelism.
	Lineage() string
	Attempt() int64
	Operator() string
	Subtask() int
	Parallelism() int
	// CheckpointInterval and CheckpointTimeout are zero without checkpoints.
	CheckpointInterval() time.Duration
	CheckpointTimeout() time.Duration
	// Count adds to a named counter of the sink.
	Count(name string, n int64)
}

// Writer writes the records of one subtask. All methods run on the stage's
// goroutine.
type Writer[T, C any] interface {
	// Write takes a batch; times are event times in milliseconds
	// (NoTimestamp for none). Neither slice may be kept. Write may block for
	// back-pressure, but returns when the context ends.
	Write(vals []T, times []int64) error
	// Flush makes everything written so far durable, or, in a transaction,
	// ready to be committed.
	Flush(ctx context.Context) error
	// PreCommit is called at a barrier, after Flush: it returns what Commit
	// needs in order to publish all that was written since the last call, none if
	// nothing was; later records go into a new transaction.
	PreCommit(checkpoint int64) ([]C, error)
	// Committed says that committables of checkpoints up to and including
	// this one were committed, and that a completed checkpoint that no longer
	// lists them stands: their resources may be reused.
	Committed(checkpoint int64) error
	// Close releases everything. It neither commits nor aborts what was
	// pre-committed.
	Close() error
}

// CommitterContext is what a committer may use of the engine.
type CommitterContext interface {
	// The methods are those of SinkContext, where it has them.
	Logger() *slog.Logger
	Job() string
	Lineage() string
	Attempt() int64
	Operator() string
	// FormerLineages are those that the job had in the same directory before a
	// start with --fresh began this one. Of their transactions only those of
	// attempts up to the last one are this job's to abort: the directory may be
	// a copy of one whose job goes on under the same lineage.
	FormerLineages() []FormerLineage
	Count(name string, n int64)
}

// FormerLineage is a lineage that a job has ended.
type FormerLineage struct {
	Lineage string
	// LastAttempt is the last attempt that the job made under it.
	LastAttempt int64
}

var (
	// ErrTransactionLost: what a completed checkpoint holds was aborted by
	// the external system; the data is lost. Fatal.
	ErrTransactionLost = errors.New("transaction lost")
	// ErrTransactionUnknown: it cannot be told whether a committable was
	// committed. Fatal.
	ErrTransactionUnknown = errors.New("outcome of transaction unknown")
)

// CommitError is why one of the committables of a call was not committed.
type CommitError struct {
	// Index is its place in the slice that Commit was given.
	Index int
	// Err wraps ErrTransactionLost or ErrTransactionUnknown where the outcome
	// is settled.
	Err error
}

// Error is that of Err.
func (e *CommitError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *CommitError) Unwrap() error { return e.Err }

// Inspector is what a Committer may be besides: one that tells what a commit
// would find. A start asks it before it goes back to an older snapshot, so that
// losses show while the job can still stay where it is.
type Inspector[C any] interface {
	// Inspect answers as Commit would, and changes nothing: committables that
	// are known to be lost are a *CommitError each. What cannot be told without
	// trying is no error. It runs before any Commit.
	Inspect(ctx context.Context, committables []C) error
}

// Committer publishes committables. Commit is idempotent: a committable may
// come again, also from another process. It runs on one goroutine per sink,
// checkpoints in order.
type Committer[C any] interface {
	// Commit returns nil only if all are committed. It retries by itself
	// until ctx ends; any other error is fatal for the attempt. One that is
	// lost, or whose outcome is unknown, does not keep it from the others: the
	// error then joins a *CommitError for each that was not committed, and who
	// has to decide sees which were.
	Commit(ctx context.Context, committables []C) error
	// Sweep aborts what earlier attempts of this lineage left open and no
	// snapshot needs. It is called once per start, after all restored
	// committables have a definite outcome. stillNewest re-reads the ledger
	// and must be called between listing and aborting: its error ends the
	// sweep.
	Sweep(ctx context.Context, stillNewest func() error) error
	// Close releases everything. It neither commits nor aborts.
	Close() error
}
