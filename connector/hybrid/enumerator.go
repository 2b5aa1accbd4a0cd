package hybrid

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/connector"
)

// enumerator runs the enumerator of the source that is read, the current one,
// and switches to the next when all readers have come to its end. A reader that
// was restored alone may be behind: it is led through the sources in between.
type enumerator[T any] struct {
	source  *Source[T]
	ctx     connector.EnumeratorContext[Split]
	started bool
	state   Enumeration // Member and Positions are kept up to date

	inner   enumeration
	current opened[T] // whose enumerator inner is
	member  *innerContext
	ended   []*innerContext // of sources before, which may not be closed yet
	taken   taken
	joined  map[int]bool // readers that read the current source
	// finished are those of them that have come to its end.
	finished map[int]bool
	// late are splits that came back and that the reader of a subtask is to get
	// when it is at their source.
	late map[int][]Split
	// kept are the ids of splits of the current source that stay with the reader
	// they were given to after a restore.
	kept      map[string]bool
	turn      int // of the next reader that is given such a split
	switching bool
}

func (e *enumerator[T]) Start() error {
	return e.begin(e.state.State)
}

// begin makes and starts the enumerator of the current source.
func (e *enumerator[T]) begin(state *State) error {
	m := e.state.Member
	src, err := e.source.members[m].open(e.state.Positions[m])
	if err != nil {
		return e.fail(err)
	}
	ctx, stop := context.WithCancel(e.ctx.Context())
	e.member = &innerContext{outer: e.ctx, ctx: ctx, stop: stop, member: m, last: m == e.source.last(), joined: e.joined}
	inner, err := src.enumerator(e.member, state)
	if err != nil {
		return e.fail(err)
	}
	e.inner, e.current, e.member.release = inner, src, inner.Close
	return e.fail(inner.Start())
}

func (e *enumerator[T]) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("hybrid source: source %d of %d: %w", e.state.Member+1, len(e.source.members), err)
}

// AddReader greets a reader, which answers with ready.
func (e *enumerator[T]) AddReader(subtask int) error {
	e.started = true
	delete(e.joined, subtask)
	delete(e.finished, subtask)
	return e.ctx.SendEvent(subtask, hello{})
}

// HandleSplitRequest is never called: members ask by request.
func (e *enumerator[T]) HandleSplitRequest(int, string) error { return nil }

// AddSplitsBack gives splits of the current source back to its enumerator, if
// that wants them, and keeps others for the reader of the subtask, which has to
// read them before it goes on.
func (e *enumerator[T]) AddSplitsBack(splits []Split, subtask int) error {
	var own []Split
	for _, s := range splits {
		if s.Member == e.state.Member && e.wants(s) {
			own = append(own, s)
			continue
		}
		to := subtask
		if !e.started {
			to = e.successor(subtask)
		}
		e.late[to] = append(e.late[to], s)
	}
	if len(own) == 0 {
		return nil
	}
	return e.fail(e.inner.addSplitsBack(own, subtask))
}

// wants says whether the enumerator of the current source takes a split back.
func (e *enumerator[T]) wants(s Split) bool {
	if e.started {
		return !e.kept[s.SplitID()]
	}
	return e.current.ReassignSplits()
}

// successor chooses the reader of a restored split as the engine does: the same
// one, or each in turn if their number has changed.
func (e *enumerator[T]) successor(subtask int) int {
	if n := e.ctx.Parallelism(); n == e.state.Parallelism && subtask < n {
		return subtask
	}
	return e.inTurn()
}

func (e *enumerator[T]) inTurn() int {
	e.turn++
	return (e.turn - 1) % e.ctx.Parallelism()
}

func (e *enumerator[T]) HandleSourceEvent(subtask int, event any) error {
	current := e.state.Member
	switch ev := event.(type) {
	case ready:
		return e.lead(subtask, ev.lowest)
	case over:
		if ev.member < current {
			return e.lead(subtask, ev.lowest)
		}
		e.finished[subtask] = true
		if err := e.ctx.Assign(subtask); err != nil { // it holds back no event time
			return err
		}
		return e.switchOver()
	case request:
		if ev.member == current {
			return e.fail(e.inner.HandleSplitRequest(subtask, ev.host))
		}
	case custom:
		if ev.member == current {
			return e.fail(e.inner.HandleSourceEvent(subtask, ev.event))
		}
	default:
		return fmt.Errorf("hybrid source: event %T of reader %d is none of its own", event, subtask)
	}
	return nil
}

// lead tells a reader which source to read next: the first of which it has
// splits, or is to get some, and the current one if there is none.
func (e *enumerator[T]) lead(subtask, lowest int) error {
	current := e.state.Member
	next := min(lowest, current)
	for _, s := range e.late[subtask] {
		next = min(next, s.Member)
	}
	if err := e.ctx.SendEvent(subtask, begin{next, e.state.Positions[next]}); err != nil {
		return err
	}
	if err := e.assignLate(subtask, next); err != nil {
		return err
	}
	if next < current {
		return e.ctx.SendEvent(subtask, noMore{next})
	}
	e.joined[subtask] = true
	return e.fail(e.inner.AddReader(subtask))
}

func (e *enumerator[T]) assignLate(subtask, member int) error {
	var own []Split
	e.late[subtask] = slices.DeleteFunc(e.late[subtask], func(s Split) bool {
		if s.Member != member {
			return false
		}
		own = append(own, s)
		if member == e.state.Member {
			e.kept[s.SplitID()] = true
		}
		return true
	})
	if len(own) == 0 {
		return nil
	}
	return e.ctx.Assign(subtask, own...)
}

// switchOver begins the next source when all readers have come to the end of
// the current one.
func (e *enumerator[T]) switchOver() error {
	if !e.mayEnd() || e.switching {
		return nil
	}
	handed, err := e.inner.handOver()
	if err != nil {
		return e.fail(err)
	}
	next := e.source.members[e.state.Member+1]
	e.switching = true
	e.ctx.CallAsync(func(ctx context.Context) (any, error) {
		return next.position(ctx, handed)
	}, func(position any, err error) error {
		e.switching = false
		if err != nil {
			return fmt.Errorf("hybrid source: the position of source %d of %d: %w", e.state.Member+2, len(e.source.members), err)
		}
		if !e.mayEnd() {
			return nil // a reader has failed meanwhile, and has something to read again
		}
		return e.next(position.([]byte))
	}, 0, 0)
	return nil
}

func (e *enumerator[T]) mayEnd() bool {
	return e.state.Member < e.source.last() && len(e.finished) == e.ctx.Parallelism()
}

// next switches.
func (e *enumerator[T]) next(position []byte) error {
	if err := e.member.end(false); err != nil {
		return e.fail(err)
	}
	e.ended, e.taken = append(e.ended, e.member), taken{}
	e.state.Member++
	e.state.Positions = append(slices.Clone(e.state.Positions), position)
	clear(e.finished)
	clear(e.joined)
	clear(e.kept)
	e.ctx.Logger().Info("hybrid source goes on with the next source", "source", e.state.Member+1, "of", len(e.source.members))
	if err := e.begin(nil); err != nil {
		return err
	}
	for _, subtask := range e.ctx.Readers() {
		if err := e.lead(subtask, e.state.Member); err != nil {
			return err
		}
	}
	return nil
}

func (e *enumerator[T]) Snapshot(checkpoint int64) (Enumeration, error) {
	inner, err := e.inner.snapshot(checkpoint)
	if err != nil {
		return Enumeration{}, e.fail(err)
	}
	e.taken.note(checkpoint)
	s := Enumeration{Member: e.state.Member, Positions: e.state.Positions, Parallelism: e.ctx.Parallelism(), State: inner}
	for subtask := range e.ctx.Parallelism() {
		s.Late = append(s.Late, e.late[subtask]...)
	}
	return s, nil
}

func (e *enumerator[T]) CheckpointComplete(checkpoint int64) error {
	if !e.taken.covers(checkpoint) {
		return nil
	}
	return e.fail(e.inner.CheckpointComplete(checkpoint))
}

func (e *enumerator[T]) Close() error {
	var err error
	if e.member != nil {
		err = e.member.end(true)
	}
	for _, m := range e.ended {
		err = errors.Join(err, m.end(true))
	}
	return err
}

// taken knows the first checkpoint that a source took part in: of earlier ones
// it is not told that they are complete.
type taken struct {
	first int64
	any   bool
}

func (t *taken) note(checkpoint int64) {
	if !t.any {
		t.first, t.any = checkpoint, true
	}
}

func (t *taken) covers(checkpoint int64) bool { return t.any && checkpoint >= t.first }
