package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/rest/server"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -rewrite accepts it); got:\n%s", path, got)
	}
}

// fakeEngine runs what a test says.
type fakeEngine struct {
	server.Job
	graph     *graph.Graph
	opts      embedded.Options
	body      func(ctx context.Context, e *fakeEngine) error
	suspended chan struct{}
	once      sync.Once
	in, out   atomic.Int64
}

func (e *fakeEngine) Run(ctx context.Context) error { return e.body(ctx, e) }
func (e *fakeEngine) Suspend()                      { e.once.Do(func() { close(e.suspended) }) }
func (e *fakeEngine) Records() (in, out int64)      { return e.in.Load(), e.out.Load() }

// fake makes engines with the given body and leaves the last one in made.
func fake(body func(context.Context, *fakeEngine) error) (maker engineMaker, made func() *fakeEngine) {
	var last *fakeEngine
	return func(g *graph.Graph, o embedded.Options) (engine, error) {
		last = &fakeEngine{graph: g, opts: o, body: body, suspended: make(chan struct{})}
		return last, nil
	}, func() *fakeEngine { return last }
}

func finish(context.Context, *fakeEngine) error { return nil }

func buildPipe(j *stream.Job) {
	stream.To(stream.FromSlice(j, "numbers", []int{1, 2, 3}), "nowhere", connector.Discard[int]())
}

func buildExactlyOnce(j *stream.Job) {
	stream.To(stream.FromSlice(j, "numbers", []int{1, 2, 3}), "once", collect.NewExactlyOnce[int]())
}

// harness is a program whose surroundings the test holds.
type harness struct {
	program
	out, err bytes.Buffer
	signal   chan os.Signal
}

func newHarness(build func(*stream.Job), maker engineMaker, opts ...Option) *harness {
	h := &harness{signal: make(chan os.Signal)}
	h.program = program{
		name: "test-job", build: build, opts: collectOptions(opts), stdout: &h.out, stderr: &h.err,
		signals: h.signal, newEngine: maker,
	}
	return h
}

func TestUsage(t *testing.T) {
	maker, made := fake(finish)
	tests := []struct {
		args string
		want []string
	}{
		{"", []string{"test-job run [flags]"}},
		{"start", []string{`unknown command "start"`, "Try: test-job help"}},
		{"-p 4", []string{"-p stands before the command; write: test-job run -p 4"}},
		{"run --paralellism 4", []string{"unknown flag -paralellism", "Try: test-job help run"}},
		{"run extra", []string{`unexpected argument "extra"`}},
		{"run -p", []string{"flag needs an argument: -p"}},
		{"run --output yaml", []string{`--output "yaml": allowed is one of text, json`}},
		{"graph --output dot", []string{`allowed is one of text, json, mermaid`}},
		{"graph --fresh", []string{"unknown flag -fresh"}},
		{"run -p 0 --checkpoint-interval soon", []string{
			`flag -p: parallelism.default = "0": allowed is a whole number from 1 to 32768`,
			`flag --checkpoint-interval: execution.checkpointing.interval = "soon": allowed is a duration`}},
		{"run -D parallelism=2", []string{`flag -D: unknown key "parallelism"`}},
		{"run -D parallelism.default", []string{"not of the form KEY=VALUE"}},
		{"run --checkpoint-interval 1s", []string{"the configuration is wrong", "--checkpoint-dir"}},
		{"run -Dpipeline.max-parallelism=4 -p 8", []string{"parallelism 8 is above the max parallelism 4"}},
		{"run --config nowhere.yaml", []string{"nowhere.yaml"}},
		{"run --state-backend tape", []string{"flag --state-backend", "one of heap, lsm"}},
		{"run --rewind", []string{"--rewind needs the snapshot to go back to: add -s PATH", "Try: test-job help run"}},
		{"run --fresh -s /snap", []string{"--fresh begins from nothing and -s from a snapshot (/snap): leave one out"}},
		{"run --rewind=0 -s /snap", []string{"allowed is a number from 1"}},
		{"help me", []string{`no help on "me"`}},
	}
	for _, tc := range tests {
		t.Run(tc.args, func(t *testing.T) {
			h := newHarness(buildPipe, maker)
			if code := h.run(strings.Fields(tc.args)); code != exitUsage {
				t.Errorf("exit code %d, want %d", code, exitUsage)
			}
			for _, w := range tc.want {
				if !strings.Contains(h.err.String(), w) {
					t.Errorf("stderr lacks %q:\n%s", w, h.err.String())
				}
			}
			if h.out.Len() > 0 {
				t.Errorf("stdout: %s", h.out.String())
			}
		})
	}
	if made() != nil {
		t.Error("an engine was made in spite of wrong usage")
	}
}

func TestHelp(t *testing.T) {
	own := Flags(func(f *flag.FlagSet) {
		f.String("topic", "clicks", "read from `TOPIC`")
		f.Bool("slow", false, "take your time")
	})
	for args, file := range map[string]string{
		"help": "help.txt", "help run": "help-run.txt", "run --help": "help-run.txt", "graph -h": "help-graph.txt", "help check": "help-check.txt", "help options": "help-options.txt",
	} {
		h := newHarness(buildPipe, nil, own)
		if code := h.run(strings.Fields(args)); code != exitDone {
			t.Errorf("%s: exit code %d", args, code)
		}
		golden(t, file, h.out.String())
	}
}

func TestOwnFlags(t *testing.T) {
	var limit int
	var atBuild int
	build := func(j *stream.Job) { atBuild = limit; buildPipe(j) }
	maker, _ := fake(finish)
	own := Flags(func(f *flag.FlagSet) { f.IntVar(&limit, "limit", 1, "limit") })
	if h := newHarness(build, maker, own); h.run([]string{"run", "--limit", "7", "-q"}) != exitDone || atBuild != 7 {
		t.Errorf("at build the flag was %d: %s", atBuild, h.err.String())
	}
	clash := Flags(func(f *flag.FlagSet) { f.String("http", "", "") })
	if h := newHarness(build, maker, clash); h.run([]string{"run"}) != exitUsage || !strings.Contains(h.err.String(), "--http has the name of a flag of run") {
		t.Errorf("clash: %s", h.err.String())
	}
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name     string
		body     func(context.Context, *fakeEngine) error
		code     int
		want     string
		not      string
		finished bool
	}{
		{name: "finished", code: exitDone, want: "test-job: finished after ", body: func(_ context.Context, e *fakeEngine) error {
			e.in.Store(1234567)
			return nil
		}},
		{name: "finished before", code: exitDone, want: "already finished in an earlier run, nothing to do; --fresh begins anew",
			body: func(context.Context, *fakeEngine) error { return fmt.Errorf("start: %w", checkpoint.ErrFinished) }},
		{name: "failed", code: exitFailed, want: "test-job: the job failed: operator \"x\": boom\nThe same command goes on from checkpoint 7.\n",
			body: func(_ context.Context, e *fakeEngine) error {
				e.opts.OnEvent(embedded.Event{Kind: embedded.CheckpointCompleted, Checkpoint: 7})
				return errors.New(`operator "x": boom`)
			}},
		{name: "lost", code: exitFailed, want: "The same command asks once more for what checkpoint 7 holds; if it is lost, it is refused, and says what can be done.\n", not: "goes on",
			body: func(_ context.Context, e *fakeEngine) error {
				e.opts.OnEvent(embedded.Event{Kind: embedded.CheckpointCompleted, Checkpoint: 7})
				return fmt.Errorf("commit sink rows up to checkpoint 7: %w", connector.ErrTransactionLost)
			}},
		{name: "refused", code: exitFailed, want: "test-job: the job failed: start refused: choose\n", not: "The same command",
			body: func(_ context.Context, e *fakeEngine) error {
				e.opts.OnEvent(embedded.Event{Kind: embedded.CheckpointCompleted, Checkpoint: 7})
				return fmt.Errorf("%w: choose", checkpoint.ErrRefused)
			}},
		{name: "fenced", code: exitFailed, want: "the job was started again elsewhere", not: "The same command",
			body: func(_ context.Context, e *fakeEngine) error {
				e.opts.OnEvent(embedded.Event{Kind: embedded.CheckpointCompleted, Checkpoint: 7})
				return checkpoint.ErrFenced
			}},
		{name: "several errors", code: exitFailed, want: "test-job: the job failed:\n  one\n  two\n",
			body: func(context.Context, *fakeEngine) error { return errors.Join(errors.New("one"), errors.New("two")) }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			maker, _ := fake(tc.body)
			h := newHarness(buildPipe, maker)
			if code := h.run([]string{"run"}); code != tc.code || !strings.Contains(h.err.String(), tc.want) {
				t.Errorf("exit code %d, stderr:\n%s\nwant %d and %q", code, h.err.String(), tc.code, tc.want)
			}
			if tc.not != "" && strings.Contains(h.err.String(), tc.not) {
				t.Errorf("it says %q:\n%s", tc.not, h.err.String())
			}
		})
	}
}

func TestBuildErrors(t *testing.T) {
	h := newHarness(func(j *stream.Job) {}, nil)
	if code := h.run([]string{"run"}); code != exitFailed || !strings.Contains(h.err.String(), "the job cannot be built:\n  the job has no source") {
		t.Errorf("exit code %d: %s", code, h.err.String())
	}
	maker := func(*graph.Graph, embedded.Options) (engine, error) { return nil, errors.New("no room") }
	h = newHarness(buildPipe, maker)
	if code := h.run([]string{"run"}); code != exitFailed || !strings.Contains(h.err.String(), "the job cannot start: no room") {
		t.Errorf("exit code %d: %s", code, h.err.String())
	}
}

func TestExactlyOnceSinkNeedsCheckpoints(t *testing.T) {
	maker, _ := fake(finish)
	for args, want := range map[string]string{
		"run": `sink "once" is exactly-once, which needs checkpoints: set --checkpoint-interval and --checkpoint-dir`,
		"run --checkpoint-interval 1s --checkpoint-dir memory: -D execution.checkpointing.mode=at-least-once": `sink "once" is exactly-once, but checkpoints are at-least-once`,
	} {
		h := newHarness(buildExactlyOnce, maker)
		if code := h.run(strings.Fields(args)); code != exitUsage || !strings.Contains(h.err.String(), want) {
			t.Errorf("%s: exit code %d: %s", args, code, h.err.String())
		}
	}
	h := newHarness(buildExactlyOnce, maker)
	if code := h.run(strings.Fields("run --checkpoint-interval 1s --checkpoint-dir memory:")); code != exitDone {
		t.Errorf("with checkpoints: exit code %d: %s", code, h.err.String())
	}
}

func TestFirstSignalSuspends(t *testing.T) {
	maker, _ := fake(func(_ context.Context, e *fakeEngine) error {
		e.opts.OnEvent(embedded.Event{Kind: embedded.Started, Attempt: 1})
		<-e.suspended
		return nil
	})
	h := newHarness(buildPipe, maker)
	go func() { h.signal <- syscall.SIGTERM }()
	if code := h.run([]string{"run"}); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"terminated: stopping with a final snapshot", "suspended after", "the same command goes on from here"} {
		if !strings.Contains(h.err.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, h.err.String())
		}
	}
}

func TestStandbyEndsAtASignal(t *testing.T) {
	for _, standby := range []struct {
		args string
		opts []Option
	}{{"run --standby", nil}, {"run", []Option{WithStandby()}}} {
		waiting := make(chan struct{})
		maker, made := fake(func(_ context.Context, e *fakeEngine) error {
			e.opts.OnEvent(embedded.Event{Kind: embedded.StandingBy, Err: errors.New("held")})
			close(waiting)
			<-e.suspended
			e.opts.OnEvent(embedded.Event{Kind: embedded.Suspended})
			return nil
		})
		h := newHarness(buildPipe, maker, standby.opts...)
		go func() {
			<-waiting
			h.signal <- syscall.SIGTERM
		}()
		if code := h.run(strings.Fields(standby.args)); code != exitDone || !made().opts.Standby {
			t.Errorf("%s: exit code %d, standby %t", standby.args, code, made().opts.Standby)
		}
		for _, want := range []string{"terminated: the standby ends\n", "ended before it started the job"} {
			if !strings.Contains(h.err.String(), want) {
				t.Errorf("stderr lacks %q:\n%s", want, h.err.String())
			}
		}
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		maker, made := fake(func(ctx context.Context, e *fakeEngine) error {
			<-ctx.Done() // deaf to Suspend
			return ctx.Err()
		})
		h := newHarness(buildPipe, maker)
		go func() {
			h.signal <- syscall.SIGINT
			h.signal <- syscall.SIGINT // an echo of the first
			<-time.After(sameSignal)
			h.signal <- syscall.SIGINT
		}()
		began := time.Now()
		if code := h.run([]string{"run"}); code != exitInterrupted {
			t.Errorf("exit code %d, want %d", code, exitInterrupted)
		}
		if d := time.Since(began); d != sameSignal {
			t.Errorf("ended after %v: the echo was taken for a second signal", d)
		}
		select {
		case <-made().suspended:
		default:
			t.Error("the first signal did not suspend")
		}
	})
}

func TestOptionsReachTheEngine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := `
parallelism.default: 3
execution:
  checkpointing: {interval: 5 s, dir: /from/file, timeout: 2 min, num-retained: 5, externalized-checkpoint-retention: DELETE_ON_CANCELLATION, min-pause: 7 s}
restart-strategy: {type: failure-rate, failure-rate.max-failures-per-interval: 4}
state.backend.heap.memory: 64 mb
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	maker, made := fake(finish)
	h := newHarness(func(j *stream.Job) { j.MaxParallelism(64); j.BufferTimeout(3 * time.Millisecond); buildPipe(j) }, maker)
	h.environ = []string{"WEIR_EXECUTION_CHECKPOINTING_DIR=/from/env", "WEIR_EXECUTION_CHECKPOINTING_TIMEOUT=3 min"}
	args := []string{"run", "--config", file, "-D", "execution.checkpointing.timeout=4min", "-s", "/snap", "--rewind=3", "--accept-loss", "7"}
	if code := h.run(args); code != exitDone {
		t.Fatalf("exit code %d: %s", code, h.err.String())
	}
	o := made().opts
	c := o.Checkpoint
	got := fmt.Sprint(o.Parallelism, o.MaxParallelism, o.BufferTimeout, o.WatermarkInterval, o.HeapMemory, o.RestorePath, o.Rewind, o.Fresh, o.Nth, o.AcceptLoss,
		c.Interval, c.Dir, c.Timeout, c.Retained, c.Retention, c.MinPause, c.Mode, c.MaxConcurrent, " ", o.Restart)
	want := fmt.Sprint(3, 64, "3ms", "200ms", 64<<20, "/snap", true, false, 3, 7,
		"7s", "/from/env", "4m0s", 5, "delete-on-cancel", "7s", "exactly-once", 1, " ", "failure-rate: at most 4 failures in 1m0s, 1s apart")
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if made().graph.Job != "test-job" {
		t.Errorf("job %q", made().graph.Job)
	}
	for _, w := range []string{`parallelism.default="3 (file ` + file, `(environment WEIR_EXECUTION_CHECKPOINTING_DIR)`, `pipeline.max-parallelism="64 (code)"`, "execution.checkpointing.interval is raised from 5s to 7s", `execution.state-recovery.path="/snap (flag -s)"`} {
		if !strings.Contains(h.err.String(), w) {
			t.Errorf("the log lacks %s:\n%s", w, h.err.String())
		}
	}
}

func TestGraphCommand(t *testing.T) {
	sites := regexp.MustCompile(`_test\.go:\d+`)
	for _, form := range []string{"text", "json", "mermaid"} {
		h := newHarness(func(j *stream.Job) { j.Parallelism(9); buildPipe(j) }, nil)
		h.environ = []string{"WEIR_STATE_BACKEND=filesystem"}
		if code := h.run([]string{"graph", "-p", "2", "-Dexecution.checkpointing.interval=10s", "--checkpoint-dir", "/ck", "--output", form}); code != exitDone {
			t.Fatalf("exit code %d: %s", code, h.err.String())
		}
		golden(t, "graph."+form, sites.ReplaceAllString(h.out.String(), "_test.go:N"))
		if want := "test-job: warning: environment WEIR_STATE_BACKEND: state.backend is the old name of state.backend.type; use that\n" +
			"test-job: warning: environment WEIR_STATE_BACKEND: state backend filesystem means heap; snapshots go to execution.checkpointing.dir\n"; h.err.String() != want {
			t.Errorf("stderr %q", h.err.String())
		}
	}
}

func TestJSONProgress(t *testing.T) {
	maker, _ := fake(func(_ context.Context, e *fakeEngine) error {
		for _, ev := range []embedded.Event{
			{Kind: embedded.Started, Attempt: 1},
			{Kind: embedded.CheckpointCompleted, Checkpoint: 4, Duration: 12 * time.Millisecond, Bytes: 99},
			{Kind: embedded.CheckpointFailed, Checkpoint: 5, Err: errors.New("disk full")},
			{Kind: embedded.Failed, Err: errors.New("boom")},
			{Kind: embedded.Restarting},
			{Kind: embedded.Started, Attempt: 2},
		} {
			e.opts.OnEvent(ev)
		}
		e.in.Store(10)
		e.out.Store(5)
		e.opts.OnEvent(embedded.Event{Kind: embedded.Finished})
		return nil
	})
	h := newHarness(buildPipe, maker)
	if code := h.run([]string{"run", "--output", "json"}); code != exitDone {
		t.Fatalf("exit code %d: %s", code, h.err.String())
	}
	var got []string
	var last line
	for _, text := range strings.Split(strings.TrimSpace(h.out.String()), "\n") {
		last = line{}
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&last); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got = append(got, fmt.Sprint(last.Event, " ", last.Checkpoint, " ", last.CheckpointMS, " ", last.Error))
	}
	want := []string{"started 0 0 ", "checkpoint 4 12 ", "checkpoint failed 5 0 disk full", "failed 0 0 boom", "restarting 0 0 ", "started 0 0 ", "end 4 12 "}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("lines:\n%s", strings.Join(got, "\n"))
	}
	if last.State != finished || last.RecordsIn != 10 || last.RecordsOut != 5 || last.Restarts != 1 || last.Attempt != 2 || last.CheckpointsFailed != 1 || last.Job != "test-job" {
		t.Errorf("last line %+v", last)
	}
}

func TestQuiet(t *testing.T) {
	maker, _ := fake(finish)
	h := newHarness(buildPipe, maker)
	if code := h.run([]string{"run", "--quiet"}); code != exitDone || h.err.Len()+h.out.Len() > 0 {
		t.Errorf("exit code %d, stderr %q, stdout %q", code, h.err.String(), h.out.String())
	}
}

func TestGraphOfAJobThatCannotRunYet(t *testing.T) {
	h := newHarness(buildExactlyOnce, nil)
	if code := h.run([]string{"graph"}); code != exitDone {
		t.Fatalf("exit code %d: %s", code, h.err.String())
	}
	if !strings.Contains(h.err.String(), "which needs checkpoints") || !strings.Contains(h.out.String(), "once (sink") {
		t.Errorf("stdout:\n%s\nstderr:\n%s", h.out.String(), h.err.String())
	}
}
