package stage

import "sync/atomic"

// Waker wakes the one goroutine of a stage. A stage sleeps in three steps:
// Doze, look once more for work, then wait for C.
type Waker struct {
	// C receives at least one value after a Wake that follows Doze.
	C      chan struct{}
	asleep atomic.Bool
}

// NewWaker makes a waker.
func NewWaker() *Waker { return &Waker{C: make(chan struct{}, 1)} }

// Wake may be called from any goroutine and never blocks.
func (w *Waker) Wake() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		select {
		case w.C <- struct{}{}:
		default:
		}
	}
}

// Doze announces that the stage is about to wait.
func (w *Waker) Doze() { w.asleep.Store(true) }

// Rouse takes Doze back; a value may be left in C, which is a spurious wake-up.
func (w *Waker) Rouse() { w.asleep.Store(false) }
