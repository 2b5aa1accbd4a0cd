package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
)

// Stepped is a job that is driven by hand, for tests: all subtasks work on the
// goroutine of the caller, one after the other, while a method runs and at no
// other time, by a clock of the caller's. Plan, operators, state, routing and
// snapshots are those of a Job. There is no coordinator, no enumerator and no
// committer: the caller assigns splits, and sinks publish as they write.
//
// Once a method has returned an error only Close may be called.
type Stepped struct {
	a     *attempt
	blobs storage.Blobs
	// rounds is after how many, each of which did something, Settle gives up.
	rounds int
	// taken is the snapshot under way.
	taken taken
}

// taken is what tasks have delivered of a snapshot.
type taken struct {
	dir  string
	acks []coord.Ack
	err  error
}

// SteppedOptions are the options of a Stepped.
type SteppedOptions struct {
	// Parallelism and MaxParallelism are as in Options.
	Parallelism, MaxParallelism int
	// Attempt is the number of the start, at least 1.
	Attempt int64
	// From is the snapshot to begin from, nil for nothing.
	From *StoredSnapshot
	// Blobs is where snapshots go.
	Blobs storage.Blobs
	// Now is the wall clock in milliseconds since the epoch.
	Now func() int64
	// Logger may be nil, which discards.
	Logger *slog.Logger
	// Rounds bounds the work of one Settle, about a hundred thousand records
	// or timers of a subtask each. Default 100.
	Rounds int
}

// StoredSnapshot is a snapshot in a storage.
type StoredSnapshot struct {
	Blobs storage.Blobs
	Dir   string
}

// NewStepped makes the subtasks and opens their operators. Close must follow
// unless there is an error.
func NewStepped(g *graph.Graph, o SteppedOptions) (*Stepped, error) {
	opts := Options{Parallelism: o.Parallelism, MaxParallelism: o.MaxParallelism, Logger: o.Logger}
	opts.ensureDefaults()
	job := &Job{graph: g, opts: opts, log: opts.Logger, pool: memory.NewPool(0)}
	s := &Stepped{a: newAttempt(job, opts, o.Blobs, 0), blobs: o.Blobs}
	a := s.a
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	a.host, a.now = steppedHost{s}, o.Now
	a.connect = func(_ *region, _, _ *stage.Waker) queue { return &fifo{} }
	a.target = func(int64) (storage.Blobs, string, bool) { return s.blobs, s.taken.dir, true }
	if s.rounds = o.Rounds; s.rounds == 0 {
		s.rounds = 100
	}
	a.start = &coord.Attempt{Lineage: g.Job, Number: o.Attempt}
	if err := s.open(o.From); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stepped) open(from *StoredSnapshot) (err error) {
	a := s.a
	if from != nil {
		m, err := snapshot.Load(a.ctx, from.Blobs, from.Dir)
		if err != nil {
			return err
		}
		a.start.Restored, a.start.RestoredDir, a.start.RestoredBlobs = m, from.Dir, from.Blobs
	}
	if err := a.layOut(); err != nil {
		return err
	}
	w, err := a.wire()
	if err != nil {
		return err
	}
	a.wiring.Store(w)
	for _, t := range w.tasks {
		if err := t.Open(); err != nil {
			return err
		}
	}
	return nil
}

// Assign gives a source's subtask splits, and no more after them.
func (s *Stepped) Assign(source string, subtask int, splits ...[]byte) {
	t := s.a.wiring.Load().sources[source][subtask]
	t.PostEvent(stage.SourceEvent{Splits: splits})
	t.PostEvent(stage.SourceEvent{NoMoreSplits: true})
}

// Settle lets the subtasks work until none has anything to do.
func (s *Stepped) Settle() error { return s.SettleWithin(s.rounds) }

// SettleWithin is Settle with another bound in place of SteppedOptions.Rounds.
func (s *Stepped) SettleWithin(rounds int) error {
	for range rounds {
		worked := false
		for _, t := range s.a.wiring.Load().tasks {
			did, err := t.Work()
			if err != nil {
				return err
			}
			worked = worked || did
		}
		if s.a.ctx.Err() != nil {
			return context.Cause(s.a.ctx)
		}
		if !worked {
			return nil
		}
	}
	return s.restless(rounds)
}

// restless says what the job is busy with.
func (s *Stepped) restless(rounds int) error {
	bound := fmt.Sprintf("the job does not come to rest: the bound of a step is %d rounds, each of up to %d batches of records or %d timers in a subtask",
		rounds, stage.WorkSteps, stage.WorkTimers)
	for _, t := range s.a.wiring.Load().tasks {
		if firing := t.Firing(); firing != "" {
			return fmt.Errorf("%s, and timers are due still, of %s. One that sets itself again for a time that has come fires for ever; if it has an end, take smaller steps", bound, firing)
		}
	}
	return fmt.Errorf("%s; take smaller steps", bound)
}

// Alarm is the earliest time, in milliseconds, at which a processing-time timer
// may be due.
func (s *Stepped) Alarm() (millis int64, ok bool) {
	for _, t := range s.a.wiring.Load().tasks {
		if at, has := t.Alarm(); has && (!ok || at < millis) {
			millis, ok = at, true
		}
	}
	return millis, ok
}

// Snapshot takes a snapshot by a barrier that goes through all subtasks,
// stores it under the id, which must be new in the storage, and says where.
func (s *Stepped) Snapshot(id int64) (*StoredSnapshot, error) {
	a := s.a
	b := &stage.Barrier{ID: id, Kind: snapshot.Checkpoint, Triggered: a.now()}
	s.taken = taken{dir: snapshot.CheckpointDir(a.job.graph.Job, id)}
	a.sendBarrier(b)
	if err := errors.Join(s.Settle(), s.taken.err); err != nil {
		return nil, err
	}
	if n := len(s.taken.acks); n != len(a.wiring.Load().tasks) {
		return nil, fmt.Errorf("%d of %d subtasks took part in the snapshot", n, len(a.wiring.Load().tasks))
	}
	m := &snapshot.Metadata{
		Weir: Version, Job: a.job.graph.Job, Lineage: a.start.Lineage, Attempt: a.start.Number, ID: id,
		Kind: b.Kind, Triggered: b.Triggered, Completed: a.now(), KeyHash: keygroup.HashName,
	}
	m.Operators, m.Files = coord.Assemble(s.taken.acks)
	if err := snapshot.Store(a.ctx, s.blobs, s.taken.dir, m); err != nil {
		return nil, err
	}
	a.CheckpointComplete(id)
	return &StoredSnapshot{Blobs: s.blobs, Dir: s.taken.dir}, s.Settle()
}

// steppedHost is what the subtasks of a Stepped report to.
type steppedHost struct{ s *Stepped }

// Snapshot implements stage.Host.
func (h steppedHost) Snapshot(t stage.TaskID, b *stage.Barrier, parts []stage.Part, _ time.Duration) {
	ack, err := h.s.a.write(h.s.a.ctx, t, b, parts)
	taken := &h.s.taken
	taken.acks, taken.err = append(taken.acks, ack), errors.Join(taken.err, err)
}

// Ended implements stage.Host.
func (steppedHost) Ended(stage.TaskID) {}

// Subtask is one subtask of an operator.
type Subtask struct {
	Operator stage.Operator
	Context  *stage.Context
}

// Subtasks returns the subtasks of an operator in order, for looking at them.
func (s *Stepped) Subtasks(operator string) []Subtask {
	var found []Subtask
	for _, t := range s.a.wiring.Load().tasks {
		for i, c := range t.Contexts {
			if c.Operator == operator {
				found = append(found, Subtask{t.Operators[i], c})
			}
		}
	}
	return found
}

// Close closes the operators. Nothing is left behind; the error says if state
// memory was, and what operators return.
func (s *Stepped) Close() error {
	var errs []error
	if w := s.a.wiring.Load(); w != nil {
		for _, t := range w.tasks {
			errs = append(errs, t.Close())
		}
	}
	s.a.cancel(errDone)
	if n := s.a.job.pool.InUse(); n != 0 {
		errs = append(errs, fmt.Errorf("%d bytes of state memory were not given back", n))
	}
	return errors.Join(append(errs, s.a.job.pool.Close())...)
}

// fifo is a queue without bounds between two subtasks of one goroutine.
type fifo struct{ elements []stage.Element }

// HasRoom implements stage.Channel.
func (f *fifo) HasRoom() bool { return true }

// Push implements stage.Channel.
func (f *fifo) Push(e stage.Element) { f.elements = append(f.elements, e) }

// Poll implements stage.Input.
func (f *fifo) Poll() (stage.Element, bool) {
	if len(f.elements) == 0 {
		return stage.Element{}, false
	}
	e := f.elements[0]
	f.elements[0] = stage.Element{}
	f.elements = f.elements[1:]
	return e, true
}
