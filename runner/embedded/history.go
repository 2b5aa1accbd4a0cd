package embedded

import (
	"slices"
	"time"

	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
)

// historySize is how many ended snapshots a job remembers.
const historySize = 100

// SnapshotState is how far a snapshot is.
type SnapshotState string

// The states of a snapshot.
const (
	SnapshotInProgress SnapshotState = "in progress"
	SnapshotCompleted  SnapshotState = "completed"
	SnapshotFailed     SnapshotState = "failed"
)

// SnapshotStatus describes a checkpoint or a savepoint of this process.
type SnapshotStatus struct {
	ID    int64
	State SnapshotState
	// Savepoint tells it from a checkpoint.
	Savepoint bool
	// Path is its directory.
	Path string
	// Triggered is when it began, Ended when it completed or failed; zero
	// while it is under way.
	Triggered, Ended time.Time
	// Bytes written by the subtasks.
	Bytes int64
	// Subtasks take part; Acknowledged have stored their part.
	Subtasks, Acknowledged int
	// Failure is why it failed.
	Failure string
}

// RestoredStatus is the snapshot that the last start began from.
type RestoredStatus struct {
	ID        int64
	Savepoint bool
	Path      string
	Time      time.Time
}

// History is a job's account of its snapshots, those of this process.
type History struct {
	// Restored is how often a start began from a snapshot; LastRestored is nil
	// if none did.
	Restored     int
	LastRestored *RestoredStatus
	// Completed and Failed ones.
	Completed, Failed int64
	// Snapshots are the newest first: those under way, and the last 100 that
	// have ended.
	Snapshots []SnapshotStatus
}

// History may be called from any goroutine at any time.
func (j *Job) History() History {
	j.mu.Lock()
	a := j.current
	j.mu.Unlock()
	var pending []coord.Notice
	if a != nil {
		pending = a.coordinator.Status().Pending
	}
	h := j.m.history()
	for _, n := range pending {
		s := snapshotStatus(n)
		s.State, s.Ended = SnapshotInProgress, time.Time{}
		// It may have ended since.
		if !slices.ContainsFunc(h.Snapshots, func(o SnapshotStatus) bool { return o.ID == s.ID && o.Triggered.Equal(s.Triggered) }) {
			h.Snapshots = append(h.Snapshots, s)
		}
	}
	slices.SortStableFunc(h.Snapshots, func(a, b SnapshotStatus) int { return int(b.ID - a.ID) })
	return h
}

func snapshotStatus(n coord.Notice) SnapshotStatus {
	s := SnapshotStatus{
		ID: n.ID, State: SnapshotCompleted, Savepoint: n.Kind == snapshot.Savepoint, Path: n.Path,
		Triggered: time.UnixMilli(n.Triggered), Bytes: n.Bytes, Subtasks: n.Tasks, Acknowledged: n.Acked,
	}
	s.Ended = s.Triggered.Add(n.Duration)
	if n.Err != nil {
		s.State, s.Failure = SnapshotFailed, n.Err.Error()
	}
	return s
}

func (m *metrics) history() History {
	m.mu.Lock()
	defer m.mu.Unlock()
	return History{
		Restored: m.restored, LastRestored: m.lastRestored, Completed: m.completed, Failed: m.failed,
		Snapshots: slices.Clone(m.ended),
	}
}

// remember keeps what has become of a snapshot. m is locked.
func (m *metrics) remember(n coord.Notice) {
	if len(m.ended) == historySize {
		m.ended = slices.Delete(m.ended, 0, 1)
	}
	m.ended = append(m.ended, snapshotStatus(n))
}

// began notes what a start began from.
func (m *metrics) began(a *coord.Attempt) {
	if a.Restored == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restored++
	m.lastRestored = &RestoredStatus{
		ID: a.Restored.ID, Savepoint: a.Restored.Kind == snapshot.Savepoint,
		Path: a.RestoredBlobs.String() + "/" + a.RestoredDir, Time: time.Now(),
	}
}
