// Package server is the REST interface of a running job: what it is doing, its
// checkpoints, and snapshots, stop and cancel on demand, in the shapes of
// Flink's.
package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/rest"
	"github.com/weirstream/weir/runner/embedded"
)

// Job is a job as the server sees it. All methods may be called from any
// goroutine, also when the job has ended.
type Job interface {
	Status() embedded.Status
	Plan() *graph.Plan
	History() embedded.History
	// The methods that take a snapshot block until that is done, or the job has
	// ended. An empty dir is the default one. A path beside an error is that of
	// a savepoint that is complete all the same.
	Checkpoint(ctx context.Context) (id int64, err error)
	Savepoint(ctx context.Context, dir string) (path string, err error)
	StopWithSavepoint(ctx context.Context, dir string) (path string, err error)
	DrainWithSavepoint(ctx context.Context, dir string) (path string, err error)
	SavepointWith(ctx context.Context, o embedded.SavepointOptions) (path string, err error)
	// Dispose deletes a savepoint.
	Dispose(ctx context.Context, path string) error
}

// Config is what a Server is made of.
type Config struct {
	Job Job
	// Cancel ends the job without a snapshot. It does not block.
	Cancel func()
	// Checkpoints are the effective options.
	Checkpoints checkpoint.Options
	// StateBackend is shown.
	StateBackend string
	// Version of Weir.
	Version string
	// Logger tells what was asked for. Default none.
	Logger *slog.Logger
	// Now is the wall clock. Default: the system's.
	Now func() time.Time
}

// Server answers requests about one job.
type Server struct {
	Config
	id  string
	ops *operations

	mu sync.Mutex
	// canceled tells that Cancel was called.
	canceled bool
}

// New makes a server with an id of its own for the job. Close must follow.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Server{Config: cfg, id: newID(), ops: newOperations(cfg.Now)}
}

// newID is 32 random hexadecimal digits.
func newID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// ID is the job's id, 32 hexadecimal digits. Each process has its own.
func (s *Server) ID() string { return s.id }

// Linger waits until every operation that was asked for has ended, and who asked
// has seen what came of it, or ctx ends. It is called when the job has ended.
func (s *Server) Linger(ctx context.Context) { s.ops.linger(ctx) }

// Close ends the operations under way and waits for them.
func (s *Server) Close() { s.ops.close() }

// Register adds the paths to mux, each also below /v1.
func (s *Server) Register(mux *http.ServeMux) {
	for _, r := range []struct {
		method, path string
		handle       func(*http.Request) (any, error)
	}{
		{"GET", "/overview", s.overview},
		{"GET", "/config", s.config},
		{"GET", "/jobs", s.jobs},
		{"GET", "/jobs/overview", s.jobsOverview},
		{"GET", "/jobs/{job}", s.ofJob(s.job)},
		{"GET", "/jobs/{job}/status", s.ofJob(s.status)},
		{"GET", "/jobs/{job}/plan", s.ofJob(s.plan)},
		{"GET", "/jobs/{job}/exceptions", s.ofJob(s.exceptions)},
		{"GET", "/jobs/{job}/checkpoints", s.ofJob(s.checkpoints)},
		{"GET", "/jobs/{job}/checkpoints/config", s.ofJob(s.checkpointConfig)},
		{"POST", "/jobs/{job}/checkpoints", s.ofJob(s.triggerCheckpoint)},
		{"GET", "/jobs/{job}/checkpoints/{trigger}", s.ofJob(s.operation)},
		{"POST", "/jobs/{job}/savepoints", s.ofJob(s.triggerSavepoint)},
		{"GET", "/jobs/{job}/savepoints/{trigger}", s.ofJob(s.operation)},
		{"POST", "/jobs/{job}/stop", s.ofJob(s.triggerStop)},
		{"PATCH", "/jobs/{job}", s.ofJob(s.cancel)},
		{"POST", "/savepoint-disposal", s.triggerDisposal},
		{"GET", "/savepoint-disposal/{trigger}", s.operation},
	} {
		for _, prefix := range []string{"", "/v1"} {
			mux.Handle(r.method+" "+prefix+r.path, s.answer(r.handle))
		}
	}
}

// ofJob refuses ids of other jobs.
func (s *Server) ofJob(handle func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		if id := r.PathValue("job"); id != s.id {
			return nil, problemf(http.StatusNotFound, "no job %s runs here; the one that does is %s (%s)", id, s.id, s.Job.Status().Job)
		}
		return handle(r)
	}
}

// problem is an answer that is not a success.
type problem struct {
	code int
	text string
}

func (p *problem) Error() string { return p.text }

func problemf(code int, format string, args ...any) error {
	return &problem{code, fmt.Sprintf(format, args...)}
}

// answer writes what a handler returns as JSON.
func (s *Server) answer(handle func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		doc, err := handle(r)
		code := http.StatusOK
		var p *problem
		switch {
		case errors.As(err, &p):
			code, doc = p.code, rest.Errors{Errors: []string{p.text}}
		case err != nil:
			code, doc = http.StatusInternalServerError, rest.Errors{Errors: []string{err.Error()}}
		case r.Method != http.MethodGet:
			code = http.StatusAccepted
		}
		data, err := json.Marshal(doc)
		if err != nil {
			s.Logger.Error("answering a request", "path", r.URL.Path, "error", err)
			code, data = http.StatusInternalServerError, []byte(`{"errors":["the answer cannot be written as JSON"]}`)
		}
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		w.WriteHeader(code)
		_, err = w.Write(data)
		if st, ok := doc.(rest.TriggerStatus); ok && err == nil && st.Done() {
			s.ops.seen(r.PathValue("trigger"))
		}
	})
}

// readBody decodes the body of a request; without one doc stays as it is.
// Members that are not known are ignored, as Flink's clients may send more.
func readBody(r *http.Request, doc any) error {
	if r.ContentLength == 0 {
		return nil
	}
	if err := json.NewDecoder(r.Body).Decode(doc); err != nil {
		return problemf(http.StatusBadRequest, "the body of the request is no JSON of the form expected: %v", err)
	}
	return nil
}

// Guard refuses what a web page makes a browser send: requests from pages of
// other origins that change anything and, if the server listens on the loopback
// interface, requests that name it otherwise, as after DNS rebinding.
func Guard(h http.Handler, loopback bool) http.Handler {
	h = http.NewCrossOriginProtection().Handler(h)
	if !loopback {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "the server listens on the loopback interface only and is not "+r.Host, http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
