package checkpoint

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
)

// Host is the side of the coordinator on which the tasks run. Its methods are
// called from the coordinator's goroutine and must not block.
type Host interface {
	// Tasks are all subtasks of all stages.
	Tasks() []stage.TaskID
	// Trigger takes the state of each source's enumerator, tells it by the
	// callback, and only then sends the barrier to the sources. The callback
	// may be called from any goroutine; an error ends the attempt.
	Trigger(b *stage.Barrier, enumerators func(operator string, state []byte, format codec.Format, err error))
	// Drain ends the input of all sources, behind every barrier for which
	// Trigger was called before.
	Drain()
	// CheckpointComplete and CheckpointAborted are passed on to the tasks. When
	// the first returns, and before Trigger is called again, whoever writes files
	// knows that later checkpoints may refer to those of this one, and to no
	// others (snapshot.Uploads).
	CheckpointComplete(id int64)
	CheckpointAborted(id int64)
	// Committed tells that the transactions of checkpoints up to id are
	// committed and that no completed checkpoint lists them any more.
	Committed(id int64)
}

// Config is what a Coordinator is made of.
type Config struct {
	Attempt *Attempt
	// Options without Dir and Interval mean that there are no snapshots: the
	// coordinator only waits for the tasks to end.
	Options checkpoint.Options
	Job     string
	// Blobs hold the checkpoints. May be nil if there are none.
	Blobs storage.Blobs
	Host  Host
	// Committers of the sinks, by operator id. Each is used from one
	// goroutine at a time, and not closed.
	Committers map[string]stage.Committer
	// OpenDir opens the directory that a savepoint is to be written below.
	// Nil refuses savepoints.
	OpenDir func(path string) (storage.Blobs, error)
	// Now is the wall clock in ms since the epoch. Default: the system's.
	Now func() int64
	// Logger defaults to none.
	Logger *slog.Logger
	// Registerer takes the metrics. Default none.
	Registerer prometheus.Registerer
	// OnEvent is told of every checkpoint that completes or fails. It is
	// called from the coordinator's goroutine and must not block.
	OnEvent func(Notice)
	// Version of Weir, KeyHash the name of the key hash: for _metadata.
	Version, KeyHash string
	// Seed chooses the moment of the first periodic checkpoint.
	Seed uint64
}

// Notice tells of a snapshot that completed or, if Err is set, failed.
type Notice struct {
	ID   int64
	Kind snapshot.Kind
	// Path is its directory.
	Path string
	// Triggered is when the coordinator sent the barrier, in ms since the epoch.
	Triggered int64
	// Tasks is how many take part, Acked how many have stored their part.
	Tasks, Acked int
	// Duration from the trigger on.
	Duration time.Duration
	// Bytes written by the tasks.
	Bytes int64
	// SyncNanos and AsyncNanos sum what the tasks spent; BarrierNanos is the
	// longest time that one of them spent on the barrier.
	SyncNanos, AsyncNanos, BarrierNanos int64
	Err                                 error
}

// Ack is a task's part of a snapshot, stored.
type Ack struct {
	Task stage.TaskID
	ID   int64
	// Operators of the task, each with exactly one entry in Subtasks.
	Operators []snapshot.Operator
	// Files are all that the operators refer to, shared ones that earlier
	// checkpoints wrote included.
	Files []snapshot.File
	// Bytes of the files that were written for this snapshot.
	Bytes int64
	// SyncNanos is the time spent on the stage's goroutine, AsyncNanos that in
	// encoding and writing, BarrierNanos that inside barrier handling.
	SyncNanos, AsyncNanos, BarrierNanos int64
}

// Request asks for a snapshot.
type Request struct {
	// Kind is Checkpoint, Savepoint, or Final for a suspend.
	Kind snapshot.Kind
	// Stop ends the job with the snapshot.
	Stop bool
	// Drain, of a savepoint with Stop, ends the input first: event time goes to
	// its end, so that windows and timers fire, and the job has finished.
	Drain bool
	// Path is the directory below which a savepoint gets its own. Default:
	// Options.SavepointDir.
	Path string
	// Native asks for a savepoint in the state backend's own files, if it has any:
	// it is written and restored faster.
	Native bool
}

// Result tells of the snapshot that a request led to.
type Result struct {
	ID int64
	// Path is its directory.
	Path string
}

// Status is a coordinator's account of itself.
type Status struct {
	// Completed and Failed snapshots of this attempt.
	Completed, Failed int64
	// InProgress is how many are under way.
	InProgress int
	// Pending are those under way whose parts are not all stored, by id. Not
	// all of a Notice is known of them.
	Pending []Notice
	// Last is the last one completed, nil if none.
	Last *Notice
	// Outcome is how the job ended, "" while it has not.
	Outcome Outcome
}

func (c *Config) off() bool {
	return c.Blobs == nil || c.Options.Dir == "" && c.Options.Interval == 0
}

func (c *Config) ensureDefaults() {
	c.Options.EnsureDefaults()
	if c.Now == nil {
		c.Now = wallClock
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Notice) {}
	}
}

func (c *Config) validate() error {
	if c.Host == nil || c.Attempt == nil {
		return errors.New("coordinator: no host, or no attempt")
	}
	return nil
}

// core is the decider for these options.
func (c *Config) core() *Core {
	o := c.Options
	return NewCore(CoreOptions{
		Off: c.off(), Interval: o.Interval.Milliseconds(), MinPause: o.MinPause.Milliseconds(), Timeout: o.Timeout.Milliseconds(),
		MaxConcurrent: o.MaxConcurrent, TolerableFailures: o.TolerableFailures, Retained: o.Retained, Retention: o.Retention,
		AtLeastOnce: o.Mode == checkpoint.AtLeastOnce, SavepointDir: o.SavepointDir,
		NextID: c.Attempt.NextID, Owned: c.Attempt.owned, Seed: c.Seed,
	})
}
