package rest

// Checkpoints is GET /jobs/:jobid/checkpoints.
type Checkpoints struct {
	Counts  Counts       `json:"counts"`
	Summary Summary      `json:"summary"`
	Latest  Latest       `json:"latest"`
	History []Checkpoint `json:"history"`
}

// Counts are those of the process; Restored is how often the job began from a
// snapshot.
type Counts struct {
	Restored   int64 `json:"restored"`
	Total      int64 `json:"total"`
	InProgress int64 `json:"in_progress"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed"`
}

// Latest are the newest of their kind, null if there is none.
type Latest struct {
	Completed *Checkpoint `json:"completed"`
	Savepoint *Checkpoint `json:"savepoint"`
	Failed    *Checkpoint `json:"failed"`
	Restored  *Restored   `json:"restored"`
}

// States of a checkpoint.
const (
	CheckpointInProgress = "IN_PROGRESS"
	CheckpointCompleted  = "COMPLETED"
	CheckpointFailed     = "FAILED"
)

// Checkpoint is a checkpoint or a savepoint.
type Checkpoint struct {
	// Class is completed, failed or in_progress.
	Class              string `json:"className"`
	ID                 int64  `json:"id"`
	Status             string `json:"status"`
	Savepoint          bool   `json:"is_savepoint"`
	SavepointFormat    string `json:"savepointFormat,omitempty"`
	Triggered          int64  `json:"trigger_timestamp"`
	LatestAck          int64  `json:"latest_ack_timestamp"`
	Bytes              int64  `json:"checkpointed_size"`
	StateSize          int64  `json:"state_size"`
	Duration           int64  `json:"end_to_end_duration"`
	AlignmentBuffered  int64  `json:"alignment_buffered"`
	ProcessedData      int64  `json:"processed_data"`
	PersistedData      int64  `json:"persisted_data"`
	Subtasks           int    `json:"num_subtasks"`
	Acknowledged       int    `json:"num_acknowledged_subtasks"`
	Type               string `json:"checkpoint_type"`
	Tasks              Empty  `json:"tasks"`
	Path               string `json:"external_path,omitempty"`
	Discarded          bool   `json:"discarded"`
	FailureTimestamp   int64  `json:"failure_timestamp,omitempty"`
	FailureDescription string `json:"failure_message,omitempty"`
}

// Empty is an object without members.
type Empty struct{}

// Restored is the snapshot that the job began from.
type Restored struct {
	ID        int64  `json:"id"`
	Time      int64  `json:"restore_timestamp"`
	Savepoint bool   `json:"is_savepoint"`
	Path      string `json:"external_path"`
}

// Summary is over the completed checkpoints that are remembered.
type Summary struct {
	Bytes             Range `json:"checkpointed_size"`
	StateSize         Range `json:"state_size"`
	Duration          Range `json:"end_to_end_duration"`
	AlignmentBuffered Range `json:"alignment_buffered"`
	ProcessedData     Range `json:"processed_data"`
	PersistedData     Range `json:"persisted_data"`
}

// Range is how values are distributed.
type Range struct {
	Min  int64 `json:"min"`
	Avg  int64 `json:"avg"`
	Max  int64 `json:"max"`
	P50  int64 `json:"p50"`
	P90  int64 `json:"p90"`
	P95  int64 `json:"p95"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
}

// CheckpointConfig is GET /jobs/:jobid/checkpoints/config.
type CheckpointConfig struct {
	Mode                string          `json:"mode"`
	Interval            int64           `json:"interval"`
	Timeout             int64           `json:"timeout"`
	MinPause            int64           `json:"min_pause"`
	MaxConcurrent       int             `json:"max_concurrent"`
	Externalization     Externalization `json:"externalization"`
	StateBackend        string          `json:"state_backend"`
	Storage             string          `json:"checkpoint_storage"`
	Unaligned           bool            `json:"unaligned_checkpoints"`
	Tolerable           int             `json:"tolerable_failed_checkpoints"`
	AlignedTimeout      int64           `json:"aligned_checkpoint_timeout"`
	AfterTasksFinish    bool            `json:"checkpoints_after_tasks_finish"`
	StateChangelog      bool            `json:"state_changelog_enabled"`
	ChangelogInterval   int64           `json:"changelog_periodic_materialization_interval"`
	ChangelogStorage    string          `json:"changelog_storage"`
	CheckpointDirectory string          `json:"checkpoint_directory"`
	SavepointDirectory  string          `json:"savepoint_directory"`
}

// Externalization says what becomes of checkpoints.
type Externalization struct {
	Enabled              bool `json:"enabled"`
	DeleteOnCancellation bool `json:"delete_on_cancellation"`
}
