package hybrid

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/connector"
)

// reader runs the reader of the source that its enumerator has told it to read.
type reader[T any] struct {
	source *Source[T]
	ctx    connector.ReaderContext

	member  int // -1 before it was told
	inner   reading[T]
	ended   bool            // inner has, and the enumerator knows
	waiting map[int][]Split // splits of sources that were not begun
	noMore  bool            // told before the last source was begun
	paused  map[string]bool // splits by their full id, of those that wait
	names   names
	taken   taken
}

func (r *reader[T]) Start() error { return nil }

func (r *reader[T]) AddSplits(splits []Split) error {
	var own []Split
	for _, s := range splits {
		switch {
		case s.Member == r.member:
			own = append(own, s)
		case s.Member > r.source.last():
			return errFewer(s.Member, len(r.source.members))
		case s.Member < r.member:
			return fmt.Errorf("hybrid source: split %s came when source %d was read", s.SplitID(), r.member+1)
		default:
			r.waiting[s.Member] = append(r.waiting[s.Member], s)
		}
	}
	if len(own) == 0 {
		return nil
	}
	return r.fail(r.inner.addSplits(own))
}

func (r *reader[T]) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("hybrid source: source %d of %d: %w", r.member+1, len(r.source.members), err)
}

func (r *reader[T]) HandleEvent(event any) error {
	switch ev := event.(type) {
	case hello:
		r.ctx.SendEvent(ready{r.lowest()})
	case begin:
		return r.begin(ev)
	case noMore:
		if ev.member == r.member {
			return r.fail(r.inner.NoMoreSplits())
		}
	case custom:
		if ev.member == r.member {
			return r.fail(r.inner.HandleEvent(ev.event))
		}
	default:
		return fmt.Errorf("hybrid source: event %T of the enumerator is none of its own", event)
	}
	return nil
}

// lowest is the first source of which splits wait.
func (r *reader[T]) lowest() int {
	lowest := len(r.source.members)
	for m := range r.waiting {
		lowest = min(lowest, m)
	}
	return lowest
}

// begin ends the reader of the source before and makes that of the next.
func (r *reader[T]) begin(b begin) error {
	if err := r.closeInner(); err != nil {
		return r.fail(err)
	}
	r.member, r.ended, r.taken, r.names = b.member, false, taken{}, names{member: b.member}
	src, err := r.source.members[b.member].open(b.position)
	if err != nil {
		return r.fail(err)
	}
	if r.inner, err = src.reader(readerContext{r.ctx, b.member}, b.member); err != nil {
		return r.fail(err)
	}
	if err := r.inner.Start(); err != nil {
		return r.fail(err)
	}
	return r.resume()
}

// resume gives the new reader what waits for it.
func (r *reader[T]) resume() error {
	splits := r.waiting[r.member]
	delete(r.waiting, r.member)
	var pause []string
	for _, s := range splits {
		if id := s.SplitID(); r.paused[id] {
			pause = append(pause, s.ID)
			delete(r.paused, id)
		}
	}
	if len(splits) > 0 {
		if err := r.inner.addSplits(splits); err != nil {
			return r.fail(err)
		}
	}
	if len(pause) > 0 {
		if err := r.inner.PauseSplits(pause, nil); err != nil {
			return r.fail(err)
		}
	}
	if r.noMore && r.member == r.source.last() {
		return r.fail(r.inner.NoMoreSplits())
	}
	return nil
}

func (r *reader[T]) NoMoreSplits() error {
	r.noMore = true
	if r.member == r.source.last() {
		return r.fail(r.inner.NoMoreSplits())
	}
	return nil
}

func (r *reader[T]) Poll(out *connector.Output[T]) (connector.Status, error) {
	if r.inner == nil || r.ended {
		return connector.Nothing, nil
	}
	status, err := r.inner.Poll(out)
	if err != nil {
		return status, r.fail(err)
	}
	r.names.rename(out)
	if status == connector.End && r.member < r.source.last() {
		r.ended = true
		r.ctx.SendEvent(over{r.member, r.lowest()})
		return connector.Nothing, nil
	}
	return status, nil
}

func (r *reader[T]) Snapshot(checkpoint int64) ([]Split, error) {
	var splits []Split
	if r.inner != nil {
		var err error
		if splits, err = r.inner.snapshot(checkpoint); err != nil {
			return nil, r.fail(err)
		}
		r.taken.note(checkpoint)
	}
	for m := range r.source.members {
		splits = append(splits, r.waiting[m]...)
	}
	return splits, nil
}

func (r *reader[T]) CheckpointComplete(checkpoint int64) error {
	if r.inner == nil || !r.taken.covers(checkpoint) {
		return nil
	}
	return r.fail(r.inner.CheckpointComplete(checkpoint))
}

func (r *reader[T]) PauseSplits(pause, resume []string) error {
	ownPause, ownResume := r.names.own(pause), r.names.own(resume)
	if r.inner != nil && len(ownPause)+len(ownResume) > 0 {
		if err := r.inner.PauseSplits(ownPause, ownResume); err != nil {
			return err
		}
	}
	for _, splits := range r.waiting {
		for _, s := range splits {
			switch id := s.SplitID(); {
			case slices.Contains(resume, id):
				delete(r.paused, id)
			case slices.Contains(pause, id):
				r.paused[id] = true
			}
		}
	}
	return nil
}

func (r *reader[T]) closeInner() error {
	if r.inner == nil {
		return nil
	}
	inner := r.inner
	r.inner = nil
	return inner.Close()
}

func (r *reader[T]) Close() error { return r.closeInner() }

// names turns a member's own ids of splits into full ones and back.
type names struct {
	member int
	known  map[string]string
}

func (n *names) full(id string) string {
	if f, ok := n.known[id]; ok {
		return f
	}
	if n.known == nil {
		n.known = map[string]string{}
	}
	f := full(n.member, id)
	n.known[id] = f
	return f
}

// rename gives the splits of a poll their full ids.
func (n *names) rename(out interface {
	SplitID() string
	SetSplit(id string)
	OpenedSplits() []string
	FinishedSplits() []string
}) {
	if id := out.SplitID(); id != "" {
		out.SetSplit(n.full(id))
	}
	opened, finished := out.OpenedSplits(), out.FinishedSplits()
	for i, id := range opened {
		opened[i] = n.full(id)
	}
	for i, id := range finished {
		finished[i] = n.full(id)
		delete(n.known, id)
	}
}

// own returns the member's own ids of those among ids that are its.
func (n *names) own(ids []string) []string {
	prefix := full(n.member, "")
	var own []string
	for _, id := range ids {
		if len(id) > len(prefix) && id[:len(prefix)] == prefix {
			own = append(own, id[len(prefix):])
		}
	}
	return slices.Clip(own)
}
