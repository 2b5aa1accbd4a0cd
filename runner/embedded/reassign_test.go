package embedded_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// ramps is a source of splits of rampLength records each, whose enumerator
// deals all of them out anew after a restore: the same number to each reader.
type ramps struct {
	splits int
	// stop is where readers stop in each split.
	stop    int
	stopped chan struct{} // closed when all have

	mu   sync.Mutex
	at   int
	back []int         // the former subtasks whose splits came back
	had  map[int][]int // the splits that came to each reader in this attempt
}

const rampLength = 10

type ramp struct{ N, Next int }

func (r ramp) SplitID() string { return strconv.Itoa(r.N) }

func (s *ramps) Bounded() bool                       { return true }
func (s *ramps) ReassignSplits() bool                { return true }
func (s *ramps) SplitCodec() codec.Codec[ramp]       { return codec.JSON[ramp]() }
func (s *ramps) EnumeratorCodec() codec.Codec[[]int] { return codec.JSON[[]int]() }

func (s *ramps) NewEnumerator(ctx connector.EnumeratorContext[ramp], restored *[]int) (connector.Enumerator[ramp, []int], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back = nil
	e := &rampEnumerator{source: s, ctx: ctx}
	if restored == nil {
		for n := range s.splits {
			e.waiting = append(e.waiting, ramp{N: n})
		}
	}
	return e, nil
}

func (s *ramps) NewReader(ctx connector.ReaderContext) (connector.Reader[string, ramp], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.had == nil {
		s.had = map[int][]int{}
	}
	s.had[ctx.Subtask()] = nil // also that of a reader that gets none
	return &rampReader{source: s, subtask: ctx.Subtask()}, nil
}

func (s *ramps) records() (all []string) {
	for n := range s.splits {
		for i := range rampLength {
			all = append(all, fmt.Sprint(n, "-", i))
		}
	}
	return all
}

type rampEnumerator struct {
	source  *ramps
	ctx     connector.EnumeratorContext[ramp]
	waiting []ramp
	served  bool
}

func (e *rampEnumerator) AddSplitsBack(splits []ramp, subtask int) error {
	e.source.mu.Lock()
	defer e.source.mu.Unlock()
	e.source.back = append(e.source.back, subtask)
	if e.served {
		return fmt.Errorf("splits came back to an enumerator that has readers")
	}
	e.waiting = append(e.waiting, splits...)
	return nil
}

func (e *rampEnumerator) AddReader(subtask int) error {
	e.served = true
	var mine []ramp
	for _, r := range e.waiting {
		if r.N%e.ctx.Parallelism() == subtask {
			mine = append(mine, r)
		}
	}
	if err := e.ctx.Assign(subtask, mine...); err != nil {
		return err
	}
	return e.ctx.NoMoreSplits(subtask)
}

func (e *rampEnumerator) Start() error                         { return nil }
func (e *rampEnumerator) HandleSplitRequest(int, string) error { return nil }
func (e *rampEnumerator) HandleSourceEvent(int, any) error     { return nil }
func (e *rampEnumerator) Snapshot(int64) ([]int, error)        { return []int{}, nil } // all are assigned
func (e *rampEnumerator) CheckpointComplete(int64) error       { return nil }
func (e *rampEnumerator) Close() error                         { return nil }

type rampReader struct {
	source  *ramps
	subtask int
	splits  []ramp
	noMore  bool
}

func (r *rampReader) AddSplits(splits []ramp) error {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	for _, s := range splits {
		r.source.had[r.subtask] = append(r.source.had[r.subtask], s.N)
	}
	r.splits = append(r.splits, splits...)
	return nil
}

func (r *rampReader) Poll(out *connector.Output[string]) (connector.Status, error) {
	stop := r.source.stop
	for i := range r.splits {
		s := &r.splits[i]
		if s.Next >= stop {
			continue
		}
		out.SetSplit(s.SplitID())
		out.Emit(fmt.Sprint(s.N, "-", s.Next))
		s.Next++
		if s.Next == stop {
			r.source.reached()
		}
		if s.Next == rampLength {
			out.FinishSplit(s.SplitID())
		}
		return connector.More, nil
	}
	if r.noMore && stop == rampLength {
		return connector.End, nil
	}
	return connector.Nothing, nil
}

func (s *ramps) reached() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at++; s.at == s.splits && s.stopped != nil {
		close(s.stopped)
	}
}

func (r *rampReader) Start() error                    { return nil }
func (r *rampReader) NoMoreSplits() error             { r.noMore = true; return nil }
func (r *rampReader) HandleEvent(any) error           { return nil }
func (r *rampReader) CheckpointComplete(int64) error  { return nil }
func (r *rampReader) PauseSplits(_, _ []string) error { return nil }
func (r *rampReader) Close() error                    { return nil }
func (r *rampReader) Snapshot(int64) ([]ramp, error)  { return slices.Clone(r.splits), nil }

// Splits that are half read when the job stops are dealt out anew, evenly, and
// read on from where they were.
func TestReassignOnRecovery(t *testing.T) {
	for _, tc := range []struct {
		from, to int
		want     map[int][]int
	}{
		{2, 2, map[int][]int{0: {0, 2, 4, 6}, 1: {1, 3, 5, 7}}},
		{2, 4, map[int][]int{0: {0, 4}, 1: {1, 5}, 2: {2, 6}, 3: {3, 7}}},
		{4, 2, map[int][]int{0: {0, 2, 4, 6}, 1: {1, 3, 5, 7}}},
		{3, 1, map[int][]int{0: {0, 1, 2, 3, 4, 5, 6, 7}}},
		{1, 3, map[int][]int{0: {0, 3, 6}, 1: {1, 4, 7}, 2: {2, 5}}},
	} {
		t.Run(fmt.Sprintf("%d to %d", tc.from, tc.to), func(t *testing.T) {
			dir, out := t.TempDir(), collect.NewExactlyOnce[string]()
			src := &ramps{splits: 8, stop: rampLength / 2, stopped: make(chan struct{})}
			build := func(j *stream.Job) {
				stream.To(stream.From[string, ramp, []int](j, "in", src), "out", out)
			}
			r := launch(t, dir, embedded.Options{Parallelism: tc.from}, build)
			select {
			case <-src.stopped:
			case <-r.ctx.Done():
				t.Fatal("the splits are not read")
			}
			r.checkpoint()
			r.kill()
			src.stop, src.had = rampLength, nil
			launch(t, dir, embedded.Options{Parallelism: tc.to}, build).end()
			want(t, "records", out.Values(), src.records()...)
			if len(src.back) != tc.from {
				t.Errorf("splits came back from the readers %v, want each of %d once", src.back, tc.from)
			}
			for _, splits := range src.had {
				slices.Sort(splits)
			}
			if fmt.Sprint(src.had) != fmt.Sprint(tc.want) {
				t.Errorf("the readers had splits %v, want %v", src.had, tc.want)
			}
		})
	}
}

// F01 for a source that deals its splits out anew: with and without a
// checkpoint before the failure, and failing again after the restore.
func TestF01ReassignedSplits(t *testing.T) {
	all := (&ramps{splits: 4}).records()
	for at := range all {
		every := checkpoint.Options{Interval: ms}
		if at%2 == 0 {
			every.Interval = never
		}
		src, out := &ramps{splits: 4, stop: rampLength}, collect.NewExactlyOnce[string]()
		var failures atomic.Int64
		r := launch(t, t.TempDir(), embedded.Options{
			Parallelism: 2, Restart: checkpoint.FixedDelay{Attempts: 2, Delay: ms}, Checkpoint: every,
		}, func(j *stream.Job) {
			in := stream.From[string, ramp, []int](j, "in", src)
			stream.To(failOnce(failing(in, all[at], &failures), all[len(all)-1-at]), "out", out)
		})
		r.end()
		if n := r.job.Status().Restarts; n == 0 {
			t.Errorf("failing at %s: no restart", all[at])
		}
		want(t, "failing at "+all[at], out.Values(), all...)
	}
}

// failing passes records on and fails the first time that it sees the given one.
func failing(s stream.Stream[string], at string, failures *atomic.Int64) stream.Stream[string] {
	return stream.TryMap(s, func(v string) (string, error) {
		if v == at && failures.Add(1) == 1 {
			return "", fmt.Errorf("failing at %s", at)
		}
		return v, nil
	}, stream.ID("failing"))
}
