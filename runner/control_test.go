package runner

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/discovery"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/rest"
	"github.com/weirstream/weir/runner/embedded"
)

// reachable is an engine that answers over HTTP while it runs.
type reachable struct {
	*fakeEngine
	plan *graph.Plan
}

func (e *reachable) Status() embedded.Status {
	return embedded.Status{State: "running", Job: e.graph.Job}
}
func (e *reachable) Plan() *graph.Plan         { return e.plan }
func (e *reachable) History() embedded.History { return embedded.History{} }
func (e *reachable) Savepoint(context.Context, string) (string, error) {
	return "/sp/savepoint-1", nil
}

// reach makes engines with the given body.
func reach(body func(context.Context, *fakeEngine) error) engineMaker {
	return func(g *graph.Graph, o embedded.Options) (engine, error) {
		plan, err := g.Plan(o.Parallelism, o.MaxParallelism)
		return &reachable{&fakeEngine{graph: g, opts: o, body: body, suspended: make(chan struct{})}, plan}, err
	}
}

// found is the one job announced.
func found(t *testing.T, dirs []string) (discovery.Entry, *rest.Client) {
	t.Helper()
	jobs, err := discovery.List(dirs)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("found %v, %v", jobs, err)
	}
	c, err := rest.NewClient(jobs[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	return jobs[0], c
}

// A program of a job listens unless it is told not to, and is found by its
// name. Cancelled, it ends with code 0, so that no supervisor starts it again.
func TestJobIsFoundAndCancelled(t *testing.T) {
	dirs := []string{filepath.Join(t.TempDir(), "run")}
	h := newHarness(buildPipe, reach(func(ctx context.Context, e *fakeEngine) error {
		e.opts.OnEvent(embedded.Event{Kind: embedded.Started, Attempt: 1})
		entry, c := found(t, dirs)
		doc, err := c.Jobs(ctx)
		if err != nil || entry.Job != "test-job" || len(doc.Jobs) != 1 || doc.Jobs[0].ID != entry.ID || doc.Jobs[0].Name != "test-job" {
			t.Errorf("found %+v, which says %+v, %v", entry, doc, err)
		}
		if err := c.Cancel(context.WithoutCancel(ctx), entry.ID); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	h.http, h.runtimeDirs = "127.0.0.1:0", dirs
	if code := h.run([]string{"run"}); code != exitDone || !strings.Contains(h.err.String(), "test-job: cancelled after ") || strings.Contains(h.err.String(), "failed") {
		t.Errorf("exit code %d: %s", code, h.err.String())
	}
	if jobs, err := discovery.List(dirs); err != nil || len(jobs) != 0 {
		t.Errorf("after its end %v are found, %v", jobs, err)
	}
}

func TestRunCancelledOverHTTP(t *testing.T) {
	var url string
	log := slog.New(slog.DiscardHandler)
	free, err := listen("0")
	if err != nil {
		t.Fatal(err)
	}
	url = free.Addr().String()
	free.Close()
	maker := reach(func(ctx context.Context, _ *fakeEngine) error {
		c, err := rest.NewClient(url)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := c.Jobs(ctx)
		if err == nil {
			err = c.Cancel(context.WithoutCancel(ctx), doc.Jobs[0].ID)
		}
		if err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	o := collectOptions([]Option{WithHTTP(url), WithLogger(log), WithOption(config.RestartType, config.RestartNone)})
	if err := run(t.Context(), "j", buildPipe, o, maker); !errors.Is(err, ErrCanceled) {
		t.Errorf("got %v", err)
	}
}

func TestHTTPOff(t *testing.T) {
	dirs := []string{filepath.Join(t.TempDir(), "run")}
	for _, args := range [][]string{{"run", "--http", "off"}, {"run", "-Dhttp.address=off"}} {
		h := newHarness(buildPipe, reach(func(context.Context, *fakeEngine) error {
			if jobs, err := discovery.List(dirs); err != nil || len(jobs) != 0 {
				t.Errorf("found %v, %v", jobs, err)
			}
			return nil
		}))
		h.http, h.runtimeDirs = "127.0.0.1:0", dirs
		if code := h.run(args); code != exitDone || strings.Contains(h.err.String(), "listening") {
			t.Errorf("exit code %d: %s", code, h.err.String())
		}
	}
}

// The default port is one of several: a second job takes any free one. A port
// that was asked for is another matter.
func TestDefaultPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dirs := []string{filepath.Join(t.TempDir(), "run")}
	h := newHarness(buildPipe, reach(func(context.Context, *fakeEngine) error {
		entry, _ := found(t, dirs)
		if host, port, err := net.SplitHostPort(strings.TrimPrefix(entry.URL, "http://")); err != nil || host != "127.0.0.1" || port == "0" || strings.HasSuffix(taken.Addr().String(), ":"+port) {
			t.Errorf("it listens at %s", entry.URL)
		}
		return nil
	}))
	h.http, h.runtimeDirs = taken.Addr().String(), dirs
	if code := h.run([]string{"run"}); code != exitDone {
		t.Errorf("exit code %d: %s", code, h.err.String())
	}
}

// Who asked for a savepoint learns where it lies although the job has ended.
func TestResultOutlivesTheJob(t *testing.T) {
	dirs := []string{filepath.Join(t.TempDir(), "run")}
	told := make(chan string, 1)
	h := newHarness(buildPipe, reach(func(ctx context.Context, _ *fakeEngine) error {
		entry, c := found(t, dirs)
		trigger, err := c.Savepoint(ctx, entry.ID, rest.SavepointRequest{TargetDirectory: "/sp"})
		if err != nil {
			t.Error(err)
			return nil
		}
		go func() {
			for jobs, err := discovery.List(dirs); err != nil || len(jobs) > 0; jobs, err = discovery.List(dirs) {
				runtime.Gosched() // the engine has not returned yet
			}
			op, err := c.Wait(context.WithoutCancel(ctx), entry.ID, rest.KindSavepoint, trigger)
			if err != nil {
				t.Error(err)
			}
			told <- op.Location
		}()
		return nil
	}))
	h.http, h.runtimeDirs = "127.0.0.1:0", dirs
	if code := h.run([]string{"run", "--checkpoint-interval", "1h", "--checkpoint-dir", t.TempDir()}); code != exitDone {
		t.Errorf("exit code %d: %s", code, h.err.String())
	}
	if path := <-told; path != "/sp/savepoint-1" {
		t.Errorf("told %q", path)
	}
}

func TestReachableURL(t *testing.T) {
	for addr, want := range map[string]string{"127.0.0.1:0": "http://127.0.0.1:", "0.0.0.0:0": "http://127.0.0.1:"} {
		listener, err := listen(addr)
		if err != nil {
			t.Fatal(err)
		}
		l := serve(listener, http.NotFoundHandler())
		if got := l.url(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", addr, got)
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}
}
