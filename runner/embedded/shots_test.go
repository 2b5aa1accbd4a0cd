package embedded_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// shots is a source whose splits hold one record each, their own number. Each
// of its methods calls at with its name.
type shots struct {
	at func(string)
	// first are assigned as soon as the readers are there; further ones by
	// assign.
	first []int
	// last tells that none is assigned later.
	last bool

	mu  sync.Mutex
	ctx connector.EnumeratorContext[shot]
	now *shotEnumerator
}

type shot struct {
	N    int
	Read bool
}

func (s shot) SplitID() string { return strconv.Itoa(s.N) }

func (s *shots) Bounded() bool                       { return true }
func (s *shots) SplitCodec() codec.Codec[shot]       { return codec.JSON[shot]() }
func (s *shots) EnumeratorCodec() codec.Codec[[]int] { return codec.JSON[[]int]() }

func (s *shots) NewEnumerator(ctx connector.EnumeratorContext[shot], restored *[]int) (connector.Enumerator[shot, []int], error) {
	s.at("NewEnumerator")
	e := &shotEnumerator{source: s, ctx: ctx, waiting: slices.Clone(s.first)}
	if restored != nil {
		e.waiting = *restored
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.now = ctx, e
	return e, nil
}

func (s *shots) NewReader(ctx connector.ReaderContext) (connector.Reader[string, shot], error) {
	s.at("NewReader")
	return &shotReader{source: s}, nil
}

// assign makes the enumerator assign one more split, to subtask 0.
func (s *shots) assign(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.now
	s.ctx.RunInCoordinator(func() error {
		e.waiting = append(e.waiting, n)
		return e.AddReader(0)
	})
}

// shotEnumerator keeps the splits not assigned.
type shotEnumerator struct {
	source  *shots
	ctx     connector.EnumeratorContext[shot]
	waiting []int
}

func (e *shotEnumerator) Start() error {
	e.source.at("Start")
	e.ctx.CallAsync(
		func(context.Context) (any, error) { e.source.at("call"); return nil, nil },
		func(any, error) error { e.source.at("handle"); return nil }, 0, time.Millisecond)
	return nil
}

func (e *shotEnumerator) AddReader(subtask int) error {
	e.source.at("AddReader")
	var rest []int
	for _, n := range e.waiting {
		if n%e.ctx.Parallelism() != subtask {
			rest = append(rest, n)
			continue
		}
		if err := e.ctx.Assign(subtask, shot{N: n}); err != nil {
			return err
		}
	}
	e.waiting = rest
	if e.source.last {
		return e.ctx.NoMoreSplits(subtask)
	}
	return nil
}

func (e *shotEnumerator) HandleSplitRequest(int, string) error { return nil }
func (e *shotEnumerator) AddSplitsBack([]shot, int) error      { return nil }
func (e *shotEnumerator) HandleSourceEvent(int, any) error     { return nil }

func (e *shotEnumerator) Snapshot(int64) ([]int, error) {
	e.source.at("EnumeratorSnapshot")
	return append([]int{}, e.waiting...), nil
}

func (e *shotEnumerator) CheckpointComplete(int64) error {
	e.source.at("EnumeratorComplete")
	return nil
}

func (e *shotEnumerator) Close() error {
	e.source.at("EnumeratorClose")
	return nil
}

type shotReader struct {
	source *shots
	splits []shot
	noMore bool
}

func (r *shotReader) Start() error                    { return nil }
func (r *shotReader) AddSplits(s []shot) error        { r.splits = append(r.splits, s...); return nil }
func (r *shotReader) NoMoreSplits() error             { r.noMore = true; return nil }
func (r *shotReader) HandleEvent(any) error           { return nil }
func (r *shotReader) PauseSplits(_, _ []string) error { return nil }
func (r *shotReader) Close() error                    { r.source.at("ReaderClose"); return nil }

func (r *shotReader) Poll(out *connector.Output[string]) (connector.Status, error) {
	r.source.at("Poll")
	for i := range r.splits {
		if s := &r.splits[i]; !s.Read {
			s.Read = true
			out.SetSplit(s.SplitID())
			out.Emit("v" + strconv.Itoa(s.N))
			out.FinishSplit(s.SplitID())
			return connector.More, nil
		}
	}
	if r.noMore {
		return connector.End, nil
	}
	return connector.Nothing, nil
}

func (r *shotReader) Snapshot(int64) ([]shot, error) {
	r.source.at("ReaderSnapshot")
	return slices.Clone(r.splits), nil
}

func (r *shotReader) CheckpointComplete(int64) error {
	r.source.at("ReaderComplete")
	return nil
}
