package command

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/discovery"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/rest/server"
	"github.com/weirstream/weir/runner/embedded"
	keyed "github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// counter emits how often each value has come.
type counter struct{ n keyed.Value[int64] }

func newCounter(r *keyed.Registry) *counter { return &counter{keyed.ValueIn[int64](r, "n")} }

func (c *counter) Process(ctx *stream.Ctx[string, string], v string) error {
	n, err := c.n.Get()
	if err != nil {
		return err
	}
	ctx.Emit(v + string(rune('0'+n+1)))
	return c.n.Set(n + 1)
}

// live is a job that runs, listens and is announced, as runner.Main does it.
type live struct {
	*testing.T
	job  *embedded.Job
	id   string
	url  string
	out  *collect.Sink[string]
	done chan error
	end  context.CancelFunc
	// ended is closed when nothing of the job is left.
	ended chan struct{}
}

// machine is where jobs run: their checkpoints and the directory of entries.
type machine struct {
	*testing.T
	dir, run string
	gate     *jobtest.Gate
	out      *collect.Sink[string]
}

// newMachine has a job whose input is a, then waits, then a.
func newMachine(t *testing.T) *machine {
	return &machine{T: t, dir: t.TempDir(), run: filepath.Join(t.TempDir(), "run"), gate: jobtest.NewGate(), out: collect.NewExactlyOnce[string]()}
}

// start starts the job and waits until it runs.
func (m *machine) start(o embedded.Options) *live {
	m.Helper()
	l, started := m.launch(o, embedded.Started)
	select {
	case <-started:
	case err := <-l.done:
		m.Fatalf("the job ended with %v", err)
	}
	return l
}

// standby starts one that waits for the end of the job.
func (m *machine) standby() *live {
	m.Helper()
	l, waiting := m.launch(embedded.Options{Standby: true}, embedded.StandingBy)
	<-waiting
	return l
}

// launch starts the job; happened is closed at the first event of the kind.
func (m *machine) launch(o embedded.Options, kind embedded.EventKind) (l *live, happened <-chan struct{}) {
	m.Helper()
	o.Checkpoint.Interval = 10_000 * time.Hour
	if o.Checkpoint.Dir == "" {
		o.Checkpoint.Dir = m.dir
	}
	o.Restart = checkpoint.None{}
	l = &live{T: m.T, done: make(chan error, 1), out: m.out, ended: make(chan struct{})}
	started := make(chan struct{})
	o.OnEvent = func(e embedded.Event) {
		if e.Kind == kind {
			close(started)
		}
	}
	l.job = jobtest.Job(m.T, o, func(j *stream.Job) {
		in := jobtest.Script(j, "in", jobtest.R("a", 1), jobtest.Hold[string](m.gate), jobtest.R("a", 2))
		stream.To(stream.Process(stream.KeyBy(in, func(v string) string { return v }), "count", newCounter), "out", m.out)
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(m.Context()))
	l.end = cancel
	s := server.New(server.Config{Job: l.job, Cancel: cancel, Checkpoints: o.Checkpoint})
	mux := http.NewServeMux()
	s.Register(mux)
	web := httptest.NewServer(server.Guard(mux, true))
	l.id, l.url = s.ID(), web.URL
	withdraw, err := discovery.Announce([]string{m.run}, discovery.Entry{Job: "test", ID: l.id, URL: l.url, PID: 4711, Started: time.Now()})
	if err != nil {
		m.Fatal(err)
	}
	go func() {
		defer close(l.ended)
		l.done <- l.job.Run(ctx)
		if err := withdraw(); err != nil {
			m.Error(err)
		}
		lingering, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		s.Linger(lingering)
		web.Close()
		s.Close()
	}()
	m.Cleanup(func() {
		cancel()
		<-l.ended
	})
	return l, started
}

// weir runs a command on the machine.
func (m *machine) weir(args ...string) result {
	m.Helper()
	return weirIn(m.T, []string{m.run}, "", args...)
}

func (l *live) wantEnd(want error) {
	l.Helper()
	if err := <-l.done; !errors.Is(err, want) {
		l.Errorf("the job ended with %v, want %v", err, want)
	}
	<-l.ended
}

func wantDir(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(path, "_metadata")); err != nil {
		t.Error(err)
	}
}
