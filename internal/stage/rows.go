package stage

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"
)

// batchBytes bounds the size of a batch; batchMin and batchMax its records.
const (
	batchBytes = 64 << 10
	batchMin   = 256
	batchMax   = 1024
)

// BatchLimit is how many records a full batch of T holds.
func BatchLimit[T any]() int {
	var t T
	n := batchBytes / max(int(unsafe.Sizeof(t)), 1)
	return min(max(n, batchMin), batchMax)
}

// Rows is a batch of records with their event times in ms. Between chained
// operators a batch is valid during the call that hands it on; the callee
// neither changes nor keeps it.
type Rows[T any] struct {
	Vals  []T
	Times []int64

	home *freeList[Rows[T]]
}

// Receiver takes the batches of an operator's input.
type Receiver[T any] interface {
	Receive(b *Rows[T]) error
}

// KeyedRows is a batch on a keyed edge: with the key of each record and its
// hash, computed once.
type KeyedRows[K comparable, T any] struct {
	Rows[T]
	Keys   []K
	Hashes []uint32

	home *freeList[KeyedRows[K, T]]
}

// KeyedReceiver takes the batches of a keyed input.
type KeyedReceiver[K comparable, T any] interface {
	ReceiveKeyed(b *KeyedRows[K, T]) error
}

// Len is the number of records.
func (b *Rows[T]) Len() int { return len(b.Vals) }

// DeliverTo implements Batch.
func (b *Rows[T]) DeliverTo(receiver any) error {
	r, ok := receiver.(Receiver[T])
	if !ok {
		return fmt.Errorf("batch of %T cannot be delivered to %T", b.Vals, receiver)
	}
	return r.Receive(b)
}

// Recycle implements Batch.
func (b *Rows[T]) Recycle() {
	if b.home.pointers {
		clear(b.Vals) // release what records point to
	}
	b.Vals, b.Times = b.Vals[:0], b.Times[:0]
	b.home.put(b)
}

// DeliverTo implements Batch.
func (b *KeyedRows[K, T]) DeliverTo(receiver any) error {
	r, ok := receiver.(KeyedReceiver[K, T])
	if !ok {
		return fmt.Errorf("keyed batch of %T by %T cannot be delivered to %T", b.Vals, b.Keys, receiver)
	}
	return r.ReceiveKeyed(b)
}

// Recycle implements Batch.
func (b *KeyedRows[K, T]) Recycle() {
	if b.home.pointers {
		clear(b.Vals)
		clear(b.Keys)
	}
	b.Vals, b.Times = b.Vals[:0], b.Times[:0]
	b.Keys, b.Hashes = b.Keys[:0], b.Hashes[:0]
	b.home.put(b)
}

// freeList keeps the batches of one edge for reuse. Batches are taken by the
// producer and put back by consumers.
type freeList[B any] struct {
	mu   sync.Mutex
	free []*B
	// pointers tells that records or keys hold pointers, which an unused
	// batch must not keep alive.
	pointers bool
}

// hasPointers reports whether a T holds a pointer.
func hasPointers[T any]() bool {
	return pointersIn(reflect.TypeFor[T]())
}

func pointersIn(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return t.Len() > 0 && pointersIn(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if pointersIn(t.Field(i).Type) {
				return true
			}
		}
		return false
	default:
		return t.Kind() > reflect.Complex128
	}
}

// freeMax bounds what a list keeps after a burst.
const freeMax = 256

func (l *freeList[B]) take() *B {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.free)
	if n == 0 {
		return nil
	}
	b := l.free[n-1]
	l.free = l.free[:n-1]
	return b
}

func (l *freeList[B]) put(b *B) {
	l.mu.Lock()
	if len(l.free) < freeMax {
		l.free = append(l.free, b)
	}
	l.mu.Unlock()
}

// Emitter collects the records an operator emits into batches and hands them
// to its receivers. The zero value is not usable: see NewEmitter.
type Emitter[T any] struct {
	rows  Rows[T]
	limit int
	to    []Receiver[T]
	out   *atomic.Int64
	err   error

	pointers bool
}

// NewEmitter makes an emitter.
func NewEmitter[T any]() *Emitter[T] {
	n := BatchLimit[T]()
	return &Emitter[T]{limit: n, pointers: hasPointers[T](), rows: Rows[T]{Vals: make([]T, 0, n), Times: make([]int64, 0, n)}}
}

// Connect adds a receiver; it must be a Receiver[T].
func (e *Emitter[T]) Connect(receiver any) error {
	r, ok := receiver.(Receiver[T])
	if !ok {
		var t T
		return fmt.Errorf("output of %T cannot be connected to %T", t, receiver)
	}
	e.to = append(e.to, r)
	return nil
}

// CountInto makes the emitter count what it emits.
func (e *Emitter[T]) CountInto(n *atomic.Int64) { e.out = n }

// Connected reports whether anybody receives what is emitted.
func (e *Emitter[T]) Connected() bool { return len(e.to) > 0 }

// Emit appends a record. The error of a receiver, met when the batch was
// full, is kept for Flush or Err.
func (e *Emitter[T]) Emit(v T, time int64) {
	e.rows.Vals = append(e.rows.Vals, v)
	e.rows.Times = append(e.rows.Times, time)
	if len(e.rows.Vals) >= e.limit {
		e.pass()
	}
}

// Err returns the first error of a receiver.
func (e *Emitter[T]) Err() error { return e.err }

// Flush hands on what was collected.
func (e *Emitter[T]) Flush() error {
	if len(e.rows.Vals) > 0 {
		e.pass()
	}
	return e.err
}

// Pass hands on a batch as it is, after what was collected.
func (e *Emitter[T]) Pass(b *Rows[T]) error {
	if err := e.Flush(); err != nil || len(b.Vals) == 0 {
		return err
	}
	e.deliver(b)
	return e.err
}

func (e *Emitter[T]) pass() {
	e.deliver(&e.rows)
	if e.pointers {
		clear(e.rows.Vals)
	}
	e.rows.Vals, e.rows.Times = e.rows.Vals[:0], e.rows.Times[:0]
}

func (e *Emitter[T]) deliver(b *Rows[T]) {
	if e.err != nil {
		return
	}
	if e.out != nil {
		e.out.Add(int64(len(b.Vals)))
	}
	for _, r := range e.to {
		if err := r.Receive(b); err != nil {
			e.err = err
			return
		}
	}
}
