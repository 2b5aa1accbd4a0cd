package embedded_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// TestMain finds goroutines left by jobs that ended, failed, were cancelled
// or suspended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onDisk runs all jobs with the lsm backend.
var onDisk = flag.Bool("lsm", false, "keep the state of the jobs on local disk, with next to no memory")

const ms = time.Millisecond

// never is a checkpoint interval that does not come: the test triggers.
const never = 10_000 * time.Hour

// run is a job under way.
type run struct {
	t      *testing.T
	job    *embedded.Job
	done   chan error
	cancel context.CancelFunc
	ctx    context.Context

	mu     sync.Mutex
	events []embedded.Event
	more   chan struct{}
	read   int
}

// launch starts a job with checkpoints in dir, taken by the test, and without
// restarts unless o says so.
func launch(t *testing.T, dir string, o embedded.Options, build func(*stream.Job)) *run {
	t.Helper()
	r := &run{t: t, done: make(chan error, 1), more: make(chan struct{})}
	r.ctx, r.cancel = context.WithTimeout(t.Context(), time.Minute)
	o.Checkpoint.Dir = dir
	if o.Checkpoint.Interval == 0 {
		o.Checkpoint.Interval = never
	}
	if o.Restart == nil {
		o.Restart = checkpoint.None{}
	}
	if *onDisk && o.StateBackend == "" {
		o.StateBackend, o.LSMDir, o.LSMMemory = embedded.LSM, t.TempDir(), 1000
	}
	o.OnEvent = r.note
	r.job = jobtest.Job(t, o, build)
	go func() { r.done <- r.job.Run(r.ctx) }()
	return r
}

func (r *run) note(e embedded.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	close(r.more)
	r.more = make(chan struct{})
}

// wait returns the next event of the kind, after those waited for before.
func (r *run) wait(kind embedded.EventKind) embedded.Event {
	r.t.Helper()
	for {
		r.mu.Lock()
		events, more := r.events, r.more
		r.mu.Unlock()
		for ; r.read < len(events); r.read++ {
			if e := events[r.read]; e.Kind == kind {
				r.read++
				return e
			}
		}
		select {
		case <-more:
		case err := <-r.done:
			r.t.Fatalf("the job ended with %v before it was %q; events: %v", err, kind, r.kinds())
		case <-r.ctx.Done():
			r.t.Fatalf("no event %q; events: %v", kind, r.kinds())
		}
	}
}

func (r *run) kinds() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kinds []string
	for _, e := range r.events {
		kinds = append(kinds, fmt.Sprintf("%s %d", e.Kind, e.Checkpoint))
	}
	return kinds
}

// reach waits for gates.
func (r *run) reach(gates ...*jobtest.Gate) {
	r.t.Helper()
	for _, g := range gates {
		select {
		case <-g.Reached():
		case err := <-r.done:
			r.t.Fatalf("the job ended with %v", err)
		case <-r.ctx.Done():
			r.t.Fatal("a gate is not reached")
		}
	}
}

func (r *run) checkpoint() int64 {
	r.t.Helper()
	id, err := r.job.TakeCheckpoint(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// kill ends the job without a snapshot.
func (r *run) kill() {
	r.t.Helper()
	r.cancel()
	if err := <-r.done; !errors.Is(err, context.Canceled) {
		r.t.Fatalf("a killed job ended with %v", err)
	}
}

// end waits for the end of the input.
func (r *run) end() {
	r.t.Helper()
	if err := r.result(); err != nil {
		r.t.Fatal(err)
	}
}

// suspend stops the job with its final snapshot.
func (r *run) suspend() {
	r.t.Helper()
	r.job.Suspend()
	r.end()
	if s := r.job.Status().State; s != "suspended" {
		r.t.Fatalf("the job is %s, want suspended", s)
	}
}

// result waits for the end of the job.
func (r *run) result() error {
	defer r.cancel()
	return <-r.done
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("the error lacks %q: %v", p, err)
		}
	}
}

// want compares as multisets.
func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func visible(t *testing.T, out *collect.Sink[string], n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := out.Wait(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// records makes records of the given values, at times 1, 2, 3 and so on.
func records(vals ...string) []jobtest.Item[string] {
	var items []jobtest.Item[string]
	for i, v := range vals {
		items = append(items, jobtest.R(v, int64(i+1)))
	}
	return items
}

// numbered makes records "prefix1" to "prefixN".
func numbered(prefix string, n int) []string {
	vals := make([]string, n)
	for i := range vals {
		vals[i] = fmt.Sprint(prefix, i+1)
	}
	return vals
}

func itself(s string) string { return s }
func first(s string) string  { return s[:1] }

// counter counts the records of a key and emits "key=count".
type counter struct{ n state.Value[int64] }

func newCounter(r *state.Registry) *counter {
	return &counter{n: state.ValueIn[int64](r, "n")}
}

func (f *counter) Process(c *stream.Ctx[string, string], _ string) error {
	n, err := f.n.Get()
	if err != nil {
		return err
	}
	c.Emit(fmt.Sprintf("%s=%d", c.Key(), n+1))
	return f.n.Set(n + 1)
}

// failOnce passes records on and fails, once, at the given one.
func failOnce(s stream.Stream[string], at string) stream.Stream[string] {
	var failed atomic.Bool
	return stream.TryMap(s, func(v string) (string, error) {
		if v == at && failed.CompareAndSwap(false, true) {
			return "", errors.New("failing at " + at)
		}
		return v, nil
	}, stream.ID("fail-once"))
}

// passed waits until a source's task has handed on the barrier that is under
// way: it has then spent time on it.
func (r *run) passed(t *testing.T, stage string) {
	t.Helper()
	for r.job.BarriersPassed(stage) == 0 {
		if r.ctx.Err() != nil {
			t.Fatal("no barrier")
		}
		runtime.Gosched()
	}
}
