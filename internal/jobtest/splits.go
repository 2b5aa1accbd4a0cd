package jobtest

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
)

// Gate holds a split where it stands until it is opened. It outlasts the
// attempts of a job: a gate once open stays open.
type Gate struct {
	reached, opened   chan struct{}
	onReach, onOpened sync.Once
}

// NewGate makes a closed gate.
func NewGate() *Gate {
	return &Gate{reached: make(chan struct{}), opened: make(chan struct{})}
}

// Open lets the split go on.
func (g *Gate) Open() { g.onOpened.Do(func() { close(g.opened) }) }

// Wait blocks until the gate is open.
func (g *Gate) Wait() { <-g.opened }

// Reached is closed once a source has emitted everything before the gate: a
// checkpoint triggered then covers it.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

func (g *Gate) reach() { g.onReach.Do(func() { close(g.reached) }) }

// Hold is a step that waits for a gate. A script that ends in a gate that is
// never opened is one whose input does not end.
func Hold[T any](g *Gate) Item[T] { return Item[T]{gate: g} }

// Splits is a source of several splits, each with a script of its own, dealt
// out to the subtasks in turn. A split that brings nothing for idle (0 for
// never) does not hold back event time.
func Splits[T any](j *stream.Job, id string, idle time.Duration, splits ...[]Item[T]) stream.Stream[T] {
	return read(j, id, idle, splits)
}

func read[T any](j *stream.Job, id string, idle time.Duration, splits [][]Item[T], opts ...stream.Option) stream.Stream[T] {
	s := stream.FromWith(j, id, &scripts[T]{splits}, opts, strategy[T](idle))
	return stream.FlatMap(s, func(i Item[T], emit func(T)) {
		if !i.wm {
			emit(i.V)
		}
	}, append(opts, stream.ID(id+"-records"))...)
}

func strategy[T any](idle time.Duration) watermark.Strategy[Item[T]] {
	s := watermark.Custom(watermark.Punctuated(func(i Item[T], _ time.Time) (time.Time, bool) {
		return time.UnixMilli(i.At), i.wm
	}), nil).WithTimestamps(func(i Item[T], _ int64) int64 { return i.At })
	if idle > 0 {
		s = s.Idle(idle)
	}
	return s
}

// scripts is the source behind Splits.
type scripts[T any] struct{ items [][]Item[T] }

// position is a split: the script and the step that comes next.
type position struct{ Script, Next int }

// SplitID implements connector.Split.
func (p position) SplitID() string { return strconv.Itoa(p.Script) }

func (s *scripts[T]) Bounded() bool                          { return true }
func (s *scripts[T]) SplitCodec() codec.Codec[position]      { return codec.JSON[position]() }
func (s *scripts[T]) EnumeratorCodec() codec.Codec[assigned] { return codec.JSON[assigned]() }

func (s *scripts[T]) NewEnumerator(ctx connector.EnumeratorContext[position], restored *assigned) (connector.Enumerator[position, assigned], error) {
	d := &dealer{ctx: ctx, done: make(assigned, len(s.items))}
	if restored != nil {
		copy(d.done, *restored)
	}
	return d, nil
}

func (s *scripts[T]) NewReader(ctx connector.ReaderContext) (connector.Reader[Item[T], position], error) {
	return &scriptReader[T]{ctx: ctx, items: s.items, stop: make(chan struct{}), watched: map[*Gate]bool{}}, nil
}

// assigned tells for each script whether it was given to a reader.
type assigned []bool

// dealer is the enumerator.
type dealer struct {
	ctx  connector.EnumeratorContext[position]
	done assigned
}

// AddReader gives a reader all of its splits at once: one that came later
// might be behind event time already.
func (d *dealer) AddReader(subtask int) error {
	var mine []position
	for i := subtask; i < len(d.done); i += d.ctx.Parallelism() {
		if !d.done[i] {
			d.done[i] = true
			mine = append(mine, position{Script: i})
		}
	}
	if len(mine) > 0 {
		if err := d.ctx.Assign(subtask, mine...); err != nil {
			return err
		}
	}
	return d.ctx.NoMoreSplits(subtask)
}

func (d *dealer) Start() error                         { return nil }
func (d *dealer) HandleSplitRequest(int, string) error { return nil }
func (d *dealer) AddSplitsBack([]position, int) error  { return nil }
func (d *dealer) HandleSourceEvent(int, any) error     { return nil }
func (d *dealer) Snapshot(int64) (assigned, error)     { return append(assigned(nil), d.done...), nil }
func (d *dealer) CheckpointComplete(int64) error       { return nil }
func (d *dealer) Close() error                         { return nil }

// scriptReader reads the scripts of one subtask, a run of one after the other.
type scriptReader[T any] struct {
	ctx     connector.ReaderContext
	items   [][]Item[T]
	splits  []position
	at      int
	noMore  bool
	stop    chan struct{}
	waiting sync.WaitGroup
	watched map[*Gate]bool
}

func (r *scriptReader[T]) Start() error                   { return nil }
func (r *scriptReader[T]) NoMoreSplits() error            { r.noMore = true; return nil }
func (r *scriptReader[T]) HandleEvent(any) error          { return nil }
func (r *scriptReader[T]) CheckpointComplete(int64) error { return nil }
func (r *scriptReader[T]) PauseSplits(_, _ []string) error {
	return fmt.Errorf("scripts cannot be paused")
}
func (r *scriptReader[T]) AddSplits(splits []position) error {
	r.splits = append(r.splits, splits...)
	return nil
}

func (r *scriptReader[T]) Snapshot(int64) ([]position, error) {
	return append([]position(nil), r.splits...), nil
}

func (r *scriptReader[T]) Close() error {
	close(r.stop)
	r.waiting.Wait()
	return nil
}

func (r *scriptReader[T]) Poll(out *connector.Output[Item[T]]) (connector.Status, error) {
	for range len(r.splits) {
		r.at = (r.at + 1) % len(r.splits)
		s := &r.splits[r.at]
		if s.Next > len(r.items[s.Script]) {
			continue // ended
		}
		out.SetSplit(s.SplitID())
		for s.Next < len(r.items[s.Script]) && out.Room() > 0 && r.emit(s, out) {
		}
		if s.Next == len(r.items[s.Script]) {
			out.FinishSplit(s.SplitID())
			s.Next++
			return connector.More, nil
		}
		if len(out.Vals) > 0 {
			return connector.More, nil
		}
	}
	if r.noMore && r.ended() {
		return connector.End, nil
	}
	return connector.Nothing, nil
}

// emit does the next step of a split and reports false at a closed gate.
func (r *scriptReader[T]) emit(s *position, out *connector.Output[Item[T]]) bool {
	item := r.items[s.Script][s.Next]
	if item.gate == nil {
		out.Emit(item)
		s.Next++
		return true
	}
	select {
	case <-item.gate.opened:
		s.Next++
		return true
	default:
	}
	if len(out.Vals) == 0 {
		item.gate.reach()
		r.watch(item.gate)
	}
	return false
}

// watch wakes the reader when the gate opens.
func (r *scriptReader[T]) watch(g *Gate) {
	if r.watched[g] {
		return
	}
	r.watched[g] = true
	r.waiting.Go(func() {
		select {
		case <-g.opened:
			r.ctx.Wake()
		case <-r.stop:
		}
	})
}

func (r *scriptReader[T]) ended() bool {
	for _, s := range r.splits {
		if s.Next <= len(r.items[s.Script]) {
			return false
		}
	}
	return true
}
