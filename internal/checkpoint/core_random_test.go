package checkpoint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

// TestCoreInvariants throws random events at the core, in every order that a
// driver could, and checks after each action what must hold in all of them.
func TestCoreInvariants(t *testing.T) {
	for seed := range uint64(1000) {
		s := newSimulation(seed)
		if err := s.run(400); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, s.trace())
		}
	}
}

// simulation is a driver without I/O: what the core starts stays open until a
// random moment.
type simulation struct {
	rnd  *rand.Rand
	core *Core
	opt  CoreOptions
	now  int64
	log  []string

	tasks []stage.TaskID
	// barriers that went out and were not aborted, with the tasks to answer.
	open map[int64]*stage.Barrier
	acks map[int64][]stage.TaskID
	// publishing, append and marks are I/O under way.
	publishing *Publish
	record     *Append
	marks      []int64
	// listed is the least checkpoint whose committables a snapshot lists.
	listed    map[int64]int64
	completed []int64 // with their files there
	doubtful  []int64 // published perhaps, not completed
	unsettled []int64 // completed, commits under way
	committed int64   // what was told to the core
	commitTo  int64   // what it asked for
	waiting   map[int64]bool
	tokens    int64
	last      int64 // the last id
	// regions are those that are down: each task is one.
	regions map[int]regionState
	over    bool
}

func newSimulation(seed uint64) *simulation {
	r := rand.New(rand.NewPCG(seed, 1))
	o := CoreOptions{
		Interval: []int64{0, 10, 50}[r.IntN(3)], Timeout: 60, MaxConcurrent: 1 + r.IntN(3), TolerableFailures: r.IntN(4) - 1,
		Retained: 1 + r.IntN(3), NextID: 1, Seed: seed,
		Retention: []checkpoint.Retention{checkpoint.RetainAlways, checkpoint.DeleteOnCancel, checkpoint.DeleteAtEnd}[r.IntN(3)],
	}
	s := &simulation{
		rnd: r, opt: o, core: NewCore(o), open: map[int64]*stage.Barrier{}, acks: map[int64][]stage.TaskID{}, listed: map[int64]int64{}, waiting: map[int64]bool{}, regions: map[int]regionState{},
	}
	for i := range 1 + r.IntN(3) {
		s.tasks = append(s.tasks, stage.TaskID{Stage: "t", Subtask: i})
	}
	return s
}

func (s *simulation) trace() (all string) {
	for _, l := range s.log[max(0, len(s.log)-60):] {
		all += l + "\n"
	}
	return all
}

func (s *simulation) run(steps int) error {
	if err := s.step(Started{s.tasks}); err != nil {
		return err
	}
	for i := 0; i < steps && !s.over; i++ {
		s.now += s.rnd.Int64N(8)
		if err := s.step(s.event()); err != nil {
			return err
		}
	}
	if s.over && len(s.waiting) > 0 {
		return fmt.Errorf("ended, and tokens %v have no reply", s.waiting)
	}
	return nil
}

// event chooses what happens next.
func (s *simulation) event() Event {
	task := s.tasks[s.rnd.IntN(len(s.tasks))]
	switch n := s.rnd.IntN(100); {
	case n < 35 && s.last > 0:
		id := s.last - s.rnd.Int64N(min(s.last, 4))
		s.acks[id] = append(s.acks[id], task)
		return Acked{task, id}
	case n < 37 && s.last > 0:
		return Declined{task, s.last, errors.New("no")}
	case n < 60 && s.publishing != nil:
		p := *s.publishing
		s.publishing = nil
		return s.published(p.ID)
	case n < 70 && s.commitTo > s.committed:
		s.committed += 1 + s.rnd.Int64N(s.commitTo-s.committed)
		s.unsettled = slices.DeleteFunc(s.unsettled, func(id int64) bool { return id <= s.committed })
		return CommittedUpTo{s.committed}
	case n < 76 && s.record != nil:
		kind := s.record.Kind
		s.record = nil
		return Recorded{kind, s.perhaps(10)}
	case n < 82 && len(s.marks) > 0:
		id := s.marks[0]
		s.marks = s.marks[1:]
		return Marked{id, s.perhaps(10)}
	case n < 88:
		return s.request()
	case n < 89:
		return Ended{task}
	case n == 89 && s.rnd.IntN(10) == 0:
		return Cancel{}
	case n >= 90 && n < 95:
		return s.region()
	}
	return Tick{}
}

type regionState int

const (
	regionFailed regionState = iota + 1
	regionStopped
	regionAnswered
)

// region moves a region on, if it is its turn.
func (s *simulation) region() Event {
	i := s.rnd.IntN(len(s.tasks))
	r := Region{ID: i, Tasks: s.tasks[i : i+1]}
	switch st := s.regions[i]; {
	case st == 0 && s.rnd.IntN(4) == 0:
		s.regions[i] = regionFailed
		return RegionFailed{r, errors.New("broken")}
	case st == regionFailed:
		s.regions[i] = regionStopped
		return RegionStopped{r}
	case st == regionAnswered:
		delete(s.regions, i)
		return RegionRestarted{r}
	}
	return Tick{}
}

func (s *simulation) perhaps(oneIn int) error {
	if s.rnd.IntN(oneIn) == 0 {
		return errors.New("disk full")
	}
	return nil
}

func (s *simulation) published(id int64) Published {
	p := Published{ID: id, Outcome: PublishedOK, Committables: s.rnd.IntN(2)}
	switch s.rnd.IntN(20) {
	case 0, 1:
		p.Outcome, p.Err = PublishedFailed, errors.New("disk full")
		if s.open[id].Kind != snapshot.Savepoint { // nothing goes on from those
			s.doubtful = append(s.doubtful, id)
		}
	case 2:
		p.Outcome, p.Err = PublishedTaken, errIDTaken
	case 3:
		if s.rnd.IntN(5) == 0 {
			p.Outcome, p.Err = PublishedFenced, ErrFenced
		}
	}
	return p
}

func (s *simulation) request() Event {
	s.tokens++
	r := Requested{Token: s.tokens, Kind: snapshot.Checkpoint}
	switch s.rnd.IntN(12) {
	case 0:
		r.Kind, r.Stop = snapshot.Final, true
	case 1:
		r.Kind, r.Path = snapshot.Savepoint, "/sp"
		r.Stop = s.rnd.IntN(8) == 0
	case 2:
		r.Kind = snapshot.Savepoint // without a directory
	}
	s.waiting[r.Token] = true
	return r
}

func (s *simulation) step(ev Event) error {
	s.log = append(s.log, fmt.Sprintf("at %d %v", s.now, ev))
	for _, a := range s.core.Step(s.now, ev) {
		s.log = append(s.log, fmt.Sprintf("  %v", a))
		if s.over {
			return fmt.Errorf("%v after the end", a)
		}
		if err := s.check(a); err != nil {
			return err
		}
	}
	return nil
}

// check holds an action against what went before.
func (s *simulation) check(action Action) error {
	switch a := action.(type) {
	case Trigger:
		if a.Barrier.ID <= s.last {
			return fmt.Errorf("id %d after %d", a.Barrier.ID, s.last)
		}
		if len(s.regions) > 0 {
			return fmt.Errorf("barrier %d while regions are down", a.Barrier.ID)
		}
		s.last = a.Barrier.ID
		s.open[s.last] = a.Barrier
		if n := s.checkpointsOpen(); a.Barrier.Kind == snapshot.Checkpoint && s.opt.MaxConcurrent < n && len(s.core.unmarked) == 0 {
			return fmt.Errorf("%d checkpoints at once", n)
		}
	case Publish:
		return s.checkPublish(a)
	case Append:
		if s.record != nil {
			return errors.New("two records at once")
		}
		s.record = &a
	case Mark:
		if a.ID > s.committed && s.open[a.ID] != nil && s.open[a.ID].Kind != snapshot.Savepoint {
			return fmt.Errorf("mark %d, committed up to %d", a.ID, s.committed)
		}
		s.marks = append(s.marks, a.ID)
	case NotifyComplete:
		if s.open[a.ID] == nil {
			return fmt.Errorf("complete %d, which is not open", a.ID)
		}
		if len(s.completed) > 0 && a.ID <= s.completed[len(s.completed)-1] {
			return fmt.Errorf("complete %d after %v", a.ID, s.completed)
		}
		if i := slices.IndexFunc(s.doubtful, func(id int64) bool { return id > a.ID }); i >= 0 {
			return fmt.Errorf("complete %d, though %d may stand", a.ID, s.doubtful[i])
		}
		s.completed = append(s.completed, a.ID)
	case Commit:
		if a.ID != s.completed[len(s.completed)-1] {
			return fmt.Errorf("commit %d, completed %v", a.ID, s.completed)
		}
		s.commitTo = a.ID
		s.unsettled = append(s.unsettled, a.ID)
	case NotifyCommitted:
		newest := s.completed[len(s.completed)-1]
		if s.listed[newest] <= a.ID {
			return fmt.Errorf("%d may be reused, but %d lists what is above %d", a.ID, newest, s.listed[newest]-1)
		}
	case RestoreRegion:
		var newest int64
		if len(s.completed) > 0 {
			newest = s.completed[len(s.completed)-1]
		}
		if a.From != newest || s.publishing != nil || s.regions[a.Region] != regionStopped {
			return fmt.Errorf("the newest checkpoint is %d; publishing: %v; down: %v", newest, s.publishing, s.regions)
		}
		s.regions[a.Region] = regionAnswered
	case NotifyAborted:
		delete(s.open, a.ID)
	case Delete:
		return s.checkDelete(a)
	case Reply:
		if !s.waiting[a.Token] {
			return fmt.Errorf("a second reply to %d", a.Token)
		}
		delete(s.waiting, a.Token)
	case SetTimer:
		if a.At != 0 && a.At < s.now {
			return fmt.Errorf("timer %d is over", a.At)
		}
	case Fail, Finish:
		s.over = true
	}
	return nil
}

func (s *simulation) checkpointsOpen() (n int) {
	for id, b := range s.open {
		if b.Kind != snapshot.Savepoint && !slices.Contains(s.completed, id) && (s.core.stop == nil || s.core.stop.snapshot == nil || s.core.stop.snapshot.id != id) {
			n++
		}
	}
	return n
}

func (s *simulation) checkPublish(p Publish) error {
	if s.publishing != nil {
		return fmt.Errorf("publish %d and %d at once", s.publishing.ID, p.ID)
	}
	for _, task := range s.tasks {
		if !slices.Contains(s.acks[p.ID], task) {
			return fmt.Errorf("publish %d without %v", p.ID, task)
		}
	}
	s.publishing = &p
	s.listed[p.ID] = s.committed + 1
	return nil
}

// checkDelete: never the newest completed one while the job may go on, never
// one whose commits are open, nothing that is newer than what was completed.
func (s *simulation) checkDelete(d Delete) error {
	ending := s.core.ended
	for _, id := range d.IDs {
		newest := s.completed[len(s.completed)-1]
		switch {
		case id >= newest && !ending:
			return fmt.Errorf("delete %d, the newest is %d", id, newest)
		case slices.Contains(s.unsettled, id):
			return fmt.Errorf("delete %d, commits up to %d have returned", id, s.committed)
		case !slices.Contains(s.completed, id) && !slices.Contains(s.doubtful, id):
			return fmt.Errorf("delete %d, which never was", id)
		}
	}
	return nil
}
