package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

// TestSchedules runs processes of one job in random turns: they crash and
// pause at every step of a start, of a checkpoint and of its commit, wake up
// late, and overtake each other. A job numbers its records; whatever happens,
// each number is published once.
func TestSchedules(t *testing.T) {
	for seed := range uint64(500) {
		s := &schedule{rnd: rand.New(rand.NewPCG(seed, 7)), blobs: mem.New(), transactions: map[string]*transaction{}}
		if err := s.run(t.Context()); err != nil {
			for _, l := range s.log {
				t.Log(l)
			}
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// schedule is the outside world: storage, the system written to, and the
// processes that live.
type schedule struct {
	rnd          *rand.Rand
	blobs        *mem.Blobs
	transactions map[string]*transaction
	processes    []*process
	log          []string
}

// transaction is one of the external system; its name carries the attempt.
type transaction struct {
	attempt    int64
	first, end int // the numbers written
	state      string
}

func (s *schedule) run(ctx context.Context) error {
	for range 60 {
		switch n := s.rnd.IntN(20); {
		case len(s.processes) == 0 || n == 0:
			s.processes = append(s.processes, &process{schedule: s, name: len(s.log)})
			s.say("%d is here", len(s.log))
		case n == 1: // crash
			i := s.rnd.IntN(len(s.processes))
			s.say("crash of %d", s.processes[i].name)
			s.processes = slices.Delete(s.processes, i, i+1)
		default:
			if err := s.turn(ctx, s.processes[s.rnd.IntN(len(s.processes))]); err != nil {
				return err
			}
		}
	}
	// The last one is left alone by the others until it has committed; then
	// they may try again.
	last := &process{schedule: s, name: -1}
	others := s.processes
	for range 30 {
		if err := s.turn(ctx, last); err != nil {
			return err
		}
	}
	for _, p := range others {
		for range 5 {
			if err := s.turn(ctx, p); err != nil {
				return err
			}
		}
	}
	return s.check(last.confirmedTo)
}

func (s *schedule) say(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

// turn lets a process do one step; one that is fenced ends.
func (s *schedule) turn(ctx context.Context, p *process) error {
	if p.dead {
		return nil
	}
	err := p.step(ctx)
	if errors.Is(err, ErrFenced) {
		s.say("%d is fenced", p.name)
		p.dead = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", p.name, err)
	}
	return nil
}

// check: all numbers up to the largest published, which is at least known, are
// published, once.
func (s *schedule) check(known int) error {
	var times []int
	for _, x := range s.transactions {
		for n := x.first; n < x.end && x.state == "committed"; n++ {
			times = append(times, make([]int, max(n+1-len(times), 0))...)
			times[n]++
		}
	}
	if len(times) < max(known, 1) {
		return fmt.Errorf("%d numbers published, %d known", len(times), known)
	}
	for n, k := range times {
		if k != 1 {
			return fmt.Errorf("%d was published %d times", n, k)
		}
	}
	return nil
}

// process is one process: it starts the job, then takes checkpoint after
// checkpoint, each in steps between which anything may happen.
type process struct {
	*schedule
	name  int
	dead  bool
	start *start
	a     *Attempt
	next  func(context.Context) error

	position    int
	id          int64
	unconfirmed []snapshot.Committable
	completed   []int64
	committed   int64
	published   *snapshot.Metadata
	// confirmedTo is the end of what is known to be published.
	confirmedTo int
}

func (p *process) step(ctx context.Context) error {
	if p.next == nil {
		p.next = p.claim
	}
	return p.next(ctx)
}

func (p *process) claim(ctx context.Context) (err error) {
	p.start, err = newStart(StartOptions{
		Job: "job", Blobs: p.blobs, ExactlyOnceSinks: true, NewLineage: func() string { return "L" }, Now: func() int64 { return 0 },
	})
	if err != nil {
		return err
	}
	p.next = p.choose
	return p.start.begin(ctx)
}

func (p *process) choose(ctx context.Context) (err error) {
	if p.a, err = p.start.end(ctx); err != nil {
		return err
	}
	p.id, p.completed, p.next = p.a.NextID, p.a.owned, p.resolve
	if m := p.a.Restored; m != nil {
		p.position = int(m.Triggered) // stands for the position of a source
		p.committed = m.ID
	}
	p.say("%d is attempt %d, from %d, owns %v", p.name, p.a.Number, p.position, p.completed)
	return nil
}

func (p *process) resolve(ctx context.Context) error {
	p.next = p.barrier
	return p.a.ResolveSinks(ctx, map[string]stage.Committer{"rows": p})
}

// barrier writes some records in a transaction and pre-commits it.
func (p *process) barrier(context.Context) error {
	name := fmt.Sprintf("%d.%d", p.a.Number, p.id)
	first := p.position
	p.position += 1 + p.rnd.IntN(3)
	p.transactions[name] = &transaction{attempt: p.a.Number, first: first, end: p.position, state: "open"}
	p.unconfirmed = append(p.unconfirmed, snapshot.Committable{Checkpoint: p.id, Data: []byte(name)})
	p.say("%d writes %d to %d in %s", p.name, first, p.position, name)
	p.next = p.publish
	if p.rnd.IntN(6) == 0 { // the checkpoint fails, its transaction is carried on
		p.id++
		p.next = p.barrier
	}
	return nil
}

func (p *process) publish(ctx context.Context) error {
	m := &snapshot.Metadata{Job: "job", Lineage: "L", Attempt: p.a.Number, ID: p.id, Kind: snapshot.Checkpoint, Triggered: int64(p.position),
		Operators: []snapshot.Operator{{ID: "rows", Committables: slices.Clone(p.unconfirmed)}}}
	for len(p.completed) > 0 && p.completed[0] <= p.committed && len(p.completed)-len(m.Deletes) > p.rnd.IntN(2) {
		m.Deletes = append(m.Deletes, snapshot.CheckpointDir("job", p.completed[0]))
		p.completed = p.completed[1:]
	}
	err := snapshot.Store(ctx, p.blobs, snapshot.CheckpointDir("job", p.id), m)
	p.id++
	if errors.Is(err, storage.ErrExists) {
		p.next = p.barrier
		return p.a.StillNewest(ctx)
	}
	p.say("%d publishes %d, deletes %v", p.name, m.ID, m.Deletes)
	p.published, p.next = m, p.complete
	return err
}

func (p *process) complete(ctx context.Context) error {
	p.next = p.commit
	return p.a.StillNewest(ctx)
}

func (p *process) commit(ctx context.Context) error {
	p.next = p.delete
	if p.rnd.IntN(4) == 0 { // slow commits
		return nil
	}
	if err := p.Commit(ctx, payloads(slices.Clone(p.unconfirmed))); err != nil {
		return err
	}
	p.unconfirmed, p.committed, p.confirmedTo = nil, p.published.ID, int(p.published.Triggered)
	return nil
}

func (p *process) delete(ctx context.Context) error {
	p.completed = append(p.completed, p.published.ID)
	p.next = p.barrier
	for _, dir := range p.published.Deletes {
		if err := deleteDirectory(ctx, p.blobs, dir); err != nil {
			return err
		}
	}
	return nil
}

// Commit is the external system's: it fails if what it should publish is lost.
func (p *process) Commit(_ context.Context, data [][]byte) error {
	for _, d := range data {
		x := p.transactions[string(d)]
		if x.state == "aborted" {
			return fmt.Errorf("transaction %s is lost", d)
		}
		x.state = "committed"
		p.say("%d commits %s", p.name, d)
	}
	return nil
}

// Sweep aborts what earlier attempts left open.
func (p *process) Sweep(_ context.Context, stillNewest func() error) error {
	if err := stillNewest(); err != nil {
		return err
	}
	for name, x := range p.transactions {
		if x.state == "open" && x.attempt < p.a.Number {
			x.state = "aborted"
			p.say("%d aborts %s", p.name, name)
		}
	}
	return nil
}

func (*process) Close() error { return nil }
