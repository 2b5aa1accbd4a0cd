// Package connector is the interface between Weir and the systems it reads
// from and writes to.
//
// A source follows the model of Flink's FLIP-27: one enumerator per source
// discovers splits and assigns them; one reader per subtask reads the splits
// it was given. Splits are the unit of work and of state.
//
// A sink is a writer per subtask, whose committables a single committer
// publishes once a checkpoint is complete.
package connector

import (
	"context"
	"log/slog"
	"time"

	"github.com/weirstream/weir/codec"
)

// NoTimestamp is the event time of a record whose source has none.
const NoTimestamp int64 = -1 << 63

// Split is a part of the input. S is a plain value type.
type Split interface {
	// SplitID is unique within the source and stable over restarts.
	SplitID() string
}

// Source describes an input. T is the type of its records, S of its splits,
// E of the enumerator's state in a checkpoint. A Source is a description
// only: it opens nothing and may be used for any number of attempts.
type Source[T any, S Split, E any] interface {
	// Bounded says whether the source ends by itself.
	Bounded() bool
	// SplitCodec and EnumeratorCodec encode splits and the enumerator's state.
	SplitCodec() codec.Codec[S]
	EnumeratorCodec() codec.Codec[E]
	// NewEnumerator makes the enumerator; restored is nil on a fresh start.
	NewEnumerator(ctx EnumeratorContext[S], restored *E) (Enumerator[S, E], error)
	// NewReader makes the reader of one subtask.
	NewReader(ctx ReaderContext) (Reader[T, S], error)
}

// Rewinder is a Source that says whether it can read again from the positions
// of a checkpoint. One that does not implement it can. With one that cannot,
// as a socket, what it brought after the last checkpoint is lost at a restart:
// a job whose exactly-once sinks it feeds warns of that when it starts.
type Rewinder interface{ CanRewind() bool }

// SplitReassigner is a Source that says whether the splits of a snapshot go
// back to the enumerator when a job is restored, by AddSplitsBack, to be dealt
// out anew over the readers there are now. Of one that does not implement it
// each reader goes on with the splits it had; if their number has changed, the
// splits are dealt out in turn.
//
// An enumerator that holds such splits back lets event time pass them: it
// should assign them all as soon as the readers are there.
type SplitReassigner interface{ ReassignSplits() bool }

// Enumerator discovers splits and assigns them to readers. All its methods,
// and the handlers of CallAsync, run on one goroutine. None may block:
// blocking work belongs into CallAsync.
type Enumerator[S Split, E any] interface {
	// Start is called once, before everything else.
	Start() error
	// AddReader says that the reader of a subtask is there. It is called again
	// when the reader has failed and another has taken its place alone: that
	// one has been told nothing yet, NoMoreSplits included.
	AddReader(subtask int) error
	// HandleSplitRequest answers a reader that asked for work.
	HandleSplitRequest(subtask int, host string) error
	// AddSplitsBack returns splits that were assigned to a reader since the
	// checkpoint from which, having failed alone, it starts again, and that it
	// lost. The reader is not registered then; its AddReader follows. If the
	// source is a SplitReassigner the splits that the checkpoint holds come as
	// well, with their positions; and it is also called after a restore of the
	// whole job, between Start and the first AddReader, for each reader of the
	// snapshot that had splits: subtask may then be one that there is no more.
	AddSplitsBack(splits []S, subtask int) error
	// HandleSourceEvent receives an event that a reader sent.
	HandleSourceEvent(subtask int, event any) error
	// Snapshot returns the state: what is known and not assigned, and the
	// identity of every split discovered, but never the position of an
	// assigned one (that is the reader's).
	Snapshot(checkpoint int64) (E, error)
	// CheckpointComplete is called after the checkpoint is durable. It may
	// never come; a later one stands for all before it.
	CheckpointComplete(checkpoint int64) error
	// Close releases what Start opened.
	Close() error
}

// EnumeratorContext is what an enumerator may use of the engine. Its methods
// are called on the enumerator's goroutine only, RunInCoordinator aside.
type EnumeratorContext[S Split] interface {
	// Context ends when the attempt ends.
	Context() context.Context
	// Logger logs with the source's id.
	Logger() *slog.Logger
	// Parallelism is the number of readers.
	Parallelism() int
	// Readers lists the subtasks whose reader is registered, ascending.
	Readers() []int
	// Assign hands splits to the reader of a subtask. Assigning to a reader
	// that is not registered is an error. Assigning none says that there is
	// none for this reader for the time being: while it has no split, it does
	// not hold back event time.
	Assign(subtask int, splits ...S) error
	// NoMoreSplits tells a reader that it gets no further split.
	NoMoreSplits(subtask int) error
	// SendEvent delivers an event to a reader.
	SendEvent(subtask int, event any) error
	// CallAsync runs call on a goroutine of its own, then handle with the
	// result on the enumerator's. With period > 0 call is run again each
	// period after the previous handle, first after delay. An error returned
	// by handle fails the job.
	CallAsync(call func(ctx context.Context) (any, error), handle func(any, error) error, delay, period time.Duration)
	// RunInCoordinator runs fn on the enumerator's goroutine. It may be
	// called from any goroutine.
	RunInCoordinator(fn func() error)
	// Config is that of the job. It, Count and SetGauge may be called from any
	// goroutine.
	Config() Config
	// Count adds to a named counter of the source, and SetGauge sets a value,
	// as with a ReaderContext.
	Count(name string, n int64)
	SetGauge(name, split string, value int64)
}

// Config is what a source may know of the job it runs in.
type Config struct {
	Job string
	// Operator is the source's id.
	Operator string
	// Attempt counts the attempts of the job, over restarts of the process.
	Attempt int64
	// MaxParallelism is the highest number of readers the source may ever have
	// in this job.
	MaxParallelism int
	// CheckpointInterval and CheckpointTimeout are 0 without checkpoints.
	CheckpointInterval, CheckpointTimeout time.Duration
	// Batch says that results are wanted at the end of the input only.
	Batch bool
}

// ReaderContext is what a reader may use of the engine.
type ReaderContext interface {
	// Context ends when the attempt ends.
	Context() context.Context
	// Logger logs with the source's id and the subtask.
	Logger() *slog.Logger
	// Subtask is the reader's number, from 0, of Parallelism.
	Subtask() int
	Parallelism() int
	// Host is the name of the machine, which RequestSplit passes on to the
	// enumerator, "" if it has none.
	Host() string
	// Config is that of the job.
	Config() Config
	// Wake tells the engine to poll again. It may be called from any
	// goroutine, at any time, and never blocks. A reader that returned
	// Nothing is polled again only after Wake (or AddSplits and the like).
	Wake()
	// RequestSplit asks the enumerator for work; SendEvent sends it an event.
	// Both may be called from any goroutine.
	RequestSplit()
	SendEvent(event any)
	// Count adds to a named counter of the source, for example
	// "recordsSkipped". It may be called from any goroutine.
	Count(name string, n int64)
	// SetGauge sets a named value that goes up and down, for example
	// "pendingRecords", of a split; split is "" for one of the reader as a
	// whole. Values of a split go when the split has finished, all with the
	// attempt. It may be called from any goroutine.
	SetGauge(name, split string, value int64)
}

// Status is what a poll found.
type Status int

const (
	// More: poll again, there may be more.
	More Status = iota
	// Nothing: nothing there now; Wake will tell.
	Nothing
	// End: the input has ended, no poll will ever find more. Only after
	// NoMoreSplits.
	End
	// Held is Nothing because the reader holds back what there may be, as a
	// rate limit does: it must call Wake when it goes on, and time in which
	// it holds back everything makes no split idle.
	Held
)

// Reader reads the splits of one subtask. All methods run on the stage's
// goroutine and must not block; blocking work belongs to the reader's own
// goroutines (package connector's SplitReader kit has them). Barriers go
// between polls.
type Reader[T any, S Split] interface {
	// Start is called once, before everything else. Restored splits follow
	// through AddSplits.
	Start() error
	// Poll emits at most one batch, of one split, into out.
	Poll(out *Output[T]) (Status, error)
	// AddSplits adds splits to be read from their positions: restored ones, and
	// those that the enumerator assigns.
	AddSplits(splits []S) error
	// NoMoreSplits says that no further split follows: when those there are
	// have been read, Poll returns End.
	NoMoreSplits() error
	// HandleEvent receives an event that the enumerator sent.
	HandleEvent(event any) error
	// Snapshot returns all splits with their position: everything emitted so
	// far lies before it, everything else behind.
	Snapshot(checkpoint int64) ([]S, error)
	// CheckpointComplete is as for the enumerator.
	CheckpointComplete(checkpoint int64) error
	// PauseSplits stops and resumes the emission of splits by id.
	PauseSplits(pause, resume []string) error
	// Close releases everything; nothing of the reader runs afterwards.
	Close() error
}

// Output receives the records of one poll.
type Output[T any] struct {
	// Vals and Times are the batch: the record and its source timestamp, in
	// milliseconds, NoTimestamp if the source has none. A reader may append to
	// both directly (equal lengths at return) or use Emit and EmitAt.
	Vals  []T
	Times []int64

	split    string
	opened   []string
	finished []string
	// limit is for this poll, full for the next ones.
	limit, full int
}

// NewOutput makes an output for batches of limit records. The engine makes
// outputs; readers' tests may.
func NewOutput[T any](limit int) *Output[T] {
	return &Output[T]{Vals: make([]T, 0, limit), Times: make([]int64, 0, limit), limit: limit, full: limit}
}

// Reset empties the output for the next poll.
func (o *Output[T]) Reset() {
	o.Vals, o.Times, o.split = o.Vals[:0], o.Times[:0], ""
	o.opened, o.finished, o.limit = o.opened[:0], o.finished[:0], o.full
}

// SetSplit names the split whose records this poll emits: its watermark is
// tracked apart from that of other splits.
func (o *Output[T]) SetSplit(id string) { o.split = id }

// SplitID returns what SetSplit set, "" if nothing.
func (o *Output[T]) SplitID() string { return o.split }

// OpenSplit tells of a split that was not assigned, as a reader that divides its
// splits further has: from now on it holds back event time like one that was,
// until FinishSplit. SetSplit alone opens a split at its first records.
func (o *Output[T]) OpenSplit(id string) { o.opened = append(o.opened, id) }

// OpenedSplits returns what OpenSplit was told since Reset.
func (o *Output[T]) OpenedSplits() []string { return o.opened }

// FinishSplit says that a split brings nothing after what this poll emits: it
// no longer holds back event time.
func (o *Output[T]) FinishSplit(id string) { o.finished = append(o.finished, id) }

// FinishedSplits returns what FinishSplit was told since Reset.
func (o *Output[T]) FinishedSplits() []string { return o.finished }

// Emit appends a record without a timestamp.
func (o *Output[T]) Emit(v T) { o.EmitAt(v, NoTimestamp) }

// EmitAt appends a record with the source's timestamp in milliseconds.
func (o *Output[T]) EmitAt(v T, millis int64) {
	o.Vals = append(o.Vals, v)
	o.Times = append(o.Times, millis)
}

// Limit lowers the room of this poll to n records, at least one: for readers
// that pass the output on to another one.
func (o *Output[T]) Limit(n int) { o.limit = max(1, min(o.limit, n)) }

// Room is how many records still fit. A poll may go beyond it only to keep
// together what must not be cut.
func (o *Output[T]) Room() int { return o.limit - len(o.Vals) }
