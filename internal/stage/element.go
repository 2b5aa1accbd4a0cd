// Package stage is the one seam between a host and a job's operators: a
// single goroutine that owns a chain of operators, their state and timers.
// In come batches, watermarks, barriers and notices; out go the same, and
// the parts of a snapshot. Operators never know which host they run in.
package stage

import "github.com/weirstream/weir/internal/snapshot"

// Kind is the kind of an element.
type Kind uint8

const (
	// Data carries a batch.
	Data Kind = iota
	// Watermark says that no record at or before Time is to come.
	Watermark
	// Idle says that the channel does not hold back event time until Active.
	Idle
	// Active ends Idle.
	Active
	// Mark carries a barrier.
	Mark
	// End says that no data, watermark or status follows. Barriers still do:
	// a subtask whose input has ended takes part in checkpoints until the job ends.
	End
)

// Element is what travels through a channel, in order.
type Element struct {
	Kind    Kind
	Time    int64
	Batch   Batch
	Barrier *Barrier
}

// Barrier separates what belongs to a snapshot from what does not. It is
// never changed once made.
type Barrier struct {
	// ID is the id of the checkpoint or savepoint.
	ID   int64
	Kind snapshot.Kind
	// Native asks for a savepoint in the backend's own files, where it has such.
	Native bool
	// Stop makes sources emit nothing after the barrier.
	Stop bool
	// AtLeastOnce makes a subtask with several channels go on reading those
	// whose barrier has come.
	AtLeastOnce bool
	// Triggered is when the coordinator sent it, in ms since the epoch.
	Triggered int64
}

// Batch is the untyped face of a batch.
type Batch interface {
	Len() int
	// DeliverTo hands the batch to a typed receiver of the consumer.
	DeliverTo(receiver any) error
	// Recycle gives the batch back to the edge it came from. The caller may
	// not use it afterwards.
	Recycle()
}

// TaskID names a subtask of a stage.
type TaskID struct {
	// Stage is the id of the stage's first operator.
	Stage   string `json:"stage"`
	Subtask int    `json:"subtask"`
}

// Channel is the producer's end of a queue from one upstream subtask to one
// downstream subtask.
type Channel interface {
	// Push appends an element. It never blocks: beyond the bound it is an
	// overdraft, which HasRoom tells.
	Push(Element)
	HasRoom() bool
}

// Input is the consumer's end.
type Input interface {
	// Poll takes the next element, if there is one.
	Poll() (Element, bool)
}
