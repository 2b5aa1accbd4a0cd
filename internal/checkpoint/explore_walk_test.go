package checkpoint

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

var (
	walks    = flag.Int("explore.walks", 200, "how many random walks the explorer takes")
	walkSeed = flag.Uint64("explore.seed", 1, "seed of the first random walk; the next has the next one")
)

// TestExplorerWalks takes random walks where all interleavings are too many:
// two subtasks, checkpoints that overlap, up to four processes at once, users
// that go back, faults of the storage, notices that come late or not at all.
func TestExplorerWalks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps, n := 0, uint64(*walks)
		if underRace {
			n = min(n, 20)
		}
		for seed := *walkSeed; seed < *walkSeed+n; seed++ {
			w := newWalk(seed)
			steps += w.run()
			if v := w.u.violation; v != "" {
				again := newWalk(seed)
				again.u.tracing = true
				again.run()
				t.Fatalf("-explore.seed %d: %s\n\t%s", seed, v, strings.Join(again.u.log, "\n\t"))
			}
		}
		t.Logf("%d walks, %d steps", n, steps)
	})
}

// walk is a random execution.
type walk struct {
	u   *universe
	rnd *rand.Rand
	at  *proc
}

func newWalk(seed uint64) *walk {
	r := rand.New(rand.NewPCG(seed, 2))
	sc := &scenario{subtasks: 2, records: 6, concurrent: 2 + r.IntN(2), retained: 1 + r.IntN(3), protocol: 1 + r.IntN(2), shared: r.IntN(2) == 0}
	sc.ensureDefaults()
	w := &walk{rnd: r}
	commands := make([]command, 2+r.IntN(3))
	for i := range commands {
		commands[i] = w.command()
	}
	l := newLasting()
	l.brokers.protocol = sc.protocol
	w.u = newUniverse(sc, l, commands)
	w.u.lose = func() bool { return r.IntN(4) == 0 }
	return w
}

func (w *walk) command() command {
	const words = "rrrrrCCCcsw"
	script := make([]byte, w.rnd.IntN(12))
	for i := range script {
		script[i] = words[w.rnd.IntN(len(words))]
	}
	c := command{script: string(script) + [...]string{"", "", "x", "S", "k"}[w.rnd.IntN(5)]}
	switch w.rnd.IntN(12) {
	case 0, 1:
		c.from, c.rewind, c.refusable = fmt.Sprint("/weir/job/chk-", 1+w.rnd.IntN(6)), w.rnd.IntN(3) > 0, true
	case 2:
		c.from, c.rewind, c.refusable = fmt.Sprint("/sp/savepoint-job-", 1+w.rnd.IntN(6)), true, true
	case 3:
		c.fresh, c.refusable = true, true
	}
	return c
}

// run takes steps until nothing is left to do, and returns how many.
func (w *walk) run() (steps int) {
	defer w.u.close()
	for f := w.next(); f != nil && w.u.violation == ""; f = w.next() {
		steps++
		w.take(f)
		if w.u.violation == "" && w.rnd.IntN(40) == 0 {
			w.u.checkFresh()
		}
	}
	if w.u.violation == "" {
		w.u.checkFresh()
	}
	return steps
}

func (w *walk) take(f *fiber) {
	switch n := w.rnd.IntN(400); {
	case n < 2:
		w.u.crash(f.p)
		return
	case n < 6 && f.waits == nil && (f.what == "put" || f.what == "delete"):
		f.fault = failBefore + fault(n%2)
	}
	if f.waits != nil {
		f.what, f.path = "", ""
	}
	w.u.perform(f)
}

// next chooses a process, most often that of the step before, and one of its
// fibers that can go on; time passes only where nothing else happens.
func (w *walk) next() *fiber {
	for {
		if w.at == nil || w.at.ended || w.rnd.IntN(12) == 0 {
			if len(w.u.order) == 0 {
				return nil
			}
			w.at = w.u.order[w.rnd.IntN(len(w.u.order))]
			w.at.begin()
		}
		if f := w.fiber(w.at); f != nil {
			return f
		}
		idle := !slices.ContainsFunc(w.u.order, func(p *proc) bool { return !p.begun || w.fiber(p) != nil })
		if idle && !slices.ContainsFunc(w.u.order, (*proc).passTime) {
			w.u.violated("process %d is stuck", w.at.number)
			return nil
		}
		w.at = nil
	}
}

func (w *walk) fiber(p *proc) *fiber {
	var ready []*fiber
	for _, f := range p.fibers {
		if f.ready() {
			ready = append(ready, f)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	return ready[w.rnd.IntN(len(ready))]
}
