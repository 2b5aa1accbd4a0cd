package stream

// Connected are two streams of different types that one function takes
// together: see KeyedBroadcastProcess and BroadcastProcess.
type Connected[A, B Connectable] struct {
	first  A
	second B
}

// Connectable is a Stream or a Keyed.
type Connectable interface{ of() *Job }

func (s Stream[T]) of() *Job   { return s.job }
func (s Keyed[K, T]) of() *Job { return s.stream.job }

// Connect puts two streams together for one function. Between their records
// there is no order. The function's event time is the lower one of the two: a
// stream that brings no watermarks, and is not idle, holds it back.
func Connect[A, B Connectable](first A, second B) Connected[A, B] {
	a, b := first.of(), second.of()
	at := site()
	a.refuseZero(at)
	b.refuseZero(at)
	if a != b {
		a.failf(at, "Connect of streams of two jobs")
	}
	return Connected[A, B]{first, second}
}
