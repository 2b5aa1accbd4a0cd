package checkpoint

import (
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
)

// universe is a job's surroundings and the processes in them. Everything runs
// on the goroutine that calls resume: a fiber is a coroutine, which hands back
// before each step, so that the order of steps is the caller's to choose.
type universe struct {
	*lasting
	sc  *scenario
	off switches

	// order are the processes that have not ended, first the one whose turn it
	// is.
	order   []*proc
	current *fiber
	// reports counts the savepoints that users were told are done.
	reports int
	// violation is the first rule seen broken.
	violation string
	// tracing has steps written to log.
	tracing bool
	log     []string
	// lose decides, in random walks, whether a notice is lost.
	lose func() bool
}

func newUniverse(sc *scenario, l *lasting, commands []command) *universe {
	u := &universe{lasting: l, sc: sc, off: sc.off}
	for i, c := range commands {
		u.order = append(u.order, newProcess(u, i+1, c))
	}
	return u
}

func (u *universe) say(format string, args ...any) {
	if u.tracing {
		u.log = append(u.log, fmt.Sprintf(format, args...))
	}
}

func (u *universe) violated(format string, args ...any) {
	if u.violation == "" {
		u.violation = fmt.Sprintf(format, args...)
		u.say("VIOLATION: %s", u.violation)
	}
}

// close lets all fibers go.
func (u *universe) close() {
	for _, p := range u.order {
		p.kill()
	}
	u.order = nil
}

// fault is what becomes of a step, beside that it happens.
type fault int

const (
	noFault fault = iota
	failBefore
	failAfter // it happened, and the answer was lost
)

// fiber is a thread of control of a process.
type fiber struct {
	p    *proc
	name string
	// rank orders the fibers of a process; one that is held back comes last.
	rank int
	next func() (struct{}, bool)
	stop func()
	// yield hands control back.
	yield func(struct{}) bool
	// waits, if set, tells when there is something to do; else a step is next,
	// what it does and on what.
	waits      func() bool
	what, path string
	fault      fault
	done, dead bool
}

// heldBack is added to the rank of a fiber.
const heldBack = 100

func (p *proc) spawn(name string, rank int, run func()) {
	f := &fiber{p: p, name: name, rank: rank, waits: func() bool { return true }}
	f.next, f.stop = iter.Pull(func(yield func(struct{}) bool) {
		f.yield, f.waits = yield, nil
		run()
		f.done = true
	})
	p.fibers = append(p.fibers, f)
}

func (f *fiber) handBack() {
	if !f.dead && !f.yield(struct{}{}) {
		f.dead = true
	}
}

// wait hands back until there is something to do; false if the fiber is dead.
func (f *fiber) wait(until func() bool) bool {
	if until() && !f.dead {
		return true
	}
	f.waits = until
	f.handBack()
	f.waits = nil
	return !f.dead
}

func (f *fiber) ready() bool { return !f.done && (f.waits == nil || f.waits()) }

// kill lets the fiber's functions return, with errors, and do nothing more.
func (f *fiber) kill() {
	before := f.p.u.current
	f.p.u.current, f.dead = f, true
	f.stop()
	f.p.u.current, f.done = before, true
}

// resume runs a fiber up to its next step.
func (u *universe) resume(f *fiber) {
	f.p.history = mix(f.p.history ^ hashOf(f.name))
	u.current = f
	f.next()
	u.current = nil
	if f.done {
		f.p.fibers = slices.DeleteFunc(f.p.fibers, func(g *fiber) bool { return g == f })
	}
}

// step hands back before an operation that others can see, or whose result
// others change.
func (u *universe) step(what, path string) error {
	f := u.current
	if f.dead {
		return errKilled
	}
	f.what, f.path = what, path
	f.handBack()
	if f.dead {
		return errKilled
	}
	if u.tracing {
		u.say("%d %-8s %s %s%s", f.p.number, f.name, what, path, [...]string{"", " FAILS", " LOSES ITS ANSWER"}[f.fault])
	}
	return nil
}

// change is a step that can fail, before or after the change.
func (u *universe) change(what, path string, do func() error) error {
	if err := u.step(what, path); err != nil {
		return err
	}
	fault := u.current.fault
	u.current.fault = noFault
	if fault == failBefore {
		u.learned("fault")
		return errStorage
	}
	err := do()
	if fault == failAfter {
		err = errStorage
	}
	if err != nil {
		u.learned(err.Error())
	}
	return err
}

// learned adds to what a process knows: two processes that learned the same
// in the same order are in the same state.
func (u *universe) learned(what string) { u.learnedNumber(hashOf(what)) }

func (u *universe) learnedBytes(data []byte) { u.learnedNumber(maphash.Bytes(explorerSeed, data)) }

func (u *universe) learnedNumber(n uint64) {
	p := u.current.p
	p.history = mix(p.history ^ n)
}

// sum tells states of the universe apart: what is stored, what each process
// has gone through, and whose turn it is.
func (u *universe) sum() uint64 {
	sum := u.lasting.sum()
	for i, p := range u.order {
		sum = mix(sum + mix(uint64(i)<<8^uint64(p.number)) ^ p.history)
		for _, f := range p.fibers {
			if f.rank >= heldBack {
				sum = mix(sum ^ hashOf(f.name) + uint64(f.rank))
			}
		}
		if p.at != nil {
			sum = mix(sum ^ hashOf(p.at.name))
		}
	}
	return sum
}

// turn returns the fiber whose turn it is, nil if nothing is left to do.
// Fibers that only have to take a message go on at once.
func (u *universe) turn() *fiber {
	for {
		p := u.runnable()
		if p == nil {
			return nil
		}
		f := p.pick()
		switch {
		case f == nil && !p.passTime():
			u.violated("process %d is stuck", p.number)
			return nil
		case f == nil:
		case f.waits == nil:
			return f
		default:
			f.what, f.path = "", ""
			u.resume(f)
			u.forgetEnded()
		}
	}
}

// runnable is the first process that may begin or go on.
func (u *universe) runnable() *proc {
	for _, p := range u.order {
		if p.begun || p.after == nil || p.after(u) {
			p.begin()
			return p
		}
	}
	return nil
}

func (u *universe) forgetEnded() {
	u.order = slices.DeleteFunc(u.order, func(p *proc) bool { return p.ended })
}

// perform lets a fiber do the step it stands before.
func (u *universe) perform(f *fiber) {
	f.p.at = f
	u.resume(f)
	u.forgetEnded()
}

// crash ends a process where it is.
func (u *universe) crash(p *proc) {
	u.say("%d CRASHES before %s", p.number, p.whereabouts())
	p.kill()
	p.ended = true
	u.forgetEnded()
}

// pause has all other processes run first.
func (u *universe) pause(p *proc) {
	u.say("%d pauses before %s", p.number, p.whereabouts())
	u.order = append(slices.DeleteFunc(u.order, func(q *proc) bool { return q == p }), p)
}

// holdBack has the fiber run only when all others of the process wait.
func (u *universe) holdBack(f *fiber) {
	f.p.holds++
	f.rank += heldBack * f.p.holds
	u.say("%d holds back %s before %s %s", f.p.number, f.name, f.what, f.path)
}

func (p *proc) whereabouts() string {
	var at []string
	for _, f := range p.fibers {
		if f.waits == nil && !f.done {
			at = append(at, fmt.Sprintf("%s: %s %s", f.name, f.what, f.path))
		}
	}
	return strings.Join(at, "; ")
}

// pick returns the fiber of a process that goes on: the one that is under
// way, else the first by rank that can.
func (p *proc) pick() *fiber {
	if f := p.at; f != nil && f.rank < heldBack && f.ready() && f.waits == nil {
		return f
	}
	var best *fiber
	for _, f := range p.fibers {
		if (best == nil || f.rank < best.rank) && f.ready() {
			best = f
		}
	}
	return best
}

// others reports whether a process has something else to do than f.
func (p *proc) others(f *fiber) bool {
	return slices.ContainsFunc(p.fibers, func(g *fiber) bool { return g != f && g.rank < f.rank+heldBack && g.ready() })
}
