package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/killpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage/location"
)

// driver is the coordinator at work: its fields belong to the goroutine of
// Run. Workers do the I/O and post what came of it.
type driver struct {
	*Coordinator
	core  *Core
	ctx   context.Context
	timer *time.Timer
	// epoch and began tie the monotonic clock to the wall clock.
	epoch int64
	began time.Time

	shares   *shares
	barriers map[int64]*barrier
	// published are those handed to publish whose mark, or record, may follow.
	published map[int64]*barrier
	pool      *pool
	sinks     map[string]*sink
	// wanted is the checkpoint up to which commits are asked for.
	wanted int64
	// swept is when the sinks last looked for what earlier attempts left open.
	swept time.Time
	// records does what must happen in order: publish, append, mark.
	records, deleter *worker
	workers          []*worker
	metrics          *metrics
	tokens           map[int64]request
	lastToken        int64
	// regions wait for what they start from, by id.
	regions map[int]chan<- int64

	ended bool
	err   error
}

type request struct {
	Request
	answer chan<- reply
}

func newDriver(c *Coordinator) *driver {
	d := &driver{
		Coordinator: c, core: c.cfg.core(), shares: c.cfg.Attempt.shares, epoch: c.cfg.Now(), began: time.Now(),
		barriers: map[int64]*barrier{}, published: map[int64]*barrier{}, pool: newPool(), sinks: map[string]*sink{}, tokens: map[int64]request{},
		regions: map[int]chan<- int64{},
		metrics: newMetrics(c.cfg.Registerer, c.cfg.Job),
	}
	d.swept = d.began // by the start
	if d.shares == nil {
		d.shares = newShares(c.cfg.Attempt.Number, 0)
	}
	d.records, d.deleter = d.newWorker(), d.newWorker()
	for op, committer := range c.cfg.Committers {
		d.sinks[op] = &sink{committer: committer, worker: d.newWorker()}
	}
	return d
}

func (d *driver) newWorker() *worker {
	w := &worker{}
	d.workers = append(d.workers, w)
	return w
}

func (d *driver) run(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer d.waitForWorkers()
	defer cancel()
	d.ctx = ctx
	d.timer = time.NewTimer(time.Hour)
	d.timer.Stop()
	defer d.timer.Stop()
	d.step(Started{d.cfg.Host.Tasks()})
	for !d.ended {
		select {
		case <-parent.Done():
			return context.Cause(parent)
		case <-d.timer.C:
			d.step(Tick{})
		case <-d.wake:
			for _, f := range d.takeInbox() {
				f(d)
			}
		}
	}
	if d.err == nil {
		d.waitForWorkers() // deletions at the end are not cut off
	}
	return d.err
}

func (d *driver) waitForWorkers() {
	for _, w := range d.workers {
		w.wait()
	}
}

// step feeds the core and does what it wants. No action calls step.
func (d *driver) step(ev Event) {
	now := d.epoch + time.Since(d.began).Milliseconds()
	for _, a := range d.core.Step(now, ev) {
		d.perform(a)
	}
	d.account()
}

// account keeps the status of what is under way: the list anew, for readers
// hold the last one.
func (d *driver) account() {
	var pending []Notice
	for _, p := range d.core.pending {
		if b := d.barriers[p.id]; b != nil {
			pending = append(pending, b.notice(d.core.now))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.status.InProgress, d.mu.status.Pending = len(d.core.pending), pending
}

func (d *driver) perform(action Action) {
	switch a := action.(type) {
	case Trigger:
		d.trigger(a)
	case Drain:
		d.cfg.Host.Drain()
	case Publish:
		d.publish(a)
	case Append:
		d.append(a)
	case Mark:
		d.mark(a.ID)
	case Commit:
		d.commit(a.ID)
	case NotifyComplete:
		d.completed(a.ID)
		d.sweepSinks()
	case NotifyCommitted:
		d.cfg.Host.Committed(a.ID)
		killpoint.Reach("complete.reusable")
	case NotifyAborted:
		d.aborted(a)
	case Discard:
		d.discard(a.ID)
	case Delete:
		d.delete(a.IDs)
	case Sweep:
		d.sweep(a)
	case SetTimer:
		d.setTimer(a.At)
	case Reply:
		d.reply(a)
	case RestoreRegion:
		d.restoreRegion(a)
	case Fail:
		d.ended, d.err = true, d.located(a.Err)
	case Finish:
		d.finish(a.Outcome)
	}
}

func (d *driver) setTimer(at int64) {
	d.timer.Stop()
	if at != 0 {
		d.timer.Reset(time.Duration(at-d.epoch)*time.Millisecond - time.Since(d.began))
	}
}

func (d *driver) trigger(a Trigger) {
	killpoint.Reach("snapshot.trigger")
	b := &barrier{
		Barrier: a.Barrier, target: d.target(a), missing: map[stage.TaskID]bool{}, prepared: map[sinkTask]bool{},
		acks: map[stage.TaskID]Ack{}, enumerators: map[string]enumeratorState{},
	}
	for t := range d.core.tasks {
		b.missing[t] = true
	}
	b.tasks = len(b.missing)
	d.barriers[b.ID] = b
	if b.Kind != snapshot.Savepoint {
		d.shares.opened(b.ID)
	}
	d.mu.Lock()
	d.mu.targets[b.ID] = b.target
	d.mu.Unlock()
	d.cfg.Host.Trigger(a.Barrier, func(op string, state []byte, format codec.Format, err error) {
		d.post(func(d *driver) {
			if err != nil {
				d.step(EnumeratorFailed{b.ID, fmt.Errorf("enumerator of source %s: %w", op, err)})
				return
			}
			b.enumerators[op] = enumeratorState{state, format}
		})
	})
}

// stored is where a completed checkpoint of the engine's lies.
func (d *driver) stored(id int64) target {
	if t, ok := d.cfg.Attempt.claimed[id]; ok {
		return t
	}
	return target{blobs: d.cfg.Blobs, dir: snapshot.CheckpointDir(d.cfg.Job, id)}
}

func (d *driver) target(a Trigger) target {
	id := a.Barrier.ID
	if a.Barrier.Kind != snapshot.Savepoint {
		return target{blobs: d.cfg.Blobs, dir: snapshot.CheckpointDir(d.cfg.Job, id), path: d.pathOf(id, "")}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return target{blobs: d.mu.savepoints[a.Path], dir: snapshot.SavepointDir(d.cfg.Job, id), path: d.pathOf(id, a.Path), external: true}
}

func (d *driver) prepared(t stage.TaskID, id int64, op string, format *codec.Format, committables [][]byte) {
	b := d.barriers[id]
	if b == nil || !b.missing[t] || b.prepared[sinkTask{t, op}] {
		return
	}
	b.prepared[sinkTask{t, op}] = true
	d.pool.add(op, format, id, t.Subtask, committables)
}

// ack takes a task's part: into the snapshot, or, if that is dead, only its
// committables, and its files away. One that comes twice is ignored.
func (d *driver) ack(a Ack) {
	b := d.barriers[a.ID]
	if b == nil || !b.missing[a.Task] {
		return
	}
	for _, op := range a.Operators {
		var data [][]byte
		for _, c := range op.Committables {
			data = append(data, c.Data)
		}
		d.prepared(a.Task, a.ID, op.ID, op.CommittableFormat, data)
	}
	delete(b.missing, a.Task)
	d.shares.hold(b.dir, b.sharedOf(a))
	if b.dead {
		d.remove(b, b.filesOf(a))
		d.deleteShared(d.shares.drop(b.dir))
		d.forget(b)
		return
	}
	b.acks[a.Task] = a
	if len(b.missing) == 0 {
		d.deleteShared(d.shares.closed(b.ID))
	}
	killpoint.Reach("snapshot.ack")
	d.step(Acked{a.Task, a.ID})
}

func (d *driver) decline(t stage.TaskID, id int64, err error) {
	b := d.barriers[id]
	if b == nil || !b.missing[t] {
		return
	}
	delete(b.missing, t)
	if b.dead {
		d.forget(b)
		return
	}
	d.step(Declined{t, id, err})
}

// forget lets go of a snapshot that has ended and that no task will answer to
// any more.
func (d *driver) forget(b *barrier) {
	d.mu.Lock()
	delete(d.mu.targets, b.ID)
	d.mu.Unlock()
	if len(b.missing) == 0 {
		delete(d.barriers, b.ID)
	}
}

func (d *driver) completed(id int64) {
	killpoint.Reach("complete.begin")
	b := d.published[id]
	if b.Kind == snapshot.Checkpoint {
		delete(d.published, id)
	}
	d.succeeded(b)
	d.cfg.Host.CheckpointComplete(id)
	killpoint.Reach("complete.notified")
}

// succeeded accounts for a snapshot that is there.
func (d *driver) succeeded(b *barrier) {
	n := b.notice(d.core.now)
	d.forget(b)
	d.mu.Lock()
	d.mu.status.Completed++
	d.mu.status.Last = &n
	d.mu.Unlock()
	d.metrics.succeeded(n)
	d.cfg.Logger.Info("snapshot completed", "id", n.ID, "kind", n.Kind, "path", n.Path, "duration", n.Duration, "bytes", n.Bytes)
	d.cfg.OnEvent(n)
}

func (d *driver) aborted(a NotifyAborted) {
	b := d.barriers[a.ID]
	b.dead = true
	defer clear(b.acks) // tasks that never answer keep b itself
	d.deleteShared(d.shares.closed(a.ID))
	delete(d.published, a.ID)
	d.forget(b)
	d.cfg.Host.CheckpointAborted(a.ID)
	if errors.Is(a.Reason, errSubsumed) || errors.Is(a.Reason, ErrCanceled) {
		d.cfg.Logger.Debug("snapshot given up", "id", a.ID, "kind", b.Kind, "reason", a.Reason)
		return
	}
	n := b.notice(d.core.now)
	n.Err = a.Reason
	d.mu.Lock()
	d.mu.status.Failed++
	d.mu.Unlock()
	d.metrics.failed.Inc()
	d.cfg.Logger.Warn("snapshot failed", "id", a.ID, "kind", b.Kind, "error", a.Reason)
	d.cfg.OnEvent(n)
}

// request passes a request on to the core, under a token.
func (d *driver) request(r Request, answer chan<- reply) {
	d.lastToken++
	d.tokens[d.lastToken] = request{r, answer}
	d.step(Requested{Token: d.lastToken, Kind: r.Kind, Stop: r.Stop, Drain: r.Drain, Path: r.Path, Native: r.Native})
}

func (d *driver) reply(a Reply) {
	r, ok := d.tokens[a.Token]
	if !ok {
		return // a suspend that nobody waits for
	}
	delete(d.tokens, a.Token)
	result := reply{err: d.located(a.Err)}
	if a.ID != 0 {
		result.Result = Result{ID: a.ID, Path: d.pathOf(a.ID, r.Path)}
	}
	r.answer <- result
}

// located gives an UncommittedError its path.
func (d *driver) located(err error) error {
	var u *UncommittedError
	if !errors.As(err, &u) {
		return err
	}
	return &UncommittedError{ID: u.ID, Path: d.pathOf(u.ID, u.Path), Err: u.Err}
}

// pathOf is the directory of a snapshot as a user would give it; parent is
// the one that a savepoint was asked for.
func (d *driver) pathOf(id int64, parent string) string {
	if parent != "" {
		return location.Join(parent, snapshot.SavepointDir(d.cfg.Job, id))
	}
	return d.cfg.Blobs.String() + "/" + snapshot.CheckpointDir(d.cfg.Job, id)
}

func (d *driver) finish(o Outcome) {
	killpoint.Reach("job.ended")
	d.ended = true
	d.mu.Lock()
	d.mu.status.Outcome = o
	d.mu.Unlock()
	d.cfg.Logger.Info("job ended", "outcome", o)
}
