package checkpoint

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/twophase"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
)

// command is how a process is started, and what its user does then.
type command struct {
	root string // "/weir" if empty
	from string // -s
	// copies is the root of which this one is a copy, if it is not there yet.
	copies        string
	rewind, fresh bool
	// claim makes what from names the engine's.
	claim bool
	// script: r reads a record in each subtask; c takes a checkpoint and waits
	// for it, C does not wait; s takes a savepoint; S stops with one; x
	// suspends; k cancels; w waits for all commits. Behind its end the input is read to the end.
	script string
	// refusable tells that the start may be refused.
	refusable bool
	// after tells when the process may begin, at once if nil.
	after func(*universe) bool
}

func (c command) String() string {
	return strings.TrimSpace(RestoreRequest{Path: c.from, Rewind: c.rewind, Fresh: c.fresh}.String() + " " + c.script)
}

// proc is an attempt, from its start to its end: the real start, driver
// and core, with tasks that read a sequence and write it to the brokers.
type proc struct {
	command
	u      *universe
	number int

	fibers []*fiber
	at     *fiber // the last that made a step
	holds  int
	begun  bool
	ended  bool
	err    error
	// history is what the process has learned, and in what order it ran.
	history uint64

	attempt *Attempt
	c       *Coordinator
	d       *driver
	tasks   []*task
}

func newProcess(u *universe, number int, c command) *proc {
	if c.root == "" {
		c.root = "/weir"
	}
	return &proc{command: c, u: u, number: number, history: mix(uint64(number))}
}

func (p *proc) begin() {
	if !p.begun {
		p.begun = true
		p.u.say("%d begins: %s", p.number, p.command)
		p.spawn("main", 0, p.main)
	}
}

func (p *proc) kill() {
	for _, f := range p.fibers {
		f.kill()
	}
	p.fibers = nil
}

// main lives as long as the process.
func (p *proc) main() {
	if p.copies != "" {
		// As long as it has begun nothing it has nothing to publish.
		p.u.copyDirectory(p.copies, p.root, slices.Repeat([]int{p.u.sc.records}, p.u.sc.subtasks))
	}
	f := p.u.current
	err := p.start()
	if err == nil {
		err = p.run()
	}
	p.killOthers(f, false)
	if p.u.current.dead {
		return
	}
	if p.attempt != nil {
		err = p.attempt.Overtaken(context.Background(), err)
	}
	if p.u.current.dead {
		return
	}
	p.u.say("%d ends: %v", p.number, err)
	p.ended, p.err = true, err
	p.u.checkEnd(p)
}

func (p *proc) start() (err error) {
	ctx := context.Background()
	o := StartOptions{
		Job: "job", Blobs: blobsOf{p.u, p.root}, RestorePath: p.from, Rewind: p.rewind, Fresh: p.fresh, Claim: p.claim, ExactlyOnceSinks: true,
		OpenPath: p.open, Host: "host", PID: p.number, Now: midnight, Logger: discard, without: p.u.off.rules,
		NewLineage: func() string {
			p.u.lineages++
			return "L" + strconv.Itoa(p.u.lineages)
		},
	}
	s, err := newStart(o)
	if err != nil {
		return err
	}
	if p.u.off.has(recordBeforeCommit) {
		if err := p.resolveEarly(ctx, s); err != nil {
			return err
		}
	}
	if p.attempt, err = s.run(ctx); err != nil {
		return err
	}
	committer := p.committer(p.attempt)
	if err := p.attempt.ResolveSinks(ctx, map[string]stage.Committer{"rows": committer}); err != nil {
		return err
	}
	return p.prepare(committer)
}

// resolveEarly commits, against the rule, before the start is on record.
func (p *proc) resolveEarly(ctx context.Context, s *start) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	from, err := s.choose(ctx)
	if err != nil {
		return err
	}
	a := s.attempt(from)
	return p.committer(a).Commit(ctx, payloads(a.open["rows"]))
}

var (
	midnight = func() int64 { return 0 }
	discard  = slog.New(slog.DiscardHandler)
)

// open resolves "/sp/job/savepoint-1" to a directory and a name in it.
func (p *proc) open(path string) (storage.Blobs, string, error) {
	root, dir, _ := strings.Cut(path[1:], "/")
	return blobsOf{p.u, "/" + root}, dir, nil
}

func (p *proc) sink() connector.Sink[int, twophase.Committable[handle]] {
	return twophase.Sink[int, handle](kafkaSink{p.u, p.root}, twophase.Pooled())
}

func (p *proc) committer(a *Attempt) stage.Committer {
	c, err := p.sink().NewCommitter(sinkContext{p, a, 0})
	if err != nil {
		panic(err) // kafkaSink makes no error
	}
	return bytesCommitter{c, p}
}

// prepare makes the driver and the tasks.
func (p *proc) prepare(committer stage.Committer) (err error) {
	o := checkpoint.Options{Dir: p.root, Retained: p.u.sc.retained, MaxConcurrent: p.u.sc.concurrent, TolerableFailures: checkpoint.Unlimited}
	p.c, err = New(Config{
		Attempt: p.attempt, Options: o, Job: "job", Blobs: blobsOf{p.u, p.root}, Host: p, Now: midnight, Logger: discard,
		Committers: map[string]stage.Committer{"rows": committer},
		OpenDir:    func(dir string) (storage.Blobs, error) { return blobsOf{p.u, dir}, nil },
	})
	if err != nil {
		return err
	}
	p.d = newDriver(p.c)
	p.d.ctx = context.Background()
	p.d.timer = time.NewTimer(time.Hour)
	for i, w := range p.d.workers {
		w.running = true // by a fiber
		kind := [...]string{"records", "deleter", "commits"}[min(i, 2)]
		rank := [...]int{1, 5, 4}[min(i, 2)]
		p.spawn(kind, rank, func() { p.work(w) })
	}
	for i := range p.u.sc.subtasks {
		t, err := p.newTask(i)
		if err != nil {
			return err
		}
		p.tasks = append(p.tasks, t)
		p.spawn("task"+strconv.Itoa(i), 3, t.run)
	}
	p.spawn("user", 6, p.user)
	return nil
}

func (p *proc) work(w *worker) {
	f := p.u.current
	for f.wait(func() bool { return len(w.queue) > 0 }) {
		job := w.next()
		job()
	}
}

// run is driver.run without its goroutine.
func (p *proc) run() error {
	f := p.u.current
	p.d.step(Started{p.Tasks()})
	for !p.d.ended {
		if !f.wait(func() bool { return len(p.c.mu.inbox) > 0 }) {
			return errKilled
		}
		for _, do := range p.c.takeInbox() {
			do(p.d)
		}
	}
	p.d.timer.Stop()
	p.killOthers(f, p.d.err == nil)
	for _, t := range p.tasks {
		if err := t.writer.Close(); err != nil {
			return err
		}
	}
	if p.d.err == nil && !f.wait(p.deleted) {
		return errKilled
	}
	p.killOthers(f, false)
	return p.d.err
}

// deleted reports whether the deleter has nothing left to do: deletions at the
// end are not cut off.
func (p *proc) deleted() bool {
	atWork := func(g *fiber) bool { return g.name == "deleter" && !g.done && g.waits == nil }
	return len(p.d.deleter.queue) == 0 && !slices.ContainsFunc(p.fibers, atWork)
}

// killOthers lets go of all fibers but f and, if it may go on, the deleter.
func (p *proc) killOthers(f *fiber, deleter bool) {
	for _, g := range p.fibers {
		if g != f && !(deleter && g.name == "deleter") {
			g.kill()
		}
	}
}

// passTime lets the time of the core's timer come.
func (p *proc) passTime() bool {
	if p.d == nil || p.d.ended || p.d.core.timer == 0 {
		return false
	}
	p.d.epoch = p.d.core.timer
	p.d.step(Tick{})
	return true
}

// fail ends the attempt as the failure of a task does.
func (p *proc) fail(err error) {
	p.c.post(func(d *driver) { d.ended, d.err = true, err })
}

// user goes through the script.
func (p *proc) user() {
	f := p.u.current
	for _, word := range p.script {
		if word == 'r' {
			for _, t := range p.tasks {
				t.credit++
			}
			if !f.wait(func() bool { return !slices.ContainsFunc(p.tasks, (*task).reading) }) {
				return
			}
			continue
		}
		if word == 'w' {
			if !f.wait(func() bool { return len(p.d.core.uncommitted) == 0 }) {
				return
			}
			continue
		}
		r := Request{Kind: snapshot.Checkpoint}
		switch word {
		case 's', 'S':
			r = Request{Kind: snapshot.Savepoint, Stop: word == 'S', Path: "/sp"}
		case 'x':
			r = Request{Kind: snapshot.Final, Stop: true}
		case 'k':
			p.c.Cancel()
			return
		}
		answer := make(chan reply, 1)
		if err := p.c.openTarget(r.Path); err != nil {
			p.fail(err)
			return
		}
		p.c.post(func(d *driver) { d.request(r, answer) })
		if word == 'C' {
			continue
		}
		if !f.wait(func() bool { return len(answer) > 0 }) {
			return
		}
		if a := <-answer; a.err == nil {
			p.u.reported(p, r, a.Result)
		}
		if r.Stop {
			return
		}
	}
	for _, t := range p.tasks {
		t.credit = unlimited
	}
}

// Tasks implements Host.
func (p *proc) Tasks() (ids []stage.TaskID) {
	for _, t := range p.tasks {
		ids = append(ids, t.id)
	}
	return ids
}

// Trigger implements Host.
func (p *proc) Drain() {}

func (p *proc) Trigger(b *stage.Barrier, _ func(string, []byte, codec.Format, error)) {
	for _, t := range p.tasks {
		t.mail = append(t.mail, func() error { return t.barrier(b) })
	}
}

// CheckpointComplete and CheckpointAborted implement Host.
func (p *proc) CheckpointComplete(id int64) {
	for _, t := range p.tasks {
		if t.uploads != nil {
			t.uploads.Complete(id)
		}
	}
}
func (p *proc) CheckpointAborted(int64) {}

// Committed implements Host.
func (p *proc) Committed(id int64) {
	for _, t := range p.tasks {
		if p.u.lose == nil || !p.u.lose() {
			t.mail = append(t.mail, func() error { return t.writer.Committed(id) })
		}
	}
}

// bytesCommitter is what package stream puts before a sink's committer.
type bytesCommitter struct {
	inner connector.Committer[twophase.Committable[handle]]
	p     *proc
}

func (b bytesCommitter) Commit(ctx context.Context, data [][]byte) error {
	cs := make([]twophase.Committable[handle], len(data))
	for i, d := range data {
		c, err := b.p.sink().CommittableCodec().Decode(d)
		if err != nil {
			return err
		}
		cs[i] = c
	}
	err := b.inner.Commit(ctx, cs)
	if b.p.u.off.has(reuseWhenUnlisted) && err == nil && b.p.d != nil {
		for _, c := range cs {
			b.p.Committed(c.Checkpoint)
		}
	}
	return err
}

func (b bytesCommitter) Sweep(ctx context.Context, stillNewest func() error) error {
	if b.p.u.off.has(rereadInSweep) {
		stillNewest = func() error { return nil }
	}
	return b.inner.Sweep(ctx, stillNewest)
}

func (b bytesCommitter) Close() error { return b.inner.Close() }

// sinkContext is what a writer and a committer are told.
type sinkContext struct {
	p       *proc
	attempt *Attempt
	subtask int
}

func (c sinkContext) Context() context.Context                  { return context.Background() }
func (c sinkContext) Logger() *slog.Logger                      { return discard }
func (c sinkContext) Job() string                               { return "job" }
func (c sinkContext) Lineage() string                           { return c.attempt.Lineage }
func (c sinkContext) FormerLineages() []connector.FormerLineage { return c.attempt.FormerLineages }
func (c sinkContext) Attempt() int64                            { return c.attempt.Number }
func (c sinkContext) Operator() string                          { return "rows" }
func (c sinkContext) Subtask() int                              { return c.subtask }
func (c sinkContext) Parallelism() int                          { return c.p.u.sc.subtasks }
func (sinkContext) CheckpointInterval() time.Duration           { return time.Second }
func (sinkContext) CheckpointTimeout() time.Duration            { return time.Second }
func (sinkContext) Count(string, int64)                         {}
