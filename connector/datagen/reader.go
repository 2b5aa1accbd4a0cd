package datagen

import (
	"slices"

	"github.com/weirstream/weir/connector"
)

// reader makes the records of its splits, one batch of one split per poll, in
// turn.
type reader[T any] struct {
	ctx    connector.ReaderContext
	gen    func(int64) T
	millis func(int64) int64
	limit  *limiter
	splits []live
	turn   int
	noMore bool
	// slice is the length of the slice that FromSlice reads, -1 for others:
	// its split ends where the slice does now, and stays when it is read.
	slice int64
	read  []Split
}

type live struct {
	Split
	id     string
	paused bool
}

func (r *reader[T]) Start() error {
	if r.limit != nil {
		r.limit.start()
	}
	return nil
}

func (r *reader[T]) AddSplits(splits []Split) error {
	for _, s := range splits {
		if r.slice >= 0 {
			s.To = max(r.slice, s.Next)
		}
		r.splits = append(r.splits, live{Split: s, id: s.SplitID()})
	}
	return nil
}

func (r *reader[T]) NoMoreSplits() error {
	r.noMore = true
	return nil
}

func (r *reader[T]) Poll(out *connector.Output[T]) (connector.Status, error) {
	s := r.next(out)
	if s == nil {
		if r.noMore && len(r.splits) == 0 {
			return connector.End, nil
		}
		return connector.Nothing, nil
	}
	k := min(int64(out.Room()), s.left())
	if r.limit != nil {
		if k = r.limit.take(k); k == 0 {
			r.turn-- // it is still this split's turn
			return connector.Nothing, nil
		}
	}
	out.SetSplit(s.id)
	r.fill(out, s.Next, s.Step, int(k))
	s.advance(k)
	return connector.More, nil
}

// next returns the split whose turn it is, nil if none may emit. Exhausted
// splits go.
func (r *reader[T]) next(out *connector.Output[T]) *live {
	r.splits = slices.DeleteFunc(r.splits, func(s live) bool {
		if s.left() > 0 {
			return false
		}
		out.FinishSplit(s.id)
		if r.slice >= 0 {
			r.read = append(r.read, s.Split)
		}
		return true
	})
	for range r.splits {
		r.turn = (r.turn + 1) % len(r.splits)
		if s := &r.splits[r.turn]; !s.paused {
			return s
		}
	}
	return nil
}

// fill appends k records from index i on.
func (r *reader[T]) fill(out *connector.Output[T], i, step int64, k int) {
	out.Vals = slices.Grow(out.Vals, k)
	vals := out.Vals[len(out.Vals) : len(out.Vals)+k]
	out.Times = slices.Grow(out.Times, k)
	times := out.Times[len(out.Times) : len(out.Times)+k]

	gen := r.gen
	at := i
	for j := range vals {
		vals[j] = gen(at)
		at += step
	}
	if r.millis == nil {
		for j := range times {
			times[j] = connector.NoTimestamp
		}
	} else {
		at = i
		for j := range times {
			times[j] = r.millis(at)
			at += step
		}
	}
	out.Vals = out.Vals[:len(out.Vals)+k]
	out.Times = out.Times[:len(out.Times)+k]
}

func (r *reader[T]) Snapshot(int64) ([]Split, error) {
	splits := append(make([]Split, 0, len(r.splits)), r.read...)
	for _, s := range r.splits {
		if s.left() > 0 || r.slice >= 0 {
			splits = append(splits, s.Split)
		}
	}
	return splits, nil
}

func (r *reader[T]) PauseSplits(pause, resume []string) error {
	for i := range r.splits {
		s := &r.splits[i]
		if slices.Contains(pause, s.id) {
			s.paused = true
		}
		if slices.Contains(resume, s.id) {
			s.paused = false
		}
	}
	if len(resume) > 0 {
		r.ctx.Wake()
	}
	return nil
}

func (r *reader[T]) HandleEvent(any) error          { return nil }
func (r *reader[T]) CheckpointComplete(int64) error { return nil }

func (r *reader[T]) Close() error {
	if r.limit != nil {
		r.limit.stop()
	}
	return nil
}
