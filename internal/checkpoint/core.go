package checkpoint

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

// CoreOptions are what a Core decides by. Times are in milliseconds.
type CoreOptions struct {
	// Off means that no snapshot is ever taken: the job has no place for them.
	Off                         bool
	Interval, MinPause, Timeout int64
	MaxConcurrent               int
	TolerableFailures           int
	Retained                    int
	Retention                   checkpoint.Retention
	AtLeastOnce                 bool
	// SavepointDir is the target of savepoints that name none.
	SavepointDir string
	// NextID is the id of the first snapshot.
	NextID int64
	// Owned are completed checkpoints of earlier attempts that retention may
	// delete, ascending. Their commits are resolved.
	Owned []int64
	// Seed chooses the moment of the first periodic checkpoint.
	Seed uint64
}

const (
	// maxUncommitted is how many completed checkpoints may await their
	// commits before periodic ones wait, too.
	maxUncommitted = 16
	// retryPause, in ms, lies between a failed snapshot and one that follows
	// for no other reason than that failure.
	retryPause = 1000
)

// Core decides when snapshots are taken and when they count. It is a pure
// state machine: no clock, no I/O, no goroutine. What Step returns is to be
// done in order.
type Core struct {
	opt CoreOptions
	now int64
	out []Action

	tasks   map[stage.TaskID]bool // true once ended
	running int                   // tasks not ended
	started bool
	ended   bool // Fail or Finish was returned

	next    int64
	pending []*pending // ascending by id
	// publishing is the pending snapshot whose Publish is under way.
	publishing *pending

	// completed are the checkpoints that retention counts, ascending.
	completed []int64
	// orphans were acked in full and failed to be published: their _metadata
	// may stand. They go with the next completion.
	orphans []int64
	// uncommitted are completed and await their commits, ascending.
	uncommitted []int64
	// committed: all commits of checkpoints up to this one have returned.
	committed int64
	// reusable is the last NotifyCommitted.
	reusable int64
	swept    bool

	due, pauseUntil, retryAt int64
	failures                 int
	timer                    int64

	// queue holds tokens that wait for a checkpoint to be triggered.
	queue []int64
	// unmarked are published savepoints that await the commits of a later
	// checkpoint, ascending.
	unmarked []*pending
	stop     *stopping
	// draining is the stop that follows once the sources, which were told to
	// end, and all tasks behind them have ended; nil if none was asked for.
	draining *stopping
	cancel   cancelPhase

	// down are the tasks of regions that have failed, why the last one has, and
	// stopped the regions whose tasks have ended and that have no answer yet.
	down    map[stage.TaskID]bool
	why     error
	stopped []Region
	// held are requests that wait until no region is down.
	held []Requested
	// latest is the newest checkpoint that the attempt has completed.
	latest int64
}

// pending is a snapshot that is not yet published.
type pending struct {
	id        int64
	kind      snapshot.Kind
	stop      bool
	native    bool
	path      string
	tokens    []int64
	triggered int64
	waiting   map[stage.TaskID]bool
	deletes   []int64
	// reusable is what is committed as it is published: it lists nothing of
	// checkpoints up to that one.
	reusable int64
	marking  bool
}

func (p *pending) plainSavepoint() bool { return p.kind == snapshot.Savepoint && !p.stop }

// NewCore returns a core that waits for Started.
func NewCore(o CoreOptions) *Core {
	return &Core{opt: o, next: max(o.NextID, 1), completed: slices.Clone(o.Owned), tasks: map[stage.TaskID]bool{}, down: map[stage.TaskID]bool{}}
}

// Step takes an event at a time in ms, which never goes back.
func (c *Core) Step(now int64, ev Event) []Action {
	c.now, c.out = now, nil
	if c.ended {
		if r, ok := ev.(Requested); ok {
			c.do(Reply{Token: r.Token, Err: ErrEnded})
		}
		return c.out
	}
	c.handle(ev)
	c.advance()
	return c.out
}

func (c *Core) do(a Action) { c.out = append(c.out, a) }

func (c *Core) handle(ev Event) {
	switch e := ev.(type) {
	case Started:
		c.onStarted(e)
	case Requested:
		c.onRequested(e)
	case Acked:
		if p := c.find(e.ID); p != nil {
			delete(p.waiting, e.Task)
		}
	case Declined:
		if p := c.find(e.ID); p != nil && p.waiting[e.Task] {
			c.failed(p, fmt.Errorf("declined by %s: %w", taskName(e.Task), e.Err), true)
		}
	case EnumeratorFailed:
		if c.find(e.ID) != nil {
			c.fail(fmt.Errorf("snapshot %d: %w", e.ID, e.Err))
		}
	case Published:
		c.onPublished(e)
	case Recorded:
		c.onRecorded(e)
	case Marked:
		c.onMarked(e)
	case CommittedUpTo:
		c.onCommitted(e)
	case CommitFailed:
		c.fail(e.Err)
	case Ended:
		c.onEnded(e)
	case Cancel:
		c.onCancel()
	case RegionFailed:
		c.onRegionFailed(e)
	case RegionStopped:
		c.stopped = append(c.stopped, e.Region)
	case RegionRestarted:
		c.onRegionRestarted(e)
	}
}

// advance does what has become due or possible.
func (c *Core) advance() {
	for _, step := range []func(){c.expire, c.publishNext, c.restoreRegions, c.trigger, c.finishCancel, c.setTimer} {
		if c.ended {
			return
		}
		step()
	}
}

func (c *Core) onStarted(e Started) {
	c.started = true
	for _, t := range e.Tasks {
		c.tasks[t] = false
	}
	c.running = len(c.tasks)
	if c.opt.Interval > 0 {
		c.due = c.now + c.opt.MinPause + int64(mix(c.opt.Seed)%uint64(max(c.opt.Interval-c.opt.MinPause, 0)+1))
	}
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (c *Core) onRequested(r Requested) {
	if r.Kind == snapshot.Savepoint && r.Path == "" {
		r.Path = c.opt.SavepointDir
	}
	suspend := r.Stop && r.Kind == snapshot.Final
	switch {
	case c.cancel != notCanceled:
		c.do(Reply{Token: r.Token, Err: ErrCanceled})
	case c.opt.Off && suspend:
		c.do(Reply{Token: r.Token})
		c.finish(Stopped)
	case c.opt.Off:
		c.do(Reply{Token: r.Token, Err: ErrOff})
	case !c.started:
		c.do(Reply{Token: r.Token, Err: ErrNotRunning})
	case len(c.down) > 0:
		c.hold(r)
	case c.stop != nil && suspend && c.stop.kind == snapshot.Final:
		c.stop.tokens = append(c.stop.tokens, r.Token)
	case c.stop != nil || c.draining != nil:
		c.do(Reply{Token: r.Token, Err: ErrStopping})
	case r.Kind == snapshot.Savepoint && r.Path == "":
		c.do(Reply{Token: r.Token, Err: ErrNoSavepointDir})
	case r.Stop && r.Drain:
		c.beginDrain(&stopping{kind: r.Kind, barrier: true, native: r.Native, path: r.Path, outcome: Finished, tokens: []int64{r.Token}})
	case r.Stop:
		c.beginStop(&stopping{kind: r.Kind, barrier: true, native: r.Native, path: r.Path, outcome: Stopped, tokens: []int64{r.Token}})
	case r.Kind == snapshot.Savepoint:
		c.send(&pending{kind: r.Kind, native: r.Native, path: r.Path, tokens: []int64{r.Token}})
	default:
		c.queue = append(c.queue, r.Token)
	}
}

func (c *Core) onEnded(e Ended) {
	if ended, known := c.tasks[e.Task]; !known || ended || c.down[e.Task] {
		return
	}
	c.tasks[e.Task] = true
	c.running--
	switch {
	case c.running > 0 || c.stop != nil || c.cancel != notCanceled:
	case c.opt.Off:
		c.finish(Finished)
	case c.draining != nil:
		c.beginStop(c.draining)
		c.draining = nil
	default:
		c.beginStop(&stopping{kind: snapshot.Final, outcome: Finished})
	}
}

func (c *Core) find(id int64) *pending {
	for _, p := range c.pending {
		if p.id == id {
			return p
		}
	}
	return nil
}

func (c *Core) remove(p *pending) {
	c.pending = slices.DeleteFunc(c.pending, func(q *pending) bool { return q == p })
}

func (c *Core) reply(tokens []int64, id int64, err error) {
	for _, t := range tokens {
		c.do(Reply{Token: t, ID: id, Err: err})
	}
}

// fail ends the attempt.
func (c *Core) fail(err error) {
	if c.ended {
		return
	}
	if s := c.stop; s != nil && s.barrier && s.phase >= stopRecording && !fenced(err) {
		err = &UncommittedError{ID: s.snapshot.id, Path: s.snapshot.path, Err: err}
	}
	c.replyAll(err)
	c.do(Fail{err})
	c.ended = true
}

func (c *Core) finish(o Outcome) {
	c.replyAll(ErrEnded)
	c.do(Finish{o})
	c.ended = true
}

func (c *Core) replyHeld(err error) {
	for _, r := range c.held {
		c.do(Reply{Token: r.Token, Err: err})
	}
	c.held = nil
}

// replyAll answers everybody who still waits.
func (c *Core) replyAll(err error) {
	c.reply(c.queue, 0, err)
	for _, p := range c.pending {
		c.reply(p.tokens, 0, err)
	}
	for _, p := range c.unmarked {
		c.reply(p.tokens, 0, &UncommittedError{ID: p.id, Path: p.path, Err: err})
	}
	for _, s := range []*stopping{c.stop, c.draining} {
		if s != nil {
			c.reply(s.tokens, 0, err)
		}
	}
	c.replyHeld(err)
	c.queue, c.pending, c.unmarked, c.stop, c.draining = nil, nil, nil, nil, nil
}
