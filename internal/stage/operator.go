package stage

import (
	"context"
	"log/slog"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/alignment"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

// Body is what a node of the graph is made into operators by. Bodies are
// shared by all subtasks and attempts and never change.
type Body interface {
	NewOperator() Operator
}

// Operator is one link of a chain in one subtask, as its stage drives it. All
// methods run on the stage's goroutine. An error fails the task.
//
// Order: Connect for each output, Open (last operator of the chain first),
// then any of the others, Close. EndInput comes at most once.
type Operator interface {
	// Input returns the receiver of the operator's input, a Receiver or
	// KeyedReceiver; nil for sources.
	Input() any
	// Connect adds a receiver of the output with the tag ("" is the main one).
	Connect(tag string, receiver any) error
	Open(c *Context) error
	// Advance moves event time to wm, firing at most budget timers or
	// windows; more means call again with the same wm.
	Advance(wm int64, budget int) (more bool, err error)
	// ProcessingTime fires timers of the processing-time domain.
	ProcessingTime(now int64, budget int) (more bool, err error)
	// NextProcessingTime is when ProcessingTime has something to do.
	NextProcessingTime() (millis int64, ok bool)
	// Flush passes on what the operator has collected for its outputs.
	Flush() error
	// PrepareSnapshot runs first at a barrier, in chain order, and may emit:
	// what it emits lies before the barrier.
	PrepareSnapshot(b *Barrier) error
	// Snapshot takes the synchronous part of a snapshot.
	Snapshot(b *Barrier) (Part, error)
	// CheckpointComplete and CheckpointAborted are notices; they may be lost.
	CheckpointComplete(id int64) error
	CheckpointAborted(id int64) error
	// Committed says that the sink's committables up to this checkpoint are
	// published and no completed checkpoint lists them any more.
	Committed(id int64) error
	// EndInput says that the input has ended, after Advance(MaxInt64).
	EndInput() error
	// Close releases everything, also after a failure.
	Close() error
}

// TwoInput is an operator with a second input. It heads its stage.
type TwoInput interface {
	// SecondInput returns the receiver of the second input, as Operator.Input
	// that of the first.
	SecondInput() any
}

// Witness is an operator that tells what it does, for messages. Its methods are
// called on the stage's goroutine, also after a panic.
type Witness interface {
	// Running tells whether code of the user runs, and whether for a key.
	Running() (running, forKey bool)
	// Key is the key it runs for, or ran for last, "" if there is none.
	Key() string
}

// Source is the operator at the head of a stage without inputs.
type Source interface {
	Operator
	// OnActive gives the source the function to call before it emits the
	// first record after Watermark said it was idle.
	OnActive(func())
	// Poll emits at most one batch. forward asks for Watermark to be called
	// before anything else.
	Poll() (st connector.Status, forward bool, err error)
	// Pending tells that a watermark cut off a part of the last batch, which
	// the next poll emits. A barrier waits for it: for the reader all of the
	// batch lies before.
	Pending() bool
	// Event delivers what the enumerator sent.
	Event(e SourceEvent) error
	// Watermark returns the event time of the source and whether it is idle.
	// now is monotonic milliseconds. backPressured tells that since the last
	// call the stage could not poll.
	Watermark(now int64, backPressured bool) (wm int64, idle bool)
}

// SourceEvent is a message from an enumerator to a reader: exactly one field
// is set.
type SourceEvent struct {
	// Splits are encoded by the source's split codec.
	Splits [][]byte
	// NoMoreSplits says that none will follow.
	NoMoreSplits bool
	// Custom is an event of the source's own.
	Custom any
}

// Part is the part of a snapshot that one operator of a subtask contributes.
type Part struct {
	Operator string
	Lists    []snapshot.ListState
	Splits   [][]byte
	// Committables made at this barrier.
	Committables [][]byte
	Watermark    *int64
	// Ended tells that all input lies before the barrier, and is processed.
	Ended bool
	// Keyed is the keyed state, nil if the operator has none.
	Keyed KeyedPart
	// Formats of what is above, nil where there is none.
	SplitFormat, CommittableFormat *codec.Format
}

// KeyedPart is frozen keyed state, encoded off the stage's goroutine.
type KeyedPart interface {
	States() []snapshot.State
	KeyFormat() codec.Format
	Groups() keygroup.Range
	// Settle comes before the first EncodeGroup, or Store: it is the part of the
	// work that may hold up the stage. store says that Store follows, if there is
	// one.
	Settle(store bool) error
	// EncodeGroup writes the sections of a group.
	EncodeGroup(group int, w SectionWriter) error
	// Release gives up the frozen state; further calls do nothing. It is called when all
	// groups are encoded or the snapshot is abandoned.
	Release()
}

// StoringPart is a KeyedPart that can store itself, in files of its own. Store
// follows Settle, off the stage's goroutine, and writes by up, and sets File and
// Increments, or Native, of sub; or it returns false, and the part is encoded.
//
// It is called for checkpoints, whose files later ones may share, and for
// savepoints with Barrier.Native, whose files are the savepoint's alone: up
// names and places them accordingly, and tells what the part may refer to.
type StoringPart interface {
	KeyedPart
	Store(ctx context.Context, b *Barrier, up *snapshot.Upload, sub *snapshot.Subtask) (stored bool, err error)
}

// SectionWriter takes the sections of one operator and key group.
type SectionWriter = heap.GroupWriter

// Context is what an operator may use of its host.
type Context struct {
	// Context ends when the attempt ends.
	Context        context.Context
	Job            string
	Lineage        string
	Attempt        int64
	Operator       string
	Subtask        int
	Parallelism    int
	MaxParallelism int
	Logger         *slog.Logger
	Metrics        *Metrics
	Pool           *memory.Pool
	// Tier opens what lies below the operator's state in memory, and completes the
	// options of its store; nil if nothing does. What a snapshot holds may lie
	// there then: Restore.Keyed passes over it.
	Tier func(o *heap.Options) error
	// Incremental says that checkpoints of state in memory are to hold what has
	// changed.
	Incremental bool
	// Now is the wall clock in ms since the epoch: processing time and TTL.
	Now func() int64
	// Restore is what a snapshot holds for the operator, nil on a fresh start.
	Restore *Restore
	// Wake makes the stage look for work; callable from any goroutine.
	Wake func()
	// ToEnumerator sends a message to the source's enumerator; callable from
	// any goroutine. nil for operators that are no source.
	ToEnumerator func(ReaderMessage)
	// Alignment is where the sources of the attempt align their watermarks.
	Alignment *alignment.Groups
	// Batch says that event time stands still until the input ends.
	Batch bool
	// PollLimit bounds the records of one poll of a source below those of a
	// batch; 0 does not.
	PollLimit int
	// CheckpointInterval and CheckpointTimeout in ms, 0 without checkpoints.
	CheckpointInterval, CheckpointTimeout int64
	// Fail reports an error of a goroutine that the operator owns; callable
	// from any goroutine.
	Fail func(error)
}

// Config is what a source may know of its job.
func (c *Context) Config() connector.Config {
	ms := time.Millisecond
	return connector.Config{
		Job: c.Job, Operator: c.Operator, Attempt: c.Attempt, MaxParallelism: c.MaxParallelism, Batch: c.Batch,
		CheckpointInterval: time.Duration(c.CheckpointInterval) * ms, CheckpointTimeout: time.Duration(c.CheckpointTimeout) * ms,
	}
}

// Over tells that the input had ended when the restored snapshot was taken, and
// that nothing has come since. What the operator emits at its end lies before
// the snapshot then.
func (c *Context) Over() bool {
	return c.Restore != nil && c.Restore.Ended && c.Metrics.RecordsIn.Load() == 0 && c.Metrics.RecordsOut.Load() == 0
}

// ReaderMessage is a message from a reader to its enumerator: exactly one of
// Request and Event is set.
type ReaderMessage struct {
	Subtask int
	Request bool
	Host    string
	Event   any
}

// Restore is an operator's part of a snapshot, already redistributed to the
// present parallelism.
type Restore struct {
	// Lists of this subtask, with their stored formats.
	Lists []snapshot.ListState
	// Splits of this subtask.
	Splits      [][]byte
	SplitFormat *codec.Format
	// Watermark is the minimum over the old subtasks, nil if none was stored.
	Watermark *int64
	// Ended tells that the input had ended: in all subtasks, or at an equal
	// parallelism in this one.
	Ended bool
	// States are the stored keyed states, KeyFormat that of their key.
	States    []snapshot.State
	KeyFormat codec.Format
	// Chain is where the keyed state lies if one subtask had the same key groups and
	// its files may be referred to; nil otherwise.
	Chain *snapshot.Subtask
	// Keyed calls fn with each stored section of the groups of this subtask. It
	// follows Tier.
	Keyed func(groups keygroup.Range, fn func(group int, st snapshot.State, count int, data []byte) error) error
}

// SourceBody is the body of a source.
type SourceBody interface {
	Body
	Bounded() bool
	EnumeratorFormat() codec.Format
	// ReassignSplits tells that restored splits go to the enumerator.
	ReassignSplits() bool
	// NewEnumerator makes the enumerator, of the encoded state if restored is
	// not nil.
	NewEnumerator(c EnumeratorContext, restored []byte) (Enumerator, error)
}

// SplitDescriber is a SourceBody that puts stored splits into words.
type SplitDescriber interface {
	// DescribeSplit returns the split's id and where in it reading goes on.
	DescribeSplit(data []byte) (id, position string, err error)
}

// CommittableDescriber is a SinkBody that puts committables into words.
type CommittableDescriber interface {
	DescribeCommittable(data []byte) (string, error)
}

// EnumeratorContext is what the host offers an enumerator: the typed
// connector.EnumeratorContext lies on top. The methods are those of that
// interface, with splits encoded.
type EnumeratorContext interface {
	Context() context.Context
	Logger() *slog.Logger
	Parallelism() int
	Readers() []int
	Send(subtask int, e SourceEvent) error
	CallAsync(call func(ctx context.Context) (any, error), handle func(any, error) error, delay, period time.Duration)
	RunInCoordinator(fn func() error)
	Config() connector.Config
	Count(name string, n int64)
	SetGauge(name, split string, value int64)
}

// Enumerator is an enumerator with its types erased.
type Enumerator interface {
	Start() error
	AddReader(subtask int) error
	// AddSplitsBack takes splits encoded by the source's split codec.
	AddSplitsBack(splits [][]byte, subtask int) error
	Message(m ReaderMessage) error
	Snapshot(checkpoint int64) ([]byte, error)
	CheckpointComplete(checkpoint int64) error
	Close() error
}

// SinkBody is the body of a sink.
type SinkBody interface {
	Body
	Delivery() connector.Delivery
	// NewCommitter returns nil if there is nothing to commit.
	NewCommitter(c connector.CommitterContext) (Committer, error)
	CommittableFormat() codec.Format
}

// Committer is a connector.Committer with its types erased; committables of
// one call are in checkpoint order.
type Committer interface {
	Commit(ctx context.Context, committables [][]byte) error
	Sweep(ctx context.Context, stillNewest func() error) error
	Close() error
}
