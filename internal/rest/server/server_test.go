package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/checkpoint"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage/location"
	"github.com/weirstream/weir/runner/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeJob answers as a test says.
type fakeJob struct {
	mu      sync.Mutex
	status  embedded.Status
	history embedded.History
	// take is called for each snapshot that is asked for.
	take func(ctx context.Context, what, dir string) (path string, err error)
}

var (
	sourceNode = &graph.Node{ID: "in", Kind: "source", Role: graph.Source}
	sinkNode   = &graph.Node{ID: "out", Name: "rows <b>", Kind: "sink", Role: graph.Sink}
	sourceSt   = &graph.Stage{ID: "in", Nodes: []*graph.Node{sourceNode}, Parallelism: 2, MaxParallelism: 128}
	sinkSt     = &graph.Stage{ID: "out", Nodes: []*graph.Node{sinkNode}, Parallelism: 3, MaxParallelism: 128}
)

func newPlan() *graph.Plan {
	e := graph.CrossEdge{From: sourceSt, To: sinkSt, Producer: sourceNode, Consumer: sinkNode, Partition: graph.Hash}
	sourceSt.Outputs, sinkSt.Inputs = []graph.CrossEdge{e}, []graph.CrossEdge{e}
	return &graph.Plan{Job: "pages", Stages: []*graph.Stage{sourceSt, sinkSt}}
}

var plan = newPlan()

func (j *fakeJob) Status() embedded.Status {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status
}

func (j *fakeJob) become(state string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.status.State = state
}

func (j *fakeJob) Plan() *graph.Plan         { return plan }
func (j *fakeJob) History() embedded.History { return j.history }
func (j *fakeJob) Checkpoint(ctx context.Context) (int64, error) {
	_, err := j.take(ctx, "checkpoint", "")
	return 7, err
}
func (j *fakeJob) Savepoint(ctx context.Context, dir string) (string, error) {
	return j.take(ctx, "savepoint", dir)
}
func (j *fakeJob) StopWithSavepoint(ctx context.Context, dir string) (string, error) {
	return j.take(ctx, "stop", dir)
}
func (j *fakeJob) Dispose(ctx context.Context, path string) error {
	return coord.Dispose(ctx, location.NewOpener(), path)
}
func (j *fakeJob) SavepointWith(ctx context.Context, o embedded.SavepointOptions) (string, error) {
	what := "savepoint"
	switch {
	case o.Drain:
		what = "drain"
	case o.Stop:
		what = "stop"
	}
	if o.Native {
		what = "native " + what
	}
	return j.take(ctx, what, o.Dir)
}
func (j *fakeJob) DrainWithSavepoint(ctx context.Context, dir string) (string, error) {
	return j.take(ctx, "drain", dir)
}

var (
	start = time.UnixMilli(1_700_000_000_000)
	now   = start.Add(time.Minute)
)

// harness is a server of a running job, and a browser-less client of it.
type harness struct {
	*testing.T
	job      *fakeJob
	server   *Server
	url      string
	canceled int
}

func newHarness(t *testing.T, change ...func(*Config)) *harness {
	h := &harness{T: t, job: &fakeJob{
		status: embedded.Status{State: "running", Job: "pages", Started: start, Changed: start.Add(2 * time.Second)},
		take:   func(context.Context, string, string) (string, error) { return "", errors.New("not expected") },
	}}
	cfg := Config{
		Job: h.job, Cancel: func() { h.canceled++ }, Version: "0.1.0", StateBackend: "heap", Now: func() time.Time { return now },
		Checkpoints: checkpoint.Options{Interval: 10 * time.Second, Dir: "/var/lib/weir", SavepointDir: "/sp", Timeout: time.Minute, MaxConcurrent: 1, Retention: checkpoint.DeleteOnCancel},
	}
	for _, f := range change {
		f(&cfg)
	}
	h.server = New(cfg)
	mux := http.NewServeMux()
	h.server.Register(mux)
	web := httptest.NewServer(Guard(mux, true))
	h.url = web.URL
	t.Cleanup(func() {
		web.Close()
		h.server.Close()
	})
	return h
}

// do sends a request; the answer is of JSON. JOB in path is the job's id.
func (h *harness) do(method, path, body string) (int, map[string]any) {
	h.Helper()
	req, err := http.NewRequestWithContext(h.Context(), method, h.url+strings.ReplaceAll(path, "JOB", h.server.ID()), strings.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		h.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		h.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		h.Fatalf("%s %s: %v: %s", method, path, err, data)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/json; charset=UTF-8" {
		h.Errorf("%s %s has the content type %q", method, path, got)
	}
	return resp.StatusCode, doc
}

// want sends a request and compares members of the answer, by their paths.
func (h *harness) want(method, path, body string, code int, members map[string]any) map[string]any {
	h.Helper()
	got, doc := h.do(method, path, body)
	if got != code {
		h.Fatalf("%s %s: %d, want %d: %v", method, path, got, code, doc)
	}
	for p, want := range members {
		if v := member(doc, p); fmt.Sprint(v) != fmt.Sprint(want) {
			h.Errorf("%s %s: %s is %v, want %v", method, path, p, v, want)
		}
	}
	return doc
}

// member follows "jobs.0.name".
func member(v any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = at[key]; !ok {
				return "(missing)"
			}
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(at) {
				return "(missing)"
			}
			v = at[i]
		default:
			return "(missing)"
		}
	}
	return v
}

// refused sends a request that gets an error.
func (h *harness) refused(method, path, body string, code int, says string) {
	h.Helper()
	doc := h.want(method, path, body, code, nil)
	if text := fmt.Sprint(member(doc, "errors.0")); !strings.Contains(text, says) {
		h.Errorf("%s %s says %q, not %q", method, path, text, says)
	}
}

func TestJobs(t *testing.T) {
	h := newHarness(t)
	h.job.status.Operators = []embedded.OperatorStatus{{ID: "in", RecordsOut: 12}, {ID: "out", RecordsIn: 11, RecordsOut: 10}}
	h.job.status.Tasks = []embedded.TaskStatus{
		{Task: stage.TaskID{Stage: "in"}, Busy: time.Second, Idle: 3 * time.Second}, {Task: stage.TaskID{Stage: "in", Subtask: 1}, Busy: time.Second, BackPressured: 5 * time.Millisecond},
	}
	id := h.server.ID()
	if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		t.Errorf("the id is %q", id)
	}
	h.want("GET", "/overview", "", 200, map[string]any{"taskmanagers": 1, "slots-total": 3, "slots-available": 0, "jobs-running": 1, "jobs-finished": 0, "flink-version": "Weir 0.1.0"})
	h.want("GET", "/config", "", 200, map[string]any{"refresh-interval": 3000, "features.web-submit": false, "features.web-cancel": true})
	h.want("GET", "/v1/jobs", "", 200, map[string]any{"jobs.0.id": id, "jobs.0.status": "RUNNING"})
	h.want("GET", "/jobs/JOB/status", "", 200, map[string]any{"status": "RUNNING"})
	h.want("GET", "/jobs/overview", "", 200, map[string]any{
		"jobs.0.jid": id, "jobs.0.name": "pages", "jobs.0.state": "RUNNING", "jobs.0.start-time": float64(start.UnixMilli()), "jobs.0.end-time": -1,
		"jobs.0.duration": 60000, "jobs.0.tasks.total": 5, "jobs.0.tasks.running": 5, "jobs.0.tasks.failed": 0,
	})
	v := func(name string) string { return "vertices." + name }
	doc := h.want("GET", "/jobs/JOB", "", 200, map[string]any{
		"jid": id, "name": "pages", "state": "RUNNING", "isStoppable": true, "job-type": "STREAMING", "duration": 60000, "status-counts.RUNNING": 2,
		"timestamps.RUNNING": float64(start.UnixMilli() + 2000), "timestamps.FAILED": 0,
		v("0.name"): "Source: in", v("0.parallelism"): 2, v("0.maxParallelism"): 128, v("0.status"): "RUNNING", v("0.tasks.RUNNING"): 2,
		v("0.metrics.write-records"): 12, v("0.metrics.read-records"): 0, v("0.metrics.accumulated-busy-time"): 2000, v("0.metrics.accumulated-backpressured-time"): 5,
		v("0.metrics.accumulated-idle-time"): 3000, v("1.name"): "Sink: rows <b>", v("1.metrics.read-records"): 11, v("1.metrics.write-records"): 0,
		"plan.nodes.1.description": "Sink: rows &lt;b&gt;", "plan.nodes.1.inputs.0.ship_strategy": "HASH",
	})
	if source := member(doc, "vertices.0.id"); source != member(doc, "plan.nodes.0.id") || source != member(doc, "plan.nodes.1.inputs.0.id") || len(source.(string)) != 32 {
		t.Errorf("ids of vertices do not match: %v", doc)
	}
	h.want("GET", "/jobs/JOB/plan", "", 200, map[string]any{"plan.name": "pages", "plan.nodes.0.operator": "source"})
	h.want("GET", "/jobs/JOB/exceptions", "", 200, map[string]any{"root-exception": "", "exceptionHistory.entries": []any{}})
	h.job.status.Failure = "sink out: disk full\nmore"
	h.want("GET", "/jobs/JOB/exceptions", "", 200, map[string]any{"exceptionHistory.entries.0.exceptionName": "sink out: disk full", "exceptionHistory.entries.0.timestamp": float64(start.UnixMilli() + 2000)})
	h.refused("GET", "/jobs/0123", "", 404, "no job 0123 runs here; the one that does is "+id)
}

func TestStates(t *testing.T) {
	h := newHarness(t)
	for engine, want := range states {
		h.job.become(engine)
		h.want("GET", "/jobs/JOB/status", "", 200, map[string]any{"status": want})
	}
	h.job.become("finished")
	h.want("GET", "/overview", "", 200, map[string]any{"jobs-running": 0, "jobs-finished": 1})
	h.want("GET", "/jobs/overview", "", 200, map[string]any{"jobs.0.end-time": float64(start.UnixMilli() + 2000), "jobs.0.duration": 2000, "jobs.0.tasks.finished": 5})
}

func TestCheckpoints(t *testing.T) {
	h := newHarness(t)
	h.want("GET", "/jobs/JOB/checkpoints", "", 200, map[string]any{"counts.total": 0, "latest.completed": nil, "latest.restored": nil, "history": []any{}, "summary.state_size.max": 0})
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	h.job.history = embedded.History{
		Restored: 1, LastRestored: &embedded.RestoredStatus{ID: 1, Savepoint: true, Path: "/sp/savepoint-pages-1", Time: start}, Completed: 3, Failed: 1,
		Snapshots: []embedded.SnapshotStatus{
			{ID: 6, State: embedded.SnapshotInProgress, Triggered: at(59), Subtasks: 5, Acknowledged: 2},
			{ID: 5, State: embedded.SnapshotFailed, Triggered: at(50), Ended: at(51), Failure: "disk full", Subtasks: 5},
			{ID: 4, State: embedded.SnapshotCompleted, Triggered: at(40), Ended: at(44), Bytes: 100, Path: "/c/chk-4", Subtasks: 5, Acknowledged: 5},
			{ID: 3, State: embedded.SnapshotCompleted, Savepoint: true, Triggered: at(30), Ended: at(32), Bytes: 10, Path: "/sp/3", Subtasks: 5, Acknowledged: 5},
			{ID: 2, State: embedded.SnapshotCompleted, Triggered: at(20), Ended: at(21), Bytes: 40, Path: "/c/chk-2"},
		},
	}
	h.want("GET", "/jobs/JOB/checkpoints", "", 200, map[string]any{
		"counts.restored": 1, "counts.total": 5, "counts.in_progress": 1, "counts.completed": 3, "counts.failed": 1,
		"summary.checkpointed_size.min": 10, "summary.checkpointed_size.max": 100, "summary.checkpointed_size.avg": 50, "summary.checkpointed_size.p50": 40,
		"summary.end_to_end_duration.p999": 4000, "summary.end_to_end_duration.p50": 2000,
		"latest.completed.id": 4, "latest.completed.external_path": "/c/chk-4", "latest.completed.status": "COMPLETED", "latest.completed.end_to_end_duration": 4000,
		"latest.savepoint.id": 3, "latest.savepoint.is_savepoint": true, "latest.savepoint.savepointFormat": "CANONICAL",
		"latest.failed.id": 5, "latest.failed.failure_message": "disk full", "latest.failed.failure_timestamp": float64(at(51).UnixMilli()),
		"latest.restored.id": 1, "latest.restored.external_path": "/sp/savepoint-pages-1",
		"history.0.status": "IN_PROGRESS", "history.0.num_acknowledged_subtasks": 2, "history.0.end_to_end_duration": 1000, "history.0.latest_ack_timestamp": -1,
		"history.1.className": "failed", "history.4.id": 2,
	})
	h.want("GET", "/jobs/JOB/checkpoints/config", "", 200, map[string]any{
		"mode": "exactly_once", "interval": 10000, "timeout": 60000, "externalization.enabled": true, "externalization.delete_on_cancellation": true,
		"state_backend": "heap", "checkpoint_directory": "/var/lib/weir", "savepoint_directory": "/sp",
	})
}

// TestR03SavepointPath: what came of it carries the path, and can be read when
// the job has ended.
func TestR03SavepointPath(t *testing.T) {
	h := newHarness(t)
	asked, proceed := make(chan string, 1), make(chan struct{})
	h.job.take = func(_ context.Context, what, dir string) (string, error) {
		asked <- what + " " + dir
		<-proceed
		return "/sp/savepoint-pages-3", nil
	}
	trigger := h.want("POST", "/jobs/JOB/stop", `{"targetDirectory":"/elsewhere","drain":false}`, 202, nil)["request-id"].(string)
	if got := <-asked; got != "stop /elsewhere" || len(trigger) != 32 {
		t.Errorf("asked for %q, trigger %s", got, trigger)
	}
	h.want("GET", "/jobs/JOB/savepoints/"+trigger, "", 200, map[string]any{"status.id": "IN_PROGRESS", "operation": "(missing)"})
	// The job ends. The server stays until the result has been told.
	h.job.become("suspended")
	close(proceed)
	lingers := make(chan struct{})
	go func() {
		h.server.Linger(t.Context())
		close(lingers)
	}()
	for done := false; !done; {
		_, doc := h.do("GET", "/jobs/JOB/savepoints/"+trigger, "")
		if done = member(doc, "status.id") == "COMPLETED"; done && member(doc, "operation.location") != "/sp/savepoint-pages-3" {
			t.Errorf("got %v", doc)
		}
	}
	<-lingers
	h.refused("GET", "/jobs/JOB/savepoints/0123", "", 404, "no operation 0123 is known")
}

func TestLingerEnds(t *testing.T) {
	h := newHarness(t)
	h.server.Linger(t.Context()) // nothing was asked for
	h.job.take = func(ctx context.Context, _, _ string) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	h.want("POST", "/jobs/JOB/savepoints", "", 202, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.server.Linger(ctx)
	h.server.Close() // ends what is under way
}

// end waits for an operation.
func (h *harness) end(path string) map[string]any {
	h.Helper()
	for {
		_, doc := h.do("GET", path, "")
		if member(doc, "status.id") == "COMPLETED" {
			return doc
		}
	}
}

func TestTriggers(t *testing.T) {
	h := newHarness(t)
	var asked []string
	h.job.take = func(_ context.Context, what, dir string) (string, error) {
		asked = append(asked, strings.TrimSpace(what+" "+dir))
		return dir + "/x", nil
	}
	for _, c := range []struct {
		path, body, want string
		member           string
		value            any
	}{
		{"savepoints", "", "savepoint", "operation.location", "/x"},
		{"savepoints", `{"target-directory":"/d","formatType":"canonical"}`, "savepoint /d", "operation.location", "/d/x"},
		{"savepoints", `{"target-directory":"/d","formatType":"native"}`, "native savepoint /d", "operation.location", "/d/x"},
		{"stop", `{"targetDirectory":"/d","drain":true,"formatType":"NATIVE"}`, "native drain /d", "operation.location", "/d/x"},
		{"stop", `{"drain":true,"targetDirectory":"/d"}`, "drain /d", "operation.location", "/d/x"},
		{"checkpoints", `{"checkpointType":"FULL"}`, "checkpoint", "operation.checkpointId", 7},
	} {
		asked = nil
		trigger := h.want("POST", "/jobs/JOB/"+c.path, c.body, 202, nil)["request-id"].(string)
		among := strings.Replace(c.path, "stop", "savepoints", 1)
		doc := h.end("/v1/jobs/JOB/" + among + "/" + trigger)
		if !slices.Equal(asked, []string{c.want}) || fmt.Sprint(member(doc, c.member)) != fmt.Sprint(c.value) || member(doc, "operation.failure-cause") != "(missing)" {
			t.Errorf("%s %s: asked for %q, got %v", c.path, c.body, asked, doc)
		}
	}
	// A request repeated under its own id is carried out once.
	asked = nil
	const own = "00112233445566778899aabbccddeeff"
	for range 3 {
		h.want("POST", "/jobs/JOB/savepoints", `{"triggerId":"`+own+`"}`, 202, map[string]any{"request-id": own})
	}
	h.end("/jobs/JOB/savepoints/" + own)
	if len(asked) != 1 {
		t.Errorf("asked for %q", asked)
	}
}

func TestFailures(t *testing.T) {
	for class, err := range map[string]error{
		"uncommitted": &coord.UncommittedError{ID: 3, Path: "/sp/3", Err: errors.New("broker away")},
		"ending":      coord.ErrStopping, "timeout": fmt.Errorf("savepoint 3: %w", coord.ErrTimeout), "error": errors.New("disk full"),
	} {
		h := newHarness(t)
		h.job.take = func(context.Context, string, string) (string, error) {
			if class == "uncommitted" {
				return "/sp/3", err
			}
			return "", err
		}
		trigger := h.want("POST", "/jobs/JOB/savepoints", "", 202, nil)["request-id"].(string)
		doc := h.end("/jobs/JOB/savepoints/" + trigger)
		if member(doc, "operation.failure-cause.class") != class || member(doc, "operation.failure-cause.stack-trace") != err.Error() {
			t.Errorf("got %v", doc)
		}
		if complete := member(doc, "operation.location") == "/sp/3"; complete != (class == "uncommitted") {
			t.Errorf("%s: the location is %v", class, member(doc, "operation.location"))
		}
	}
}

func TestRefusals(t *testing.T) {
	h := newHarness(t)
	for _, c := range []struct {
		path, body, says string
	}{
		{"savepoints", `{`, "no JSON of the form expected"},
		{"savepoints", `{"target-directory":7}`, "no JSON of the form expected"},
		{"savepoints", `{"formatType":"COMPACT"}`, "allowed is CANONICAL or NATIVE"},
		{"savepoints", `{"cancel-job":true}`, "/stop stops the job with a savepoint"},
		{"savepoints", `{"triggerId":"x"}`, "32 hexadecimal digits"},
		{"checkpoints", `{"checkpointType":"INCREMENTAL"}`, "every checkpoint is a full one"},
		{"checkpoints", `{"checkpointType":"x"}`, "allowed is CONFIGURED or FULL"},
	} {
		h.refused("POST", "/jobs/JOB/"+c.path, c.body, 400, c.says)
	}
	h.refused("PATCH", "/jobs/JOB?mode=stop", "", 400, "mode=stop: allowed is cancel")
	h.refused("POST", "/savepoint-disposal", "", 400, "savepoint-path is missing")
	// TestR05: a stop while the job restarts, or when it has ended.
	h.job.become("restarting")
	h.refused("POST", "/jobs/JOB/stop", "", 409, "the job is restarting")
	h.job.become("finished")
	for _, path := range []string{"stop", "savepoints", "checkpoints"} {
		h.refused("POST", "/jobs/JOB/"+path, "", 409, "the job has already ended: it is FINISHED")
	}
	h.refused("PATCH", "/jobs/JOB?mode=cancel", "", 409, "already ended")

	none := newHarness(t, func(c *Config) { c.Checkpoints.SavepointDir = "" })
	none.refused("POST", "/jobs/JOB/stop", `{}`, 400, "no savepoint directory")
	off := newHarness(t, func(c *Config) { c.Checkpoints = checkpoint.Options{} })
	off.refused("POST", "/jobs/JOB/savepoints", `{"target-directory":"/sp"}`, 400, "set a checkpoint directory")
}

// TestR05Cancel: twice is once.
func TestR05Cancel(t *testing.T) {
	h := newHarness(t)
	for range 2 {
		h.want("PATCH", "/jobs/JOB", "", 202, nil)
		h.want("GET", "/jobs/JOB/status", "", 200, map[string]any{"status": "CANCELLING"})
	}
	if h.canceled != 1 {
		t.Errorf("cancelled %d times", h.canceled)
	}
	h.refused("POST", "/jobs/JOB/savepoints", "", 409, "a snapshot is taken of a running job")
	h.job.become("canceled")
	h.want("GET", "/jobs/JOB/status", "", 200, map[string]any{"status": "CANCELED"})
	h.refused("PATCH", "/jobs/JOB", "", 409, "CANCELED")
}

func TestDisposalOfWhatIsNeeded(t *testing.T) {
	h := newHarness(t)
	h.job.history.LastRestored = &embedded.RestoredStatus{Path: "/sp/savepoint-pages-1", Time: start}
	body := `{"savepoint-path":"file:///sp/./savepoint-pages-1/_metadata"}`
	h.refused("POST", "/savepoint-disposal", body, 409, "has completed no checkpoint since")
	h.job.history.Snapshots = []embedded.SnapshotStatus{{ID: 2, State: embedded.SnapshotCompleted, Ended: start.Add(time.Second)}}
	trigger := h.want("POST", "/savepoint-disposal", body, 202, nil)["request-id"].(string)
	if doc := h.end("/savepoint-disposal/" + trigger); !strings.Contains(fmt.Sprint(member(doc, "operation.failure-cause.stack-trace")), "does not exist") {
		t.Errorf("got %v", doc)
	}
}
