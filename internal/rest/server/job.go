package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/rest"
	"github.com/weirstream/weir/runner/embedded"
)

func millis(t time.Time) int64 {
	if t.IsZero() {
		return rest.None
	}
	return t.UnixMilli()
}

// states maps those of the engine to those of the interface.
var states = map[string]rest.JobState{
	"created": rest.Initializing, "standing by": rest.Initializing, "starting": rest.Initializing,
	"running": rest.Running, "restarting": rest.Restarting,
	"finished": rest.Finished, "suspended": rest.Suspended, "canceled": rest.Canceled, "failed": rest.Failed,
}

// state is the job's; a job that is asked to cancel is on its way to its end.
func (s *Server) state(st embedded.Status) rest.JobState {
	state := states[st.State]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.canceled && !state.Over() {
		return rest.Canceling
	}
	return state
}

func (s *Server) overview(*http.Request) (any, error) {
	o := rest.Overview{TaskManagers: 1, SlotsTotal: slots(s.Job.Plan()), FlinkVersion: s.version()}
	switch s.state(s.Job.Status()) {
	case rest.Finished, rest.Suspended:
		o.Finished++
	case rest.Canceled:
		o.Canceled++
	case rest.Failed:
		o.Failed++
	default:
		o.Running++
	}
	return o, nil
}

// slots is the largest parallelism.
func slots(p *graph.Plan) (n int) {
	for _, st := range p.Stages {
		n = max(n, st.Parallelism)
	}
	return n
}

func (s *Server) version() string { return "Weir " + s.Version }

func (s *Server) config(*http.Request) (any, error) {
	zone, offset := s.Now().Zone()
	return rest.Config{
		RefreshInterval: 3000, TimezoneName: zone, TimezoneOffset: offset * 1000, FlinkVersion: s.version(),
		Features: rest.Features{WebCancel: true},
	}, nil
}

func (s *Server) jobs(*http.Request) (any, error) {
	return rest.Jobs{Jobs: []rest.JobStatus{{ID: s.id, Status: s.state(s.Job.Status())}}}, nil
}

func (s *Server) status(*http.Request) (any, error) {
	return rest.Status{Status: s.state(s.Job.Status())}, nil
}

func (s *Server) jobsOverview(*http.Request) (any, error) {
	st := s.Job.Status()
	state := s.state(st)
	sum := rest.JobSummary{
		ID: s.id, Name: st.Job, State: state, StartTime: millis(st.Started), LastModification: millis(st.Changed),
		EndTime: rest.None, Tasks: taskCounts(strings.ToLower),
	}
	sum.EndTime, sum.Duration = s.times(st, state)
	for _, stage := range s.Job.Plan().Stages {
		sum.Tasks[strings.ToLower(taskState(state))] += stage.Parallelism
		sum.Tasks["total"] += stage.Parallelism
	}
	return rest.JobsOverview{Jobs: []rest.JobSummary{sum}}, nil
}

// times are the end of the job and how long it has run.
func (s *Server) times(st embedded.Status, state rest.JobState) (end, duration int64) {
	until := s.Now()
	end = rest.None
	if state.Over() {
		until, end = st.Changed, millis(st.Changed)
	}
	if st.Started.IsZero() {
		return end, 0
	}
	return end, until.Sub(st.Started).Milliseconds()
}

// taskStates are Flink's, of subtasks.
var taskStates = []string{"CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RECONCILING", "RUNNING", "FINISHED", "CANCELING", "CANCELED", "FAILED"}

func taskCounts(name func(string) string) map[string]int {
	counts := map[string]int{}
	for _, t := range taskStates {
		counts[name(t)] = 0
	}
	return counts
}

// taskState is that of all subtasks: they live and end together.
func taskState(job rest.JobState) string {
	switch job {
	case rest.Running, rest.Canceling:
		return "RUNNING"
	case rest.Finished, rest.Suspended:
		return "FINISHED"
	case rest.Canceled, rest.Failed:
		return string(job)
	}
	return "CREATED"
}

func (s *Server) job(*http.Request) (any, error) {
	st, plan := s.Job.Status(), s.Job.Plan()
	state := s.state(st)
	doc := rest.Job{
		ID: s.id, Name: st.Job, Stoppable: state == rest.Running, State: state, Type: "STREAMING", StartTime: millis(st.Started),
		MaxParallelism: -1, Now: s.Now().UnixMilli(), Timestamps: timestamps(st, state), StatusCounts: taskCounts(strings.ToUpper),
		Vertices: []rest.Vertex{}, Plan: s.planOf(plan),
	}
	doc.EndTime, doc.Duration = s.times(st, state)
	operators := map[string]embedded.OperatorStatus{}
	for _, o := range st.Operators {
		operators[o.ID] = o
	}
	for _, stage := range plan.Stages {
		v := rest.Vertex{
			ID: vertexID(stage), Name: stageName(stage), Parallelism: stage.Parallelism, MaxParallelism: stage.MaxParallelism,
			Status: taskState(state), StartTime: doc.StartTime, EndTime: doc.EndTime, Duration: doc.Duration,
			Tasks: taskCounts(strings.ToUpper), Metrics: vertexMetrics(stage, operators, st.Tasks),
		}
		v.Tasks[v.Status] = stage.Parallelism
		doc.StatusCounts[v.Status]++
		doc.Vertices = append(doc.Vertices, v)
	}
	return doc, nil
}

// timestamps are when the job came into its states; 0 for those it was not in,
// or is no more.
func timestamps(st embedded.Status, state rest.JobState) map[rest.JobState]int64 {
	at := map[rest.JobState]int64{}
	for _, s := range states {
		at[s] = 0
	}
	at[rest.Canceling] = 0
	if !st.Started.IsZero() {
		at[rest.Initializing] = millis(st.Started)
	}
	at[state] = millis(st.Changed)
	return at
}

func vertexMetrics(stage *graph.Stage, operators map[string]embedded.OperatorStatus, tasks []embedded.TaskStatus) rest.VertexMetrics {
	m := rest.VertexMetrics{ReadBytesComplete: true, WriteBytesComplete: true, ReadRecordsComplete: true, WriteRecordsComplete: true}
	m.ReadRecords = operators[stage.Head().ID].RecordsIn
	producers := map[string]bool{}
	for _, out := range stage.Outputs {
		producers[out.Producer.ID] = true
	}
	for id := range producers {
		m.WriteRecords += operators[id].RecordsOut
	}
	for _, t := range tasks {
		if t.Task.Stage == stage.ID {
			m.Busy += t.Busy.Milliseconds()
			m.Idle += t.Idle.Milliseconds()
			m.BackPressured += t.BackPressured.Milliseconds()
		}
	}
	return m
}

// vertexID is made of the id of the stage's first operator, so that it stays.
func vertexID(stage *graph.Stage) string {
	sum := sha256.Sum256([]byte(stage.ID))
	return hex.EncodeToString(sum[:16])
}

// stageName names the operators; that of a source begins as in Flink.
func stageName(stage *graph.Stage) string {
	names := make([]string, len(stage.Nodes))
	for i, n := range stage.Nodes {
		names[i] = n.Label()
		switch n.Role {
		case graph.Source:
			names[i] = "Source: " + names[i]
		case graph.Sink:
			names[i] = "Sink: " + names[i]
		}
	}
	return strings.Join(names, " -> ")
}

func (s *Server) plan(*http.Request) (any, error) {
	return rest.PlanDocument{Plan: s.planOf(s.Job.Plan())}, nil
}

func (s *Server) planOf(p *graph.Plan) rest.Plan {
	doc := rest.Plan{ID: s.id, Name: p.Job, Type: "STREAMING", Nodes: []rest.PlanNode{}}
	for _, stage := range p.Stages {
		n := rest.PlanNode{
			ID: vertexID(stage), Parallelism: stage.Parallelism, Operator: stage.Head().Kind,
			// Clients take it for HTML.
			Description: html.EscapeString(stageName(stage)),
		}
		for i, in := range stage.Inputs {
			n.Inputs = append(n.Inputs, rest.PlanInput{
				Num: i, ID: vertexID(in.From), ShipStrategy: strings.ToUpper(string(in.Partition)), Exchange: "pipelined_bounded",
			})
		}
		doc.Nodes = append(doc.Nodes, n)
	}
	return doc
}

func (s *Server) exceptions(*http.Request) (any, error) {
	st := s.Job.Status()
	doc := rest.Exceptions{All: []struct{}{}, History: rest.ExceptionHistory{Entries: []rest.ExceptionEntry{}}}
	if st.Failure == "" {
		return doc, nil
	}
	first, _, _ := strings.Cut(st.Failure, "\n")
	doc.RootException, doc.Timestamp = st.Failure, millis(st.Changed)
	doc.History.Entries = append(doc.History.Entries, rest.ExceptionEntry{
		ExceptionName: cmp.Or(first, "failure"), Stacktrace: st.Failure, Timestamp: doc.Timestamp,
		FailureLabels: map[string]string{}, ConcurrentExceptions: []struct{}{},
	})
	return doc, nil
}

// cancel ends the job without a snapshot. Asked twice it is done once.
func (s *Server) cancel(r *http.Request) (any, error) {
	if mode := r.URL.Query().Get("mode"); mode != "" && mode != "cancel" {
		return nil, problemf(http.StatusBadRequest, "mode=%s: allowed is cancel; to stop with a savepoint use POST /jobs/%s/stop", mode, s.id)
	}
	if err := s.refuseOver(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	again := s.canceled
	s.canceled = true
	s.mu.Unlock()
	if !again {
		s.Logger.Info("the job is cancelled on request", "from", r.RemoteAddr)
		s.Cancel()
	}
	return rest.Empty{}, nil
}

func (s *Server) refuseOver() error {
	if state := s.state(s.Job.Status()); state.Over() {
		return problemf(http.StatusConflict, "the job has already ended: it is %s", state)
	}
	return nil
}

// refuseIdle refuses a snapshot of a job that does not run at the moment.
func (s *Server) refuseIdle() error {
	if err := s.refuseOver(); err != nil {
		return err
	}
	if st := s.Job.Status(); s.state(st) != rest.Running {
		return problemf(http.StatusConflict, "%s", fmt.Sprintf("the job is %s: a snapshot is taken of a running job; try again when it runs", cmp.Or(st.State, "not running")))
	}
	return nil
}
