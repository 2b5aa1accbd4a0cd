package rest

// Formats of savepoints.
const (
	// Canonical, the default, is the same whatever the state backend.
	Canonical = "CANONICAL"
	// Native is the files of the state backend, if it has any.
	Native = "NATIVE"
)

// SavepointRequest is the body of POST /jobs/:jobid/savepoints.
type SavepointRequest struct {
	// TargetDirectory "" is the job's default directory.
	TargetDirectory string `json:"target-directory,omitempty"`
	CancelJob       bool   `json:"cancel-job,omitempty"`
	FormatType      string `json:"formatType,omitempty"`
	// TriggerID, if not "", makes a repetition of the request harmless.
	TriggerID string `json:"triggerId,omitempty"`
}

// StopRequest is the body of POST /jobs/:jobid/stop.
type StopRequest struct {
	TargetDirectory string `json:"targetDirectory,omitempty"`
	Drain           bool   `json:"drain,omitempty"`
	FormatType      string `json:"formatType,omitempty"`
	TriggerID       string `json:"triggerId,omitempty"`
}

// CheckpointRequest is the body of POST /jobs/:jobid/checkpoints.
type CheckpointRequest struct {
	CheckpointType string `json:"checkpointType,omitempty"`
	TriggerID      string `json:"triggerId,omitempty"`
}

// DisposalRequest is the body of POST /savepoint-disposal.
type DisposalRequest struct {
	SavepointPath string `json:"savepoint-path"`
}

// Accepted is the answer to a request that goes on by itself.
type Accepted struct {
	RequestID string `json:"request-id"`
}

// Progress of a triggered operation.
const (
	TriggerInProgress = "IN_PROGRESS"
	TriggerCompleted  = "COMPLETED"
)

// TriggerStatus is how a triggered operation is getting on.
type TriggerStatus struct {
	Status struct {
		ID string `json:"id"`
	} `json:"status"`
	// Operation is nil while it is under way.
	Operation *Operation `json:"operation,omitempty"`
}

// Done reports whether the operation has ended.
func (s TriggerStatus) Done() bool { return s.Status.ID == TriggerCompleted && s.Operation != nil }

// Operation is what came of it: a failure, or one of the others. A Location
// beside a failure is that of a savepoint which is complete, but whose output
// is not known to be committed.
type Operation struct {
	Location     string   `json:"location,omitempty"`
	CheckpointID int64    `json:"checkpointId,omitempty"`
	FailureCause *Failure `json:"failure-cause,omitempty"`
}

// Failure is why an operation failed.
type Failure struct {
	Class      string `json:"class"`
	StackTrace string `json:"stack-trace"`
}

// Classes of failures that a program may want to tell apart.
const (
	// ClassUncommitted: the savepoint is complete, see Operation.Location.
	ClassUncommitted = "uncommitted"
	// ClassEnding: the job is stopping, or has ended.
	ClassEnding = "ending"
	// ClassTimeout: execution.checkpointing.timeout was not enough.
	ClassTimeout = "timeout"
)
