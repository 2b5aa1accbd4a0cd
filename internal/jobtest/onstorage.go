package jobtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/location"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// Place is a storage for a job to live on.
type Place struct {
	Scheme storage.Scheme
	// Dir and Other are URLs, of different buckets where there are such, with
	// nothing below them.
	Dir, Other string
	// Large is how many bytes of state the job has; 0 is next to none.
	Large int
}

// rounds is how often the records of a job come.
const rounds = 6

// residents are the keys of a job on a Place.
func residents() []string {
	keys := make([]string, 20)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	return keys
}

// life is one job on a Place, started again and again.
type life struct {
	*testing.T
	Place
	gates []*Gate
	out   *collect.Sink[string]
	// where is Place.Dir unless the job has moved.
	where string
}

func newLife(t *testing.T, p Place) *life {
	l := &life{T: t, Place: p, out: collect.NewExactlyOnce[string](), where: p.Dir}
	for range rounds {
		l.gates = append(l.gates, NewGate())
	}
	return l
}

// build is a job that counts the keys; before each round there is a gate.
func (l *life) build(j *stream.Job) {
	var items []Item[string]
	for i, g := range l.gates {
		for _, k := range residents() {
			items = append(items, R(k, int64(i+1)))
		}
		items = append(items, Hold[string](g))
	}
	s := Splits(j, "in", 0, items)
	stream.To(stream.Process(stream.KeyBy(s, func(s string) string { return s }), "count", func(r *state.Registry) *tally {
		return &tally{n: state.ValueIn[int64](r, "n"), load: state.ValueIn[string](r, "load"), size: l.Large / len(residents())}
	}), "out", l.out)
}

// tally counts the records of a key, and emits "key=count".
type tally struct {
	n    state.Value[int64]
	load state.Value[string]
	size int
}

func (f *tally) Process(c *stream.Ctx[string, string], _ string) error {
	n, err := f.n.Get()
	if err != nil {
		return err
	}
	c.Emit(fmt.Sprintf("%s=%d", c.Key(), n+1))
	if f.size > 0 {
		// What compresses well would be small again.
		if err := f.load.Set(noise(f.size, uint64(n)+uint64(c.Key()[len(c.Key())-1]))); err != nil {
			return err
		}
	}
	return f.n.Set(n + 1)
}

func noise(n int, seed uint64) string {
	b := make([]byte, n)
	x := seed*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 32)
	}
	return string(b)
}

// counts are the outputs of the first n rounds.
func counts(n int) []string {
	var all []string
	for i := range n {
		for _, k := range residents() {
			all = append(all, fmt.Sprintf("%s=%d", k, i+1))
		}
	}
	slices.Sort(all)
	return all
}

// wantOutput waits for the output of the first n rounds, and wants no more.
func (l *life) wantOutput(rounds int) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
	defer cancel()
	if err := l.out.Wait(ctx, rounds*len(residents())); err != nil {
		l.Error(err)
	}
	if got := slices.Sorted(slices.Values(l.out.Values())); !slices.Equal(got, counts(rounds)) {
		l.Fatalf("after %d rounds the output is\n%v, want\n%v", rounds, got, counts(rounds))
	}
}

// incarnation is a run of the job.
type incarnation struct {
	*life
	job    *embedded.Job
	ctx    context.Context
	cancel context.CancelFunc
	done   chan error
	events chan embedded.Event
}

func (l *life) start(o embedded.Options) *incarnation {
	l.Helper()
	i := &incarnation{life: l, done: make(chan error, 1), events: make(chan embedded.Event, 10000)}
	i.ctx, i.cancel = context.WithTimeout(l.Context(), 2*time.Minute)
	o.Checkpoint.Dir, o.Schemes = l.where, []storage.Scheme{l.Scheme}
	if o.Checkpoint.Interval == 0 {
		o.Checkpoint.Interval = 20 * time.Millisecond
	}
	o.Checkpoint.Retained = 2
	if o.Restart == nil {
		o.Restart = checkpoint.None{}
	}
	o.OnEvent = func(e embedded.Event) { i.events <- e }
	i.job = Job(l.T, o, l.build)
	go func() { i.done <- i.job.Run(i.ctx) }()
	return i
}

// wait returns the next event of a kind.
func (i *incarnation) wait(kind embedded.EventKind) embedded.Event {
	i.Helper()
	for {
		select {
		case e := <-i.events:
			if e.Kind == kind {
				return e
			}
		case err := <-i.done:
			i.Fatalf("the job ended with %v before it was %q", err, kind)
		}
	}
}

// reach waits until the records before a gate are read.
func (i *incarnation) reach(g *Gate) {
	i.Helper()
	select {
	case <-g.Reached():
	case err := <-i.done:
		i.Fatalf("the job ended with %v before a gate", err)
	}
}

// kill ends the run at once, without a last snapshot.
func (i *incarnation) kill() {
	i.Helper()
	i.cancel()
	if err := <-i.done; !errors.Is(err, context.Canceled) {
		i.Fatalf("the job that was killed ended with %v", err)
	}
}

// end waits until the job has finished.
func (i *incarnation) end() {
	i.Helper()
	defer i.cancel()
	if err := <-i.done; err != nil {
		i.Fatal(err)
	}
}

// list returns the names below a URL.
func (l *life) list(where, below string) []string {
	l.Helper()
	o := location.NewOpener(l.Scheme)
	b, err := o.Open(l.Context(), where)
	if err != nil {
		l.Fatal(err)
	}
	var names []string
	err = b.List(l.Context(), below, func(name string, _ int64) error {
		names = append(names, name)
		return nil
	})
	if err = errors.Join(err, o.Close()); err != nil {
		l.Fatal(err)
	}
	return names
}

// OnStorage runs a job on a storage: it is killed and started again, takes a
// savepoint to another place, and goes on from it there, exactly once.
func OnStorage(t *testing.T, p Place) {
	l := newLife(t, p)
	for round, g := range l.gates[:3] {
		i := l.start(embedded.Options{})
		i.reach(g)
		l.wantOutput(round + 1)
		i.kill()
		l.wantOutput(round + 1)
		g.Open()
	}
	i := l.start(embedded.Options{Parallelism: 2})
	i.reach(l.gates[3])
	for range 4 {
		i.wait(embedded.CheckpointCompleted)
	}
	path, err := i.job.Savepoint(i.ctx, p.Other)
	if err != nil {
		t.Fatal(err)
	}
	i.kill()
	l.wantOutput(4)
	l.wantRetained()
	if !strings.HasPrefix(path, withoutParams(p.Other)+"/savepoint-test-") {
		t.Errorf("the savepoint lies in %s, want a directory below %s", path, p.Other)
	}
	for _, g := range l.gates {
		g.Open()
	}
	l.where = location.Join(p.Other, "jobs")
	if _, query, ok := strings.Cut(p.Other, "?"); ok {
		l.where += "?" + query
	}
	moved := l.start(embedded.Options{RestorePath: path, Parallelism: 3})
	moved.end()
	l.wantOutput(rounds)
	if err := moved.job.Dispose(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	for _, name := range l.list(p.Other, "") {
		if !strings.HasPrefix(name, "jobs/") {
			t.Errorf("%s is left of the savepoint", name)
		}
	}
}

func withoutParams(where string) string { return location.Join(where) }

// wantRetained checks that checkpoints that nobody needs are deleted. The
// newest may have been killed while an older one was being deleted.
func (l *life) wantRetained() {
	l.Helper()
	complete := map[string]bool{}
	for _, name := range l.list(l.Dir, "test") {
		if dir, ok := strings.CutSuffix(name, "/_metadata"); ok {
			complete[dir] = true
		}
		if strings.Contains(name, "probe-") {
			l.Errorf("%s is left of a trial", name)
		}
	}
	if n := len(complete); n < 2 || n > 4 {
		l.Errorf("%d checkpoints are left, want the 2 retained: %v", n, complete)
	}
}

// OnFailingStorage runs a job on a storage that is taken away and comes back:
// checkpoints fail, the job goes on, and the next one succeeds.
func OnFailingStorage(t *testing.T, p Place, away, back func()) {
	l := newLife(t, p)
	i := l.start(embedded.Options{Checkpoint: checkpoint.Options{TolerableFailures: checkpoint.Unlimited, Timeout: time.Minute}})
	i.reach(l.gates[0])
	i.wait(embedded.CheckpointCompleted)
	away()
	failed := i.wait(embedded.CheckpointFailed)
	if failed.Err == nil || !strings.Contains(failed.Err.Error(), "chk-") {
		t.Errorf("the failure does not name the checkpoint: %v", failed.Err)
	}
	t.Log(failed.Err)
	l.gates[0].Open()
	i.reach(l.gates[1]) // it goes on without checkpoints
	back()
	i.wait(embedded.CheckpointCompleted)
	if n := i.job.Status().Restarts; n != 0 {
		t.Errorf("%d restarts", n)
	}
	l.wantOutput(2)
	for _, g := range l.gates {
		g.Open()
	}
	i.end()
	l.wantOutput(rounds)
}
