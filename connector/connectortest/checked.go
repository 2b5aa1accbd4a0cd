package connectortest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/weirstream/weir/connector"
)

// checked is a run of which every step is checked. Its methods end the test
// where the run fails.
type checked[T any, S connector.Split, E any] struct {
	*SourceRun[T, S, E]
	t       *testing.T
	suite   SourceSuite[T, S, E]
	ctx     context.Context
	cancel  context.CancelFunc
	watched []*watched[T] // by subtask
	closed  bool
}

// watched is what a reader has been told and what it has told.
type watched[T any] struct {
	splits []string // it has and has not finished
	paused map[string]bool
	noMore bool
	ended  bool
	times  *tracker[T] // nil without times
}

func (s SourceSuite[T, S, E]) start(t *testing.T, parallelism int, from *SourceSnapshot, batch int) *checked[T, S, E] {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	r := &checked[T, S, E]{t: t, suite: s, ctx: ctx, cancel: cancel}
	for range parallelism {
		r.watched = append(r.watched, r.watch())
	}
	r.SourceRun = newSourceRun(s.New(), &Context{Ctx: ctx})
	r.Batch, r.observer = batch, r
	t.Cleanup(r.close)
	if err := r.SourceRun.start(parallelism, from); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *checked[T, S, E]) watch() *watched[T] {
	w := &watched[T]{paused: map[string]bool{}}
	if r.suite.Time != nil {
		w.times = newTracker(r.suite.Time)
	}
	return w
}

func (r *checked[T, S, E]) close() {
	if r.closed {
		return
	}
	r.closed = true
	if err := r.SourceRun.Close(); err != nil {
		r.t.Errorf("closing: %v", err)
	}
	r.cancel()
}

func (r *checked[T, S, E]) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("with %d records emitted: %v", len(r.records), err)
	}
}

// until runs until n records have been emitted, or all there are.
func (r *checked[T, S, E]) until(n int) {
	r.t.Helper()
	r.must(r.Until(r.ctx, func() bool { return len(r.records) >= n || r.Ended() }))
}

func (r *checked[T, S, E]) toEnd() {
	r.t.Helper()
	r.must(r.Run(r.ctx))
}

// spin polls for a while without waiting for anything.
func (r *checked[T, S, E]) spin() {
	r.t.Helper()
	for range 20 {
		_, err := r.Step()
		r.must(err)
		runtime.Gosched()
	}
}

// splits are the splits that a reader has not finished.
func (r *checked[T, S, E]) splits(subtask int) []string {
	return slices.Clone(r.watched[subtask].splits)
}

func (r *checked[T, S, E]) Pause(subtask int, pause, resume []string) {
	r.t.Helper()
	for _, id := range pause {
		r.watched[subtask].paused[id] = true
	}
	for _, id := range resume {
		delete(r.watched[subtask].paused, id)
	}
	r.must(r.SourceRun.Pause(subtask, pause, resume))
}

func (r *checked[T, S, E]) FailReader(subtask int) {
	r.t.Helper()
	r.watched[subtask] = r.watch()
	r.must(r.SourceRun.FailReader(subtask))
}

func (r *checked[T, S, E]) Complete(id int64) {
	r.t.Helper()
	r.must(r.SourceRun.Complete(id))
}

// Snapshot takes a snapshot, whose splits must be different ones, and stay what
// they are when they are stored.
func (r *checked[T, S, E]) Snapshot(id int64) *SourceSnapshot {
	r.t.Helper()
	snap, err := r.SourceRun.Snapshot(id)
	r.must(err)
	codec := r.source.SplitCodec()
	var ids []string
	for _, b := range snap.Splits {
		s, err := codec.Decode(b)
		r.must(err)
		again, err := codec.Append(nil, s)
		r.must(err)
		if !bytes.Equal(b, again) {
			r.t.Fatalf("split %s is stored as %x, and, restored and stored again, as %x", s.SplitID(), b, again)
		}
		if slices.Contains(ids, s.SplitID()) {
			r.t.Fatalf("two splits %s in a snapshot", s.SplitID())
		}
		ids = append(ids, s.SplitID())
	}
	return snap
}

func (r *checked[T, S, E]) added(subtask int, ids []string) {
	w := r.watched[subtask]
	for i, other := range r.watched {
		for _, id := range ids {
			if slices.Contains(other.splits, id) {
				r.t.Fatalf("split %s was assigned to reader %d, and reader %d has it", id, subtask, i)
			}
		}
	}
	w.splits = append(w.splits, ids...)
	if w.times != nil {
		w.times.added(ids)
	}
}

func (r *checked[T, S, E]) noMore(subtask int) { r.watched[subtask].noMore = true }

func (r *checked[T, S, E]) polled(subtask int, out *connector.Output[T], status connector.Status) error {
	w := r.watched[subtask]
	r.added(subtask, out.OpenedSplits())
	split := out.SplitID()
	switch {
	case len(out.Vals) == 0:
	case split == "":
		return fmt.Errorf("reader %d did not say of which split its records are", subtask)
	case !slices.Contains(w.splits, split):
		return fmt.Errorf("reader %d emits records of split %s, which it does not have, or has finished", subtask, split)
	case w.paused[split]:
		return fmt.Errorf("reader %d emits records of split %s, which is paused", subtask, split)
	}
	if w.times != nil && len(out.Vals) > 0 {
		if err := w.times.emitted(split, out); err != nil {
			return err
		}
	}
	for _, id := range out.FinishedSplits() {
		at := slices.Index(w.splits, id)
		if at < 0 {
			return fmt.Errorf("reader %d finishes split %s, which it does not have, or has finished before", subtask, id)
		}
		w.splits = slices.Delete(w.splits, at, at+1)
		if w.times != nil {
			w.times.finished(id)
		}
	}
	if status != connector.End {
		return nil
	}
	w.ended = true
	switch {
	case !w.noMore:
		return fmt.Errorf("reader %d ended without having been told that no more splits come", subtask)
	case len(w.splits) > 0:
		return fmt.Errorf("reader %d ended and did not finish the splits %q", subtask, w.splits)
	}
	return nil
}

// wantFinished checks that all readers have ended.
func (r *checked[T, S, E]) wantFinished() {
	r.t.Helper()
	for i, w := range r.watched {
		if !w.ended {
			r.t.Fatalf("reader %d has not ended", i)
		}
	}
}
