package embedded

import (
	"sync"
	"sync/atomic"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/stage"
)

// gate lets one barrier at a time pass from the enumerators to the sources.
// What an enumerator assigns between its snapshot and the barrier waits until
// the barrier has passed; a second barrier that came between would find that
// assignment in neither part of its snapshot, or in both.
type gate struct {
	mu    sync.Mutex
	busy  bool
	queue []func()
}

// enter runs pass, at once or when those before have left.
func (g *gate) enter(pass func()) {
	g.mu.Lock()
	g.queue = append(g.queue, pass)
	busy := g.busy
	g.busy = true
	g.mu.Unlock()
	if !busy {
		g.leave()
	}
}

// leave lets the next one in.
func (g *gate) leave() {
	g.mu.Lock()
	if len(g.queue) == 0 {
		g.busy = false
		g.mu.Unlock()
		return
	}
	next := g.queue[0]
	g.queue = g.queue[1:]
	g.mu.Unlock()
	next()
}

type enumeratorReport func(op string, state []byte, f codec.Format, err error)

// Trigger implements coord.Host: enumerators first, then the barrier, then
// what enumerators sent meanwhile.
func (a *attempt) Trigger(b *stage.Barrier, report func(op string, state []byte, f codec.Format, err error)) {
	a.gate.enter(func() { a.pass(b, report) })
}

// Drain implements coord.Host: behind the barriers that wait for enumerators.
func (a *attempt) Drain() {
	a.gate.enter(func() {
		for _, ts := range a.wiring.Load().sources {
			for _, t := range ts {
				t.PostDrain()
			}
		}
		a.gate.leave()
	})
}

func (a *attempt) pass(b *stage.Barrier, report enumeratorReport) {
	left := after(len(a.enumerators), a.gate.leave)
	barrier := after(len(a.enumerators), func() {
		a.sendBarrier(b)
		for _, e := range a.enumerators {
			e.release(left)
		}
	})
	if len(a.enumerators) == 0 {
		a.sendBarrier(b)
		a.gate.leave()
		return
	}
	for id, e := range a.enumerators {
		e.snapshot(b.ID, func(state []byte, err error) {
			report(id, state, e.body.EnumeratorFormat(), err)
			barrier()
		})
	}
}

func (a *attempt) sendBarrier(b *stage.Barrier) {
	for _, ts := range a.wiring.Load().sources {
		for _, t := range ts {
			t.PostTrigger(b)
		}
	}
}

// after returns a function whose n-th call runs f. It may be called from any
// goroutine.
func after(n int, f func()) func() {
	var calls atomic.Int64
	return func() {
		if calls.Add(1) == int64(n) {
			f()
		}
	}
}
