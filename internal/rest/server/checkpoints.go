package server

import (
	"net/http"
	"slices"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/rest"
	"github.com/weirstream/weir/runner/embedded"
)

func (s *Server) checkpoints(*http.Request) (any, error) {
	h := s.Job.History()
	doc := rest.Checkpoints{
		Counts:  rest.Counts{Restored: int64(h.Restored), Completed: h.Completed, Failed: h.Failed},
		History: []rest.Checkpoint{},
	}
	var done []rest.Checkpoint
	for _, sn := range h.Snapshots {
		c := s.checkpoint(sn)
		doc.History = append(doc.History, c)
		switch {
		case sn.State == embedded.SnapshotInProgress:
			doc.Counts.InProgress++
		case sn.State == embedded.SnapshotFailed:
			first(&doc.Latest.Failed, c)
		case sn.Savepoint:
			first(&doc.Latest.Savepoint, c)
		default:
			first(&doc.Latest.Completed, c)
		}
		if sn.State == embedded.SnapshotCompleted {
			done = append(done, c)
		}
	}
	doc.Counts.Total = doc.Counts.InProgress + doc.Counts.Completed + doc.Counts.Failed
	doc.Summary = summary(done)
	if r := h.LastRestored; r != nil {
		doc.Latest.Restored = &rest.Restored{ID: r.ID, Time: millis(r.Time), Savepoint: r.Savepoint, Path: r.Path}
	}
	return doc, nil
}

// first keeps the first value, which is the newest.
func first(p **rest.Checkpoint, c rest.Checkpoint) {
	if *p == nil {
		*p = &c
	}
}

func (s *Server) checkpoint(sn embedded.SnapshotStatus) rest.Checkpoint {
	c := rest.Checkpoint{
		Class: "completed", Status: rest.CheckpointCompleted, ID: sn.ID, Savepoint: sn.Savepoint, Type: "CHECKPOINT",
		Triggered: millis(sn.Triggered), LatestAck: millis(sn.Ended), Bytes: sn.Bytes, StateSize: sn.Bytes,
		Subtasks: sn.Subtasks, Acknowledged: sn.Acknowledged, Path: sn.Path,
	}
	if sn.Savepoint {
		c.Type, c.SavepointFormat = "SAVEPOINT", rest.Canonical
	}
	ended := sn.Ended
	switch sn.State {
	case embedded.SnapshotInProgress:
		c.Class, c.Status, c.Path, ended = "in_progress", rest.CheckpointInProgress, "", s.Now()
	case embedded.SnapshotFailed:
		c.Class, c.Status, c.Path = "failed", rest.CheckpointFailed, ""
		c.FailureTimestamp, c.FailureDescription, c.LatestAck = millis(sn.Ended), sn.Failure, rest.None
	}
	c.Duration = max(0, ended.Sub(sn.Triggered).Milliseconds())
	return c
}

func summary(done []rest.Checkpoint) rest.Summary {
	over := func(value func(rest.Checkpoint) int64) rest.Range {
		vs := make([]int64, len(done))
		for i, c := range done {
			vs[i] = value(c)
		}
		return distribution(vs)
	}
	bytes := over(func(c rest.Checkpoint) int64 { return c.Bytes })
	return rest.Summary{Bytes: bytes, StateSize: bytes, Duration: over(func(c rest.Checkpoint) int64 { return c.Duration })}
}

// distribution sorts the values.
func distribution(vs []int64) (r rest.Range) {
	if len(vs) == 0 {
		return r
	}
	slices.Sort(vs)
	var sum int64
	for _, v := range vs {
		sum += v
	}
	// rank is the smallest value that so many thousandths do not exceed.
	rank := func(thousandths int) int64 { return vs[(len(vs)*thousandths+999)/1000-1] }
	return rest.Range{
		Min: vs[0], Max: vs[len(vs)-1], Avg: sum / int64(len(vs)),
		P50: rank(500), P90: rank(900), P95: rank(950), P99: rank(990), P999: rank(999),
	}
}

func (s *Server) checkpointConfig(*http.Request) (any, error) {
	o := s.Checkpoints
	c := rest.CheckpointConfig{
		Mode: "exactly_once", Interval: o.Interval.Milliseconds(), Timeout: o.Timeout.Milliseconds(), MinPause: o.MinPause.Milliseconds(),
		MaxConcurrent: o.MaxConcurrent, StateBackend: s.StateBackend, Storage: "file", Tolerable: o.TolerableFailures, AfterTasksFinish: true,
		Externalization:     rest.Externalization{Enabled: o.Retention != checkpoint.DeleteAtEnd, DeleteOnCancellation: o.Retention != checkpoint.RetainAlways},
		CheckpointDirectory: o.Dir, SavepointDirectory: o.SavepointDir,
	}
	if o.Mode == checkpoint.AtLeastOnce {
		c.Mode = "at_least_once"
	}
	if o.Dir == checkpoint.Memory {
		c.Storage = "memory"
	}
	return c, nil
}
