package checkpoint

import (
	"context"
	"fmt"
	"sync"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
)

// Coordinator drives the Core of one attempt. All methods but Run may be
// called from any goroutine, before, during and after Run; none of them
// blocks but Trigger.
type Coordinator struct {
	cfg Config

	// wake has a message when inbox has.
	wake chan struct{}
	// done is closed when Run has ended.
	done chan struct{}

	mu struct {
		sync.Mutex
		// inbox is what the goroutine of Run is to do next.
		inbox   []func(*driver)
		status  Status
		targets map[int64]target
		// savepoints are the storages that savepoints are written to, by path.
		savepoints map[string]storage.Blobs
	}
}

// New makes the coordinator of an attempt whose sinks are resolved.
func New(cfg Config) (*Coordinator, error) {
	cfg.ensureDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Coordinator{cfg: cfg, wake: make(chan struct{}, 1), done: make(chan struct{})}
	c.mu.targets = map[int64]target{}
	c.mu.savepoints = map[string]storage.Blobs{}
	return c, nil
}

// Run drives checkpoints until the job has ended (nil), the attempt fails
// (its error), or ctx ends (its cause). It is called once, when all tasks are
// running: until then requests other than Suspend are refused. When it
// returns it has left no goroutine behind.
func (c *Coordinator) Run(ctx context.Context) error {
	defer close(c.done)
	return newDriver(c).run(ctx)
}

// Prepared tells what a subtask of a sink pre-committed at the barrier id.
// A host calls it, in the order of barriers, before it begins to store the
// task's part: so the committables are carried on even if the checkpoint
// fails or storing takes long. What is told here may, but need not, be
// repeated in the Ack.
func (c *Coordinator) Prepared(t stage.TaskID, id int64, operator string, format *codec.Format, committables [][]byte) {
	c.post(func(d *driver) { d.prepared(t, id, operator, format, committables) })
}

// Ack tells that a task has stored its part of a snapshot. A task answers
// each barrier that it takes part in with one Ack or Decline. Without
// Prepared, committables of an Ack that never comes, or comes after that of a
// later barrier, are lost.
func (c *Coordinator) Ack(a Ack) { c.post(func(d *driver) { d.ack(a) }) }

// Decline tells that a task could not take or store its part.
func (c *Coordinator) Decline(t stage.TaskID, id int64, err error) {
	c.post(func(d *driver) { d.decline(t, id, err) })
}

// Ended tells that the input of a task has ended and all of it is processed.
// The task still takes part in checkpoints.
func (c *Coordinator) Ended(t stage.TaskID) { c.post(func(d *driver) { d.step(Ended{t}) }) }

// Suspend ends the job with a final snapshot from which the same command goes
// on: Run returns nil once its output is committed. It may be called before
// Run, and more than once.
func (c *Coordinator) Suspend() {
	c.post(func(d *driver) { d.step(Requested{Kind: snapshot.Final, Stop: true}) })
}

// Cancel ends the job without a snapshot: Run returns nil once what completed
// checkpoints hold is committed and, if retention says so, they are deleted.
func (c *Coordinator) Cancel() { c.post(func(d *driver) { d.step(Cancel{}) }) }

// Trigger takes a snapshot and waits for it. A checkpoint is done when it is
// completed; a savepoint when its output is committed as well, and marked so;
// with Stop, when the job has ended. The error wraps one of the package's
// errors where the request is refused; an *UncommittedError tells that the
// snapshot is there all the same.
func (c *Coordinator) Trigger(ctx context.Context, r Request) (Result, error) {
	if r.Kind == snapshot.Savepoint {
		if r.Path == "" {
			r.Path = c.cfg.Options.SavepointDir
		}
		if err := c.openTarget(r.Path); err != nil {
			return Result{}, err
		}
	}
	answer := make(chan reply, 1)
	c.post(func(d *driver) { d.request(r, answer) })
	select {
	case a := <-answer:
		return a.Result, a.err
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	case <-c.done:
	}
	select { // answered by the last step
	case a := <-answer:
		return a.Result, a.err
	default:
	}
	if c.Status().Outcome != "" {
		return Result{}, ErrEnded
	}
	return Result{}, ErrInterrupted
}

type reply struct {
	Result
	err error
}

func (c *Coordinator) openTarget(path string) error {
	switch {
	case path == "":
		return nil // refused by the core
	case c.cfg.OpenDir == nil:
		return fmt.Errorf("savepoint to %s: %w", path, ErrOff)
	}
	blobs, err := c.cfg.OpenDir(path)
	if err != nil {
		return fmt.Errorf("savepoint to %s: %w", path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.savepoints[path] = blobs
	return nil
}

// Target returns where the files of a snapshot go; false if it is none that
// is under way.
func (c *Coordinator) Target(id int64) (blobs storage.Blobs, dir string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.mu.targets[id]
	return t.blobs, t.dir, ok
}

// Status returns the present account.
func (c *Coordinator) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.status
}

func (c *Coordinator) post(f func(*driver)) {
	c.mu.Lock()
	c.mu.inbox = append(c.mu.inbox, f)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Coordinator) takeInbox() []func(*driver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.mu.inbox
	c.mu.inbox = nil
	return taken
}
