// Package splitreader is the kit for sources whose client blocks. The author
// writes a SplitReader, which fetches on a goroutine of its own; Reader makes a
// connector.Reader of one, or of as many as a Model asks for: hand-over of whole
// batches through a bounded queue, state of the splits, pausing, end of input,
// clean closing. StatefulReader is for splits that have more than a position.
package splitreader

import (
	"context"
	"time"

	"github.com/weirstream/weir/connector"
)

// Split is a split that knows its position.
type Split[S any] interface {
	connector.Split
	// At returns the split as it is when it is read up to position, which is
	// the End (or one of the Ends) of a batch of it; epoch is the batch's.
	At(position, epoch int64) S
}

// SplitReader fetches the records of splits. Its methods are called on one
// goroutine, the fetcher's. A panic in one of them fails the reader.
type SplitReader[T any, S connector.Split] interface {
	// Fetch waits for records of one split and puts them into the batch, which
	// is empty. It returns early, with the batch still empty, if ctx ends:
	// that is how it is told that splits were added, paused or resumed. It is
	// called only while there are splits that have not finished.
	Fetch(ctx context.Context, into *Batch[T]) error
	// HandleSplits adds splits. It must not block.
	HandleSplits(added []S) error
	// Close releases everything. It is called once, also after an error.
	Close() error
}

// Pauser is a SplitReader that can stop fetching some of its splits. With one
// that cannot, paused splits hold up the others of the same fetcher once as many
// of their batches wait as the queue holds. Nothing is fetched while all splits
// of a fetcher are paused.
type Pauser interface {
	// PauseSplits stops and resumes fetching of splits by id, which may have
	// finished. It must not block.
	PauseSplits(pause, resume []string)
}

// Batch is what one fetch brought of one split.
type Batch[T any] struct {
	// Split is the split's id, "" if the fetch brought nothing.
	Split string
	// Vals and Times are the records and their source timestamps in
	// milliseconds (connector.NoTimestamp for none), of equal length, possibly
	// empty.
	Vals  []T
	Times []int64
	// Ends are the split's positions behind each record, in the order of Vals.
	// Records with equal ends are not cut apart. Without Ends the batch is not
	// cut at all.
	Ends []int64
	// End is the split's position behind the batch.
	End int64
	// Epoch goes with the positions, for splits that need a second number, as
	// Kafka's leader epoch.
	Epoch int64
	// Finished says that the split ends with this batch.
	Finished bool

	emitted int
}

// Append adds a record that ends at position end.
func (b *Batch[T]) Append(v T, millis, end int64) {
	b.Vals = append(b.Vals, v)
	b.Times = append(b.Times, millis)
	b.Ends = append(b.Ends, end)
}

// maxKept is how many records of room an empty batch keeps.
const maxKept = 16 << 10

// reset empties the batch and lets go of its values, also of those that were
// there when it was exchanged for an emptied one.
func (b *Batch[T]) reset() {
	if cap(b.Vals) > maxKept {
		*b = Batch[T]{}
		return
	}
	clear(b.Vals[:cap(b.Vals)])
	*b = Batch[T]{Vals: b.Vals[:0], Times: b.Times[:0], Ends: b.Ends[:0]}
}

// cut returns how many records go with the next emission, given room.
func (b *Batch[T]) cut(room int) int {
	n := len(b.Vals)
	if len(b.Ends) == 0 || n-b.emitted <= room {
		return n
	}
	at := b.emitted + max(room, 1)
	for at < n && b.Ends[at] == b.Ends[at-1] {
		at++
	}
	return at
}

type options struct {
	capacity     int
	closeTimeout time.Duration
	onFinished   func(id string)
}

// Option changes a Reader.
type Option func(*options)

// OnFinished calls f for each split that has been emitted to its end, in the
// poll that did so and on its goroutine: sources that hand out split by split
// ask for the next one there.
func OnFinished(f func(id string)) Option {
	return func(o *options) { o.onFinished = f }
}

// Capacity is how many fetched batches may wait to be emitted, of all fetchers
// together. Default 2.
func Capacity(batches int) Option {
	return func(o *options) { o.capacity = max(1, batches) }
}

// CloseTimeout is how long Close waits for fetches to return. Default 30 s.
func CloseTimeout(d time.Duration) Option {
	return func(o *options) { o.closeTimeout = d }
}
