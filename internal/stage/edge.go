package stage

import (
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/keygroup"
)

// EdgeBody makes the writers of an edge between stages.
type EdgeBody interface {
	// NewWriter makes the writer of one producing subtask; targets are the
	// channels to all consuming subtasks. maxParallelism is the consumer's.
	NewWriter(p graph.Partition, targets []Channel, subtask, maxParallelism int) (Writer, error)
}

// Writer distributes the records of one subtask over the channels of an edge.
type Writer interface {
	// Receiver is what the producing operator is connected to.
	Receiver() any
	// HasRoom reports whether every channel has room for a batch.
	HasRoom() bool
	// Flush pushes partly filled batches.
	Flush()
	// Control flushes, then pushes the element into every channel.
	Control(Element)
}

// channels is the part that all writers share.
type channels []Channel

func (c channels) HasRoom() bool {
	for _, ch := range c {
		if !ch.HasRoom() {
			return false
		}
	}
	return true
}

func (c channels) control(e Element) {
	for _, ch := range c {
		ch.Push(e)
	}
}

// HashEdge sends all records of a key to one subtask.
type HashEdge[K comparable, T any] struct {
	Key func(T) K
}

// NewWriter implements EdgeBody.
func (e HashEdge[K, T]) NewWriter(_ graph.Partition, targets []Channel, _, maxParallelism int) (Writer, error) {
	h, err := keygroup.NewHasher[K]()
	if err != nil {
		return nil, err
	}
	return &hashWriter[K, T]{
		channels: targets, key: e.Key, hasher: h,
		table: keygroup.Table(len(targets), maxParallelism), groups: maxParallelism,
		open: make([]*KeyedRows[K, T], len(targets)), free: &freeList[KeyedRows[K, T]]{pointers: hasPointers[T]() || hasPointers[K]()},
		limit: BatchLimit[T](),
	}, nil
}

type hashWriter[K comparable, T any] struct {
	channels
	key    func(T) K
	hasher keygroup.Hasher[K]
	table  []uint16 // key group -> target
	groups int
	open   []*KeyedRows[K, T]
	free   *freeList[KeyedRows[K, T]]
	limit  int
	keys   []K
	hashes []uint32
	group  []uint16
}

func (w *hashWriter[K, T]) Receiver() any { return w }

// Receive implements Receiver.
func (w *hashWriter[K, T]) Receive(b *Rows[T]) error {
	n := len(b.Vals)
	if cap(w.keys) < n {
		w.keys, w.hashes, w.group = make([]K, n), make([]uint32, n), make([]uint16, n)
	}
	keys, hashes, group := w.keys[:n], w.hashes[:n], w.group[:n]
	for i := range b.Vals {
		keys[i] = w.key(b.Vals[i])
	}
	w.hasher.HashAll(keys, hashes)
	keygroup.Groups(hashes, w.groups, group)
	times, table := b.Times[:n], w.table
	for i, h := range hashes {
		t := int(table[group[i]])
		o := w.open[t]
		if o == nil {
			o = w.begin(t)
		}
		o.Vals = append(o.Vals, b.Vals[i])
		o.Times = append(o.Times, times[i])
		o.Keys = append(o.Keys, keys[i])
		o.Hashes = append(o.Hashes, h)
		if len(o.Vals) == w.limit {
			w.push(t)
		}
	}
	if w.free.pointers {
		clear(keys)
	}
	return nil
}

func (w *hashWriter[K, T]) begin(t int) *KeyedRows[K, T] {
	o := w.free.take()
	if o == nil {
		o = &KeyedRows[K, T]{home: w.free, Keys: make([]K, 0, w.limit), Hashes: make([]uint32, 0, w.limit)}
		o.Vals, o.Times = make([]T, 0, w.limit), make([]int64, 0, w.limit)
	}
	w.open[t] = o
	return o
}

func (w *hashWriter[K, T]) push(t int) {
	o := w.open[t]
	w.open[t] = nil
	w.channels[t].Push(Element{Kind: Data, Batch: o})
}

func (w *hashWriter[K, T]) Flush() {
	for t, o := range w.open {
		if o != nil {
			w.push(t)
		}
	}
}

func (w *hashWriter[K, T]) Control(e Element) {
	w.Flush()
	w.control(e)
}

// SpreadEdge sends batches without looking at the records: to the subtask of
// the same index (forward), to each in turn (rebalance) or to all (broadcast).
type SpreadEdge[T any] struct{}

// NewWriter implements EdgeBody.
func (SpreadEdge[T]) NewWriter(p graph.Partition, targets []Channel, subtask, _ int) (Writer, error) {
	return &spreadWriter[T]{
		channels: targets, partition: p, next: subtask % len(targets),
		free: &freeList[Rows[T]]{pointers: hasPointers[T]()}, limit: BatchLimit[T](),
	}, nil
}

type spreadWriter[T any] struct {
	channels
	partition graph.Partition
	next      int
	open      *Rows[T]
	free      *freeList[Rows[T]]
	limit     int
}

func (w *spreadWriter[T]) Receiver() any { return w }

// Receive implements Receiver.
func (w *spreadWriter[T]) Receive(b *Rows[T]) error {
	vals, times := b.Vals, b.Times
	for len(vals) > 0 {
		if w.open == nil {
			w.open = w.take()
		}
		n := min(len(vals), w.limit-len(w.open.Vals))
		w.open.Vals = append(w.open.Vals, vals[:n]...)
		w.open.Times = append(w.open.Times, times[:n]...)
		vals, times = vals[n:], times[n:]
		if len(w.open.Vals) == w.limit {
			w.Flush()
		}
	}
	return nil
}

func (w *spreadWriter[T]) take() *Rows[T] {
	if o := w.free.take(); o != nil {
		return o
	}
	return &Rows[T]{home: w.free, Vals: make([]T, 0, w.limit), Times: make([]int64, 0, w.limit)}
}

func (w *spreadWriter[T]) Flush() {
	o := w.open
	if o == nil {
		return
	}
	w.open = nil
	if w.partition == graph.Broadcast {
		for _, ch := range w.channels[1:] {
			c := w.take()
			c.Vals, c.Times = append(c.Vals, o.Vals...), append(c.Times, o.Times...)
			ch.Push(Element{Kind: Data, Batch: c})
		}
		w.channels[0].Push(Element{Kind: Data, Batch: o})
		return
	}
	w.channels[w.next].Push(Element{Kind: Data, Batch: o})
	if w.partition == graph.Rebalance {
		w.next = (w.next + 1) % len(w.channels)
	}
}

func (w *spreadWriter[T]) Control(e Element) {
	w.Flush()
	w.control(e)
}
