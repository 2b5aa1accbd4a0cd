// Package rest holds the documents of the REST interface of a running job, in
// the shapes of Flink's, and a client for it.
//
// Ids of jobs, vertices and triggers are 32 hexadecimal digits. Times are
// milliseconds since the epoch, -1 for none yet; durations are milliseconds,
// sizes bytes.
package rest

// None stands for a time that has not come.
const None int64 = -1

// JobState is a state of a job, by Flink's names.
type JobState string

// The states of a job.
const (
	Initializing JobState = "INITIALIZING"
	Running      JobState = "RUNNING"
	Restarting   JobState = "RESTARTING"
	Canceling    JobState = "CANCELLING"
	Finished     JobState = "FINISHED"
	Suspended    JobState = "SUSPENDED"
	Canceled     JobState = "CANCELED"
	Failed       JobState = "FAILED"
)

// Over reports whether the job has ended.
func (s JobState) Over() bool {
	return s == Finished || s == Suspended || s == Canceled || s == Failed
}

// Overview is GET /overview.
type Overview struct {
	TaskManagers   int    `json:"taskmanagers"`
	SlotsTotal     int    `json:"slots-total"`
	SlotsAvailable int    `json:"slots-available"`
	Running        int    `json:"jobs-running"`
	Finished       int    `json:"jobs-finished"`
	Canceled       int    `json:"jobs-cancelled"`
	Failed         int    `json:"jobs-failed"`
	FlinkVersion   string `json:"flink-version"`
	FlinkCommit    string `json:"flink-commit"`
}

// Config is GET /config.
type Config struct {
	RefreshInterval int64    `json:"refresh-interval"`
	TimezoneName    string   `json:"timezone-name"`
	TimezoneOffset  int      `json:"timezone-offset"`
	FlinkVersion    string   `json:"flink-version"`
	FlinkRevision   string   `json:"flink-revision"`
	Features        Features `json:"features"`
}

// Features are what a server offers.
type Features struct {
	WebSubmit  bool `json:"web-submit"`
	WebCancel  bool `json:"web-cancel"`
	WebRescale bool `json:"web-rescale"`
	WebHistory bool `json:"web-history"`
}

// Jobs is GET /jobs.
type Jobs struct {
	Jobs []JobStatus `json:"jobs"`
}

// JobStatus is an entry of Jobs.
type JobStatus struct {
	ID     string   `json:"id"`
	Status JobState `json:"status"`
}

// Status is GET /jobs/:jobid/status.
type Status struct {
	Status JobState `json:"status"`
}

// JobsOverview is GET /jobs/overview.
type JobsOverview struct {
	Jobs []JobSummary `json:"jobs"`
}

// JobSummary is an entry of JobsOverview.
type JobSummary struct {
	ID               string         `json:"jid"`
	Name             string         `json:"name"`
	State            JobState       `json:"state"`
	StartTime        int64          `json:"start-time"`
	EndTime          int64          `json:"end-time"`
	Duration         int64          `json:"duration"`
	LastModification int64          `json:"last-modification"`
	Tasks            map[string]int `json:"tasks"`
}

// Job is GET /jobs/:jobid.
type Job struct {
	ID             string             `json:"jid"`
	Name           string             `json:"name"`
	Stoppable      bool               `json:"isStoppable"`
	State          JobState           `json:"state"`
	Type           string             `json:"job-type"`
	StartTime      int64              `json:"start-time"`
	EndTime        int64              `json:"end-time"`
	Duration       int64              `json:"duration"`
	MaxParallelism int                `json:"maxParallelism"`
	Now            int64              `json:"now"`
	Timestamps     map[JobState]int64 `json:"timestamps"`
	Vertices       []Vertex           `json:"vertices"`
	StatusCounts   map[string]int     `json:"status-counts"`
	Plan           Plan               `json:"plan"`
}

// Vertex is a stage of a job: operators that hand records on by direct call.
type Vertex struct {
	ID             string         `json:"id"`
	Name           string         `json:"name"`
	Parallelism    int            `json:"parallelism"`
	MaxParallelism int            `json:"maxParallelism"`
	Status         string         `json:"status"`
	StartTime      int64          `json:"start-time"`
	EndTime        int64          `json:"end-time"`
	Duration       int64          `json:"duration"`
	Tasks          map[string]int `json:"tasks"`
	Metrics        VertexMetrics  `json:"metrics"`
}

// VertexMetrics are those of the running attempt. Bytes are not counted inside
// one process.
type VertexMetrics struct {
	ReadBytes            int64 `json:"read-bytes"`
	ReadBytesComplete    bool  `json:"read-bytes-complete"`
	WriteBytes           int64 `json:"write-bytes"`
	WriteBytesComplete   bool  `json:"write-bytes-complete"`
	ReadRecords          int64 `json:"read-records"`
	ReadRecordsComplete  bool  `json:"read-records-complete"`
	WriteRecords         int64 `json:"write-records"`
	WriteRecordsComplete bool  `json:"write-records-complete"`
	// Times are summed over the subtasks.
	BackPressured int64 `json:"accumulated-backpressured-time"`
	Idle          int64 `json:"accumulated-idle-time"`
	Busy          int64 `json:"accumulated-busy-time"`
}

// PlanDocument is GET /jobs/:jobid/plan.
type PlanDocument struct {
	Plan Plan `json:"plan"`
}

// Plan is the graph of a job.
type Plan struct {
	ID    string     `json:"jid"`
	Name  string     `json:"name"`
	Type  string     `json:"type"`
	Nodes []PlanNode `json:"nodes"`
}

// PlanNode is a vertex of the graph.
type PlanNode struct {
	ID               string      `json:"id"`
	Parallelism      int         `json:"parallelism"`
	Operator         string      `json:"operator"`
	OperatorStrategy string      `json:"operator_strategy"`
	Description      string      `json:"description"`
	Inputs           []PlanInput `json:"inputs,omitempty"`
}

// PlanInput is an edge into a vertex.
type PlanInput struct {
	Num          int    `json:"num"`
	ID           string `json:"id"`
	ShipStrategy string `json:"ship_strategy"`
	Exchange     string `json:"exchange"`
}

// Exceptions is GET /jobs/:jobid/exceptions.
type Exceptions struct {
	RootException string           `json:"root-exception"`
	Timestamp     int64            `json:"timestamp"`
	Truncated     bool             `json:"truncated"`
	All           []struct{}       `json:"all-exceptions"`
	History       ExceptionHistory `json:"exceptionHistory"`
}

// ExceptionHistory lists failures, the newest first.
type ExceptionHistory struct {
	Entries   []ExceptionEntry `json:"entries"`
	Truncated bool             `json:"truncated"`
}

// ExceptionEntry is a failure.
type ExceptionEntry struct {
	ExceptionName        string            `json:"exceptionName"`
	Stacktrace           string            `json:"stacktrace"`
	Timestamp            int64             `json:"timestamp"`
	FailureLabels        map[string]string `json:"failureLabels"`
	ConcurrentExceptions []struct{}        `json:"concurrentExceptions"`
}

// Errors is the body of an answer that is not a success.
type Errors struct {
	Errors []string `json:"errors"`
}
