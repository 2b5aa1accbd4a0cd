// Package embedded runs a job inside one process: every subtask of a stage on
// its own goroutine, connected by bounded queues, with a coordinator beside
// them.
package embedded

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/stream"
)

// Version of Weir, written into every snapshot.
const Version = snapshot.WeirVersion

// Options of a run. The zero value runs with parallelism 1 and without
// checkpoints.
type Options struct {
	// Parallelism is the number of subtasks of operators that set none.
	// Default 1.
	Parallelism int
	// MaxParallelism is the number of key groups; 0 derives it from the
	// parallelism, or takes that of the restored snapshot.
	MaxParallelism int
	Checkpoint     checkpoint.Options
	// Restart is the restart strategy; nil is exponential delay with
	// checkpoints and none without.
	Restart checkpoint.Restart
	// Failover tells what starts again after a failure; FailoverRegion by default.
	Failover Failover
	// RestorePath is a snapshot to start from, used up by the first start
	// that succeeds.
	RestorePath string
	// Claim gives the snapshot of RestorePath to the engine, which deletes it as
	// the retention of checkpoints says once it has gone on; no other job may
	// start from it then. Without, it stays the user's, and the first checkpoint
	// depends on none of its files.
	Claim bool
	// AllowNonRestoredState drops state of a snapshot for which the job has no
	// operator, or the operator no state of that name; without it the start is
	// refused. What a sink that is gone has not committed yet is refused all the
	// same.
	AllowNonRestoredState bool
	// Rewind allows RestorePath to lie behind output that was committed.
	Rewind bool
	// Fresh begins a new lineage, from nothing.
	Fresh bool
	// Nth tells for which time Rewind or Fresh is meant, 0 and 1 for the first:
	// the same is done once, however often it is asked for.
	Nth int
	// Standby waits while another process runs the job, and starts when that
	// one has ended, however it did; without it the start is refused. It needs
	// a checkpoint directory on a file system with locks, and goes not with
	// Fresh.
	Standby bool
	// AcceptLoss is the id of the snapshot whose output may be given up where
	// its transactions are lost, 0 for none.
	AcceptLoss int64
	// BufferTimeout bounds how long a record waits for its batch to fill.
	// Default 10 ms.
	BufferTimeout time.Duration
	// WatermarkInterval is the period of source watermarks under load.
	// Default 200 ms.
	WatermarkInterval time.Duration
	// RuntimeMode is Streaming by default.
	RuntimeMode stream.RuntimeMode
	// StateBackend is where keyed state lives; Heap by default.
	StateBackend Backend
	// HeapMemory bounds the memory in bytes that state takes with Heap, over all
	// subtasks; beyond it the attempt fails with an error that names the largest
	// states. By default it is three quarters of what the process may have; if
	// GOMEMLIMIT is set, what that leaves, but half at least. Where it is not
	// known what the process may have, there is no bound.
	HeapMemory int64
	// LSMMemory is the memory in bytes that LSM takes, over all subtasks.
	// Default 40 % of what the process may have. LSMDir is the local directory
	// that it uses; several jobs may share it. Default weir-state in the directory for temporary
	// files.
	LSMMemory int64
	LSMDir    string
	// Schemes serve URLs in place of directories.
	Schemes []storage.Scheme
	// Storage overrides the storage that Checkpoint.Dir names.
	Storage storage.Blobs
	// OnEvent is told what happens to the job; it must not block.
	OnEvent func(Event)
	// Logger and Registerer; nil discards.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Failover tells how much of a job starts again after a failure.
type Failover string

const (
	// FailoverRegion starts the tasks again that exchange records with the one
	// that failed, and leaves the others running. If they have an exactly-once
	// sink among them all start again: its transactions belong to the attempt.
	FailoverRegion Failover = "region"
	// FailoverFull starts all tasks again.
	FailoverFull Failover = "full"
)

// Event is something that happened to the job.
type Event struct {
	// Kind is one of the constants below.
	Kind EventKind
	Time time.Time
	// Attempt is the number of the start.
	Attempt int64
	// Checkpoint is the id of the checkpoint that the event is about, 0 if
	// none.
	Checkpoint int64
	// Duration and Bytes of a completed checkpoint; Encoding is the CPU time
	// spent in encoding and writing it, summed over subtasks, BarrierMax the longest
	// time a subtask spent on its barrier.
	Duration, Encoding, BarrierMax time.Duration
	Bytes                          int64
	// Err is why, for failures.
	Err error
}

// EventKind names an event.
type EventKind string

const (
	// Started: the attempt runs, from Checkpoint if that is not 0.
	Started EventKind = "started"
	// CheckpointCompleted: with Duration, Encoding, BarrierMax and Bytes.
	CheckpointCompleted EventKind = "checkpoint completed"
	// CheckpointFailed: with Err.
	CheckpointFailed EventKind = "checkpoint failed"
	// Failed: the attempt failed with Err; Restarting follows if the strategy
	// allows it.
	Failed EventKind = "failed"
	// Restarting: the next attempt begins.
	Restarting EventKind = "restarting"
	// RegionFailed: a region of the job failed with Err, and starts again alone
	// if the strategy allows it.
	RegionFailed EventKind = "region failed"
	// RegionRestarted: it runs again, from Checkpoint, or, if that is 0, from
	// what the attempt began from.
	RegionRestarted EventKind = "region restarted"
	// StandingBy: the start waits, Err names the process that runs the job.
	// TakingOver follows when that one has ended.
	StandingBy EventKind = "standing by"
	// TakingOver: see StandingBy.
	TakingOver EventKind = "taking over"
	// Finished: the input has ended and all is committed. Suspended: the job
	// was stopped with a final snapshot.
	Finished EventKind = "finished"
	// Suspended: see Finished.
	Suspended EventKind = "suspended"
)

func (o *Options) ensureDefaults() {
	if o.Parallelism == 0 {
		o.Parallelism = 1
	}
	if o.Failover == "" {
		o.Failover = FailoverRegion
	}
	if o.BufferTimeout == 0 {
		o.BufferTimeout = 10 * time.Millisecond
	}
	if o.WatermarkInterval == 0 {
		o.WatermarkInterval = 200 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
}

func checkFailover(f Failover) error {
	if f != FailoverRegion && f != FailoverFull {
		return fmt.Errorf("failover strategy %q: it is %s or %s", f, FailoverRegion, FailoverFull)
	}
	return nil
}
