package server

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/rest"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/location"
	"github.com/weirstream/weir/runner/embedded"
)

func (s *Server) triggerCheckpoint(r *http.Request) (any, error) {
	var req rest.CheckpointRequest
	if err := readBody(r, &req); err != nil {
		return nil, err
	}
	switch strings.ToUpper(req.CheckpointType) {
	case "", "CONFIGURED", "FULL":
	case "INCREMENTAL":
		return nil, problemf(http.StatusBadRequest, "checkpointType INCREMENTAL is not offered: every checkpoint is a full one")
	default:
		return nil, problemf(http.StatusBadRequest, "checkpointType %q: allowed is CONFIGURED or FULL", req.CheckpointType)
	}
	return s.begin(r, req.TriggerID, s.refuseIdle, func(ctx context.Context) rest.Operation {
		id, err := s.Job.Checkpoint(ctx)
		return rest.Operation{CheckpointID: id, FailureCause: failure(err)}
	})
}

func (s *Server) triggerSavepoint(r *http.Request) (any, error) {
	var req rest.SavepointRequest
	if err := readBody(r, &req); err != nil {
		return nil, err
	}
	if req.CancelJob {
		return nil, problemf(http.StatusBadRequest, "cancel-job is not offered: POST /jobs/%s/stop stops the job with a savepoint, exactly once", s.id)
	}
	return s.savepoint(r, req.TargetDirectory, req.FormatType, req.TriggerID, embedded.SavepointOptions{})
}

func (s *Server) triggerStop(r *http.Request) (any, error) {
	var req rest.StopRequest
	if err := readBody(r, &req); err != nil {
		return nil, err
	}
	return s.savepoint(r, req.TargetDirectory, req.FormatType, req.TriggerID, embedded.SavepointOptions{Stop: true, Drain: req.Drain})
}

func (s *Server) savepoint(r *http.Request, dir, format, trigger string, o embedded.SavepointOptions) (any, error) {
	switch strings.ToUpper(format) {
	case "", rest.Canonical:
	case rest.Native:
		o.Native = true
	default:
		return nil, problemf(http.StatusBadRequest, "formatType %q: allowed is %s or %s", format, rest.Canonical, rest.Native)
	}
	o.Dir = dir
	fit := func() error {
		if dir == "" && s.Checkpoints.SavepointDir == "" {
			return problemf(http.StatusBadRequest, "%v", checkpoint.ErrNoSavepointDir)
		}
		if s.Checkpoints.Dir == "" && s.Checkpoints.Interval == 0 {
			return problemf(http.StatusBadRequest, "%v", checkpoint.ErrOff)
		}
		return s.refuseIdle()
	}
	return s.begin(r, trigger, fit, func(ctx context.Context) rest.Operation {
		path, err := s.take(ctx, o)
		return rest.Operation{Location: path, FailureCause: failure(err)}
	})
}

func (s *Server) take(ctx context.Context, o embedded.SavepointOptions) (path string, err error) {
	switch {
	case o.Native:
		return s.Job.SavepointWith(ctx, o)
	case o.Drain:
		return s.Job.DrainWithSavepoint(ctx, o.Dir)
	case o.Stop:
		return s.Job.StopWithSavepoint(ctx, o.Dir)
	}
	return s.Job.Savepoint(ctx, o.Dir)
}

// begin starts an operation unless the request is one that was made before, or
// does not fit.
func (s *Server) begin(r *http.Request, trigger string, fit func() error, do func(context.Context) rest.Operation) (any, error) {
	if trigger == "" {
		trigger = newID()
	} else if !isID(trigger) {
		return nil, problemf(http.StatusBadRequest, "triggerId %q: allowed are 32 hexadecimal digits", trigger)
	}
	if _, known := s.ops.status(trigger); !known {
		if err := fit(); err != nil {
			return nil, err
		}
		s.Logger.Info("asked for over HTTP", "path", r.URL.Path, "trigger", trigger, "from", r.RemoteAddr)
		s.ops.start(trigger, do)
	}
	return rest.Accepted{RequestID: trigger}, nil
}

func isID(id string) bool { return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == "" }

func (s *Server) operation(r *http.Request) (any, error) {
	id := r.PathValue("trigger")
	st, ok := s.ops.status(id)
	if !ok {
		return nil, problemf(http.StatusNotFound, "no operation %s is known: what came of one is kept for %v", id, keep)
	}
	return st, nil
}

// failure puts an error into the form of an answer, nil for none. The class
// names the kind where a program can do something about it.
func failure(err error) *rest.Failure {
	if err == nil {
		return nil
	}
	class := "error"
	var uncommitted *checkpoint.UncommittedError
	switch {
	case errors.As(err, &uncommitted):
		class = rest.ClassUncommitted
	case errors.Is(err, checkpoint.ErrStopping), errors.Is(err, checkpoint.ErrEnded), errors.Is(err, checkpoint.ErrCanceled):
		class = rest.ClassEnding
	case errors.Is(err, checkpoint.ErrTimeout):
		class = rest.ClassTimeout
	}
	return &rest.Failure{Class: class, StackTrace: err.Error()}
}

func (s *Server) triggerDisposal(r *http.Request) (any, error) {
	var req rest.DisposalRequest
	if err := readBody(r, &req); err != nil {
		return nil, err
	}
	path := req.SavepointPath
	fit := func() error {
		if path == "" {
			return problemf(http.StatusBadRequest, "savepoint-path is missing")
		}
		if s.needs(path) {
			return problemf(http.StatusConflict, "%s is needed: the job began from it and has completed no checkpoint since", path)
		}
		return nil
	}
	return s.begin(r, "", fit, func(ctx context.Context) rest.Operation {
		return rest.Operation{FailureCause: failure(s.Job.Dispose(ctx, path))}
	})
}

// needs reports whether a restart would go on from the savepoint.
func (s *Server) needs(path string) bool {
	h := s.Job.History()
	if h.LastRestored == nil {
		return false
	}
	for _, sn := range h.Snapshots {
		if sn.State == embedded.SnapshotCompleted && !sn.Savepoint && sn.Ended.After(h.LastRestored.Time) {
			return false
		}
	}
	return clean(h.LastRestored.Path) == clean(path)
}

func clean(path string) string {
	if location.IsURL(path) {
		return strings.TrimSuffix(location.Join(path), "/"+snapshot.MetadataName)
	}
	path = filepath.Clean(strings.TrimPrefix(path, "file://"))
	if filepath.Base(path) == snapshot.MetadataName {
		path = filepath.Dir(path)
	}
	return path
}
