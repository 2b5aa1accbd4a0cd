package checkpoint

import (
	"fmt"
	"strings"
)

// scenario is what an exploration begins from, and what may happen in it.
type scenario struct {
	name string
	// setup are processes that run one after the other, undisturbed, before.
	setup []command
	// commands are the processes explored; one begins when those before it
	// have ended or are paused.
	commands []command
	// finishers must finish the job from every state; default: a start without
	// flags.
	finishers []command
	records   int // of each subtask; default 4
	subtasks  int // default 1
	// retained and concurrent checkpoints, default 1; protocol default 2.
	retained, concurrent, protocol int
	// shared has checkpoints share files.
	shared bool
	budget budget
	off    switches
	// only, if set, tells where a deviation may be; all other steps are taken.
	only func(f *fiber) bool
}

// budget bounds the deviations of one execution from the order in which each
// process runs undisturbed to its end.
type budget struct {
	// pauses of a process, which then comes last; crashes; holds of a fiber
	// until the process has nothing else to do; faults of the storage.
	pauses, crashes, holds, faults int
}

func (b budget) sum() uint64 {
	return uint64(b.pauses)<<24 ^ uint64(b.crashes)<<16 ^ uint64(b.holds)<<8 ^ uint64(b.faults)
}

func (sc *scenario) ensureDefaults() {
	for _, n := range []*int{&sc.subtasks, &sc.retained, &sc.concurrent} {
		*n = max(*n, 1)
	}
	if sc.records == 0 {
		sc.records = 4
	}
	if sc.protocol == 0 {
		sc.protocol = 2
	}
	if sc.finishers == nil {
		sc.finishers = []command{{}}
	}
}

// move is what happens at a step.
type move int

const (
	moveOn move = iota
	movePause
	moveCrash
	moveHold
	moveFailBefore
	moveFailAfter
)

// explorer goes through all executions of a scenario within its budget.
type explorer struct {
	sc   *scenario
	from *lasting
	// visited are the states seen, checked the lasting ones that a fresh start
	// was tried from.
	visited, checked map[uint64]struct{}
	trail            []choice
	executions       int
	steps            int
	limit            int // of executions, 0 for none
	violation        string
	trace            []string
}

// choice is a place where more than one thing could happen.
type choice struct {
	moves []move
	taken int
}

func newExplorer(sc scenario) *explorer {
	sc.ensureDefaults()
	e := &explorer{sc: &sc, from: newLasting(), visited: map[uint64]struct{}{}, checked: map[uint64]struct{}{}}
	e.from.brokers.protocol = sc.protocol
	for i := range sc.setup {
		u := newUniverse(&scenario{subtasks: sc.subtasks, records: sc.records, retained: sc.retained, concurrent: sc.concurrent, shared: sc.shared}, e.from, sc.setup[i:i+1])
		for f := u.turn(); f != nil; f = u.turn() {
			u.perform(f)
		}
		if u.violation != "" {
			panic(u.violation)
		}
		u.close()
	}
	return e
}

func (e *explorer) String() string {
	return fmt.Sprintf("%d executions, %d steps, %d states, %d lasting states", e.executions, e.steps, len(e.visited), len(e.checked))
}

// run explores until a violation is found or all is seen; it reports whether
// a rule was broken.
func (e *explorer) run() bool {
	for e.limit == 0 || e.executions < e.limit {
		e.executions++
		u := e.execute(false)
		if u.violation != "" {
			e.violation = u.violation
			e.trace = e.execute(true).log
			return true
		}
		if !e.next() {
			return false
		}
	}
	return false
}

// next sets the trail to the next execution.
func (e *explorer) next() bool {
	for n := len(e.trail); n > 0; n = len(e.trail) {
		last := &e.trail[n-1]
		if last.taken++; last.taken < len(last.moves) {
			return true
		}
		e.trail = e.trail[:n-1]
	}
	return false
}

// execute follows the trail, and beyond it goes on without deviation.
func (e *explorer) execute(tracing bool) *universe {
	u := newUniverse(e.sc, e.from.clone(), e.sc.commands)
	defer u.close()
	u.tracing = tracing
	left, depth := e.sc.budget, 0
	for f := u.turn(); f != nil && u.violation == ""; f = u.turn() {
		e.steps++
		moves := e.moves(u, f, left)
		m := moveOn
		switch {
		case depth < len(e.trail) && len(moves) > 1:
			m = e.trail[depth].moves[e.trail[depth].taken]
			depth++
		case depth == len(e.trail) && !tracing:
			if e.seen(u, left) {
				return u
			}
			if len(moves) > 1 {
				e.trail = append(e.trail, choice{moves: moves})
				depth++
			}
		}
		u.take(f, m, &left)
		if !tracing && depth == len(e.trail) || tracing && u.violation == "" {
			e.fresh(u, tracing)
		}
	}
	return u
}

// seen reports whether what follows was explored already.
func (e *explorer) seen(u *universe, left budget) bool {
	sum := mix(u.sum() ^ left.sum())
	if _, ok := e.visited[sum]; ok {
		return true
	}
	e.visited[sum] = struct{}{}
	return false
}

// fresh checks a lasting state that is new.
func (e *explorer) fresh(u *universe, again bool) {
	sum := u.lasting.sum()
	if _, ok := e.checked[sum]; ok && !again || u.violation != "" {
		return
	}
	e.checked[sum] = struct{}{}
	u.checkFresh()
}

// moves lists what may happen at a step, the undisturbed one first.
func (e *explorer) moves(u *universe, f *fiber, left budget) []move {
	moves := []move{moveOn}
	if e.sc.only != nil && !e.sc.only(f) {
		return moves
	}
	if left.pauses > 0 && len(u.order) > 1 {
		moves = append(moves, movePause)
	}
	if left.crashes > 0 {
		moves = append(moves, moveCrash)
	}
	if left.holds > 0 && f.rank < heldBack && f.p.others(f) {
		moves = append(moves, moveHold)
	}
	if left.faults > 0 && (f.what == "put" || f.what == "delete" || f.what == "file" && e.sc.shared) {
		moves = append(moves, moveFailBefore, moveFailAfter)
	}
	return moves
}

// take makes a move.
func (u *universe) take(f *fiber, m move, left *budget) {
	switch m {
	case moveOn:
		u.perform(f)
	case movePause:
		left.pauses--
		u.pause(f.p)
	case moveCrash:
		left.crashes--
		u.crash(f.p)
	case moveHold:
		left.holds--
		u.holdBack(f)
	case moveFailBefore, moveFailAfter:
		left.faults--
		f.fault = failBefore
		if m == moveFailAfter {
			f.fault = failAfter
		}
		u.perform(f)
	}
}

// report is a violation with what led to it.
func (e *explorer) report() string {
	return e.violation + "\n\t" + strings.Join(e.trace, "\n\t")
}
