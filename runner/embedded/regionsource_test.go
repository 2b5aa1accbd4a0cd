package embedded_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// hands is a source whose enumerator hands out splits one by one to readers that
// ask, and ends with an error if it is not in order what comes back.
type hands struct {
	splits, length int
	reassign       bool
	// hold, if not nil, tells which records are not read yet.
	hold func(split, n int) bool

	mu      sync.Mutex
	readers map[int]int // made, by subtask
	back    []string    // "split from subtask", without an order of splits
}

// hand is a split: its number and the record that comes next.
type hand struct{ N, Next int }

func (h hand) SplitID() string { return strconv.Itoa(h.N) }

func (s *hands) Bounded() bool                       { return true }
func (s *hands) ReassignSplits() bool                { return s.reassign }
func (s *hands) SplitCodec() codec.Codec[hand]       { return codec.JSON[hand]() }
func (s *hands) EnumeratorCodec() codec.Codec[[]int] { return codec.JSON[[]int]() }

func (s *hands) NewEnumerator(ctx connector.EnumeratorContext[hand], restored *[]int) (connector.Enumerator[hand, []int], error) {
	e := &handsEnumerator{source: s, ctx: ctx, of: map[int]int{}}
	for n := range s.splits {
		if restored == nil || slices.Contains(*restored, n) {
			e.waiting = append(e.waiting, hand{N: n})
		} else {
			e.of[n] = -1 // a reader's, of the snapshot
		}
	}
	return e, nil
}

func (s *hands) NewReader(ctx connector.ReaderContext) (connector.Reader[string, hand], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers == nil {
		s.readers = map[int]int{}
	}
	s.readers[ctx.Subtask()]++
	return &handsReader{source: s, ctx: ctx}, nil
}

func (s *hands) records() (all []string) {
	for n := range s.splits {
		for i := range s.length {
			all = append(all, fmt.Sprint(n, "-", i))
		}
	}
	return all
}

type handsEnumerator struct {
	connector.Enumerator[hand, []int]
	source  *hands
	ctx     connector.EnumeratorContext[hand]
	waiting []hand
	of      map[int]int // who has a split
}

func (e *handsEnumerator) AddSplitsBack(splits []hand, subtask int) error {
	e.source.mu.Lock()
	defer e.source.mu.Unlock()
	for _, h := range splits {
		if who, ok := e.of[h.N]; !ok || who != subtask && who != -1 {
			return fmt.Errorf("split %d comes back from %d, the readers have %v", h.N, subtask, e.of)
		}
		if !e.source.reassign && h.Next != 0 {
			return fmt.Errorf("split %d, which comes back, was assigned at record %d", h.N, h.Next)
		}
		delete(e.of, h.N)
		e.waiting = append(e.waiting, h)
		e.source.back = append(e.source.back, fmt.Sprintf("%d from %d", h.N, subtask))
	}
	return nil
}

func (e *handsEnumerator) HandleSplitRequest(subtask int, _ string) error {
	if len(e.waiting) == 0 {
		return e.ctx.NoMoreSplits(subtask)
	}
	h := e.waiting[0]
	e.waiting = e.waiting[1:]
	e.of[h.N] = subtask
	return e.ctx.Assign(subtask, h)
}

func (e *handsEnumerator) Snapshot(int64) ([]int, error) {
	state := []int{}
	for _, h := range e.waiting {
		state = append(state, h.N)
	}
	return state, nil
}

func (e *handsEnumerator) Start() error                   { return nil }
func (e *handsEnumerator) AddReader(int) error            { return nil }
func (e *handsEnumerator) CheckpointComplete(int64) error { return nil }
func (e *handsEnumerator) Close() error                   { return nil }

type handsReader struct {
	source *hands
	ctx    connector.ReaderContext
	splits []hand
	noMore bool
}

func (r *handsReader) Start() error { r.ctx.RequestSplit(); return nil }

func (r *handsReader) AddSplits(splits []hand) error {
	r.splits = append(r.splits, splits...)
	return nil
}

func (r *handsReader) Poll(out *connector.Output[string]) (connector.Status, error) {
	if len(r.splits) == 0 {
		if r.noMore {
			return connector.End, nil
		}
		return connector.Nothing, nil
	}
	at := slices.IndexFunc(r.splits, func(h hand) bool {
		return r.source.hold == nil || !r.source.hold(h.N, h.Next)
	})
	if at < 0 {
		return connector.Nothing, nil // looked at again at the next tick of watermarks
	}
	h := &r.splits[at]
	out.SetSplit(h.SplitID())
	if h.Next < r.source.length {
		out.Emit(fmt.Sprint(h.N, "-", h.Next))
		h.Next++
	}
	if h.Next >= r.source.length {
		out.FinishSplit(h.SplitID())
		r.splits = slices.Delete(r.splits, at, at+1)
		r.ctx.RequestSplit()
	}
	return connector.More, nil
}

func (r *handsReader) NoMoreSplits() error             { r.noMore = true; return nil }
func (r *handsReader) HandleEvent(any) error           { return nil }
func (r *handsReader) CheckpointComplete(int64) error  { return nil }
func (r *handsReader) PauseSplits(_, _ []string) error { return nil }
func (r *handsReader) Close() error                    { return nil }
func (r *handsReader) Snapshot(int64) ([]hand, error)  { return slices.Clone(r.splits), nil }
