package connectortest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/connector"
)

// SourceSuite describes a source to TestSource: a bounded one over an input
// that stays the same.
type SourceSuite[T any, S connector.Split, E any] struct {
	// New makes the source. It is called for every attempt, and each must read
	// the same.
	New func() connector.Source[T, S, E]
	// Want are all the records, in any order. Some twenty, of three or more
	// splits, find most faults; the splits should be of different lengths.
	Want []T
	// Key tells records apart. Default fmt.Sprintf("%v").
	Key func(T) string
	// Time is a record's event time in milliseconds, which grows along each
	// split. Without it watermarks are not tested.
	Time func(T) int64
	// Points is at how many places, at most, a run is broken off, spread over
	// its length. Default 25, and at least one.
	Points int
	// Timeout ends a run that hangs. Default 60 s.
	Timeout time.Duration
	// Linger is how long goroutines may still run when a run is over. A server
	// of the test may see only at the end of a long poll that its client is gone.
	// Default 5 s.
	Linger time.Duration
}

// TestSource is the acceptance suite of sources: whoever passes it keeps what
// package connector asks of enumerators and readers, as far as it can be seen
// from outside.
//
//   - Complete: each record once, at any parallelism and batch size, each
//     reader ends, and only when it may.
//   - Resume, Rescale: a snapshot at any record, restored any number of times,
//     at any parallelism, goes on behind it, each split in order.
//   - Reassign: of a reader that fails alone, nothing is lost or read twice.
//   - Pause: paused splits emit nothing, and all of it later, at any parallelism,
//     beside splits that run, and also if a snapshot was taken and restored
//     meanwhile.
//   - Watermark: no split is overtaken by the event time of another, and none
//     holds it when it has finished.
//   - Leak: no goroutine stays, wherever a run is broken off.
func TestSource[T any, S connector.Split, E any](t *testing.T, s SourceSuite[T, S, E]) {
	if s.Key == nil {
		s.Key = func(v T) string { return fmt.Sprintf("%v", v) }
	}
	if s.Points == 0 {
		s.Points = 25
	}
	if s.Timeout == 0 {
		s.Timeout = time.Minute
	}
	if s.Linger == 0 {
		s.Linger = 5 * time.Second
	}
	if !s.New().Bounded() {
		t.Fatal("the source is not bounded: the suite would wait for its end")
	}
	for _, part := range []struct {
		name string
		test func(*testing.T, SourceSuite[T, S, E])
	}{
		{"Complete", testComplete[T, S, E]},
		{"Resume", testResume[T, S, E]},
		{"Rescale", testRescale[T, S, E]},
		{"Reassign", testReassign[T, S, E]},
		{"Pause", testPause[T, S, E]},
		{"Watermark", testWatermark[T, S, E]},
		{"Leak", testLeak[T, S, E]},
	} {
		t.Run(part.name, func(t *testing.T) {
			defer s.wantNoLeak(t, goleak.IgnoreCurrent())
			tested := s
			if part.name != "Watermark" {
				tested.Time = nil // one thing at a time
			}
			part.test(t, tested)
		})
	}
}

func testComplete[T any, S connector.Split, E any](t *testing.T, s SourceSuite[T, S, E]) {
	for _, parallelism := range []int{1, 2, 3, 8} {
		for _, batch := range []int{1, 3, 1024} {
			r := s.start(t, parallelism, nil, batch)
			r.toEnd()
			r.wantAll(r.records, fmt.Sprintf("parallelism %d, batches of %d", parallelism, batch))
			r.wantFinished()
			snap := r.Snapshot(1)
			r.close()
			again := s.start(t, parallelism, snap, batch)
			again.toEnd()
			if n := len(again.records); n > 0 {
				t.Fatalf("restored behind its end the source emits %d records", n)
			}
			again.close()
		}
	}
}

func testResume[T any, S connector.Split, E any](t *testing.T, s SourceSuite[T, S, E]) {
	order := s.reference(t, 1)
	for _, n := range s.points() {
		first := s.start(t, 1, nil, 1)
		first.until(n)
		before, snap := first.records, first.Snapshot(1)
		first.until(min(n+2, len(s.Want))) // what comes behind the snapshot is void
		first.close()
		for range 2 { // restored twice, the same
			second := s.start(t, 1, snap, 3)
			second.toEnd()
			second.wantOrder(join(before, second.records), order, fmt.Sprintf("resumed at record %d", n))
			second.close()
		}
	}
}

func testRescale[T any, S connector.Split, E any](t *testing.T, s SourceSuite[T, S, E]) {
	for _, parallelism := range [][3]int{{1, 3, 2}, {3, 1, 4}, {2, 5, 1}} {
		order := s.reference(t, parallelism[0])
		for _, n := range s.points() {
			var before []Emitted[T]
			var snap *SourceSnapshot
			for i, at := range []int{n / 2, n} { // a snapshot of what was restored
				r := s.start(t, parallelism[i], snap, 2)
				r.until(at - len(before))
				before, snap = join(before, r.records), r.Snapshot(int64(i+1))
				r.close()
			}
			last := s.start(t, parallelism[2], snap, 1024)
			last.toEnd()
			last.wantOrder(join(before, last.records), order, fmt.Sprintf("parallelism %v, resumed at record %d", parallelism, n))
			last.wantFinished()
			last.close()
		}
	}
}

func testReassign[T any, S connector.Split, E any](t *testing.T, s SourceSuite[T, S, E]) {
	order := s.reference(t, 2)
	for _, n := range s.points() {
		for _, how := range []string{"before any checkpoint", "after a checkpoint", "during a checkpoint", "both, one after the other"} {
			r := s.start(t, 2, nil, 1)
			r.until(n / 2)
			if how != "before any checkpoint" {
				r.Snapshot(1)
			}
			if how == "after a checkpoint" || how == "both, one after the other" {
				r.Complete(1)
			}
			r.until(n)
			r.FailReader(n % 2)
			if how == "both, one after the other" {
				r.until(min(n+2, len(s.Want)))
				r.Snapshot(2)
				r.Complete(2)
				r.FailReader(1 - n%2)
			}
			r.toEnd()
			r.wantOrder(r.records, order, fmt.Sprintf("a reader failed at record %d, %s", n, how))
			r.close()
		}
	}
}

func testPause[T any, S connector.Split, E any](t *testing.T, s SourceSuite[T, S, E]) {
	order := s.reference(t, 1)
	r := s.start(t, 1, nil, 1)
	for n := 0; n < len(s.Want); n = len(r.records) + 1 {
		r.until(n)
		all := r.splits(0)
		r.Pause(0, all, nil)
		r.spin() // a split that emits now fails the run
		if len(all) > 1 {
			r.Pause(0, nil, all[:1])
			r.spin()
			r.Pause(0, nil, all[1:])
		} else {
			r.Pause(0, nil, all)
		}
	}
	r.toEnd()
	r.wantOrder(r.records, order, "paused at every record")
	r.close()
	for _, parallelism := range []int{1, 3} {
		testPauseOne(t, s, parallelism)
	}
}

// testPauseOne pauses one split of each reader beside others that run, takes a
// snapshot then, and goes on both from there and without a restart.
func testPauseOne[T any, S connector.Split, E any](t *testing.T, s SourceSuite[T, S, E], parallelism int) {
	order := s.reference(t, parallelism)
	for _, n := range s.points() {
		r := s.start(t, parallelism, nil, 2)
		r.until(n)
		paused := make([][]string, parallelism)
		for i := range parallelism {
			paused[i] = r.splits(i)[:min(1, len(r.splits(i)))]
			r.Pause(i, paused[i], nil)
		}
		r.spin()
		before, snap := r.records, r.Snapshot(1)

		restored := s.start(t, 4-parallelism, snap, 3)
		restored.toEnd()
		restored.wantOrder(join(before, restored.records), order, fmt.Sprintf("parallelism %d, resumed at record %d with splits paused", parallelism, n))
		restored.close()

		for i, ids := range paused {
			r.Pause(i, nil, ids)
		}
		r.toEnd()
		r.wantOrder(r.records, order, fmt.Sprintf("parallelism %d, a split of each reader paused at record %d", parallelism, n))
		r.wantFinished()
		r.close()
	}
}

func testLeak[T any, S connector.Split, E any](t *testing.T, s SourceSuite[T, S, E]) {
	ignored := goleak.IgnoreCurrent()
	run := newSourceRun(s.New(), &Context{Ctx: t.Context()})
	defer run.cancel()
	reader, err := run.source.NewReader(readerContext[T, S, E]{run, &sourceReader[T, S]{}, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Errorf("closing a reader that was not started: %v", err)
	}
	for _, n := range []int{0, 1, len(s.Want) / 2} {
		r := s.start(t, 2, nil, 1)
		r.until(n)
		r.close()
		s.wantNoLeak(t, ignored)
	}
}

// wantNoLeak waits until no goroutines are left but the ignored ones.
func (s SourceSuite[T, S, E]) wantNoLeak(t *testing.T, ignored goleak.Option) {
	t.Helper()
	end := time.Now().Add(s.Linger)
	for {
		err := goleak.Find(ignored)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Error(err)
			return
		}
	}
}

// points are the numbers of records at which to break off.
func (s SourceSuite[T, S, E]) points() []int {
	n := len(s.Want)
	step := max(1, (n+s.Points)/s.Points)
	var points []int
	for at := 0; at < n; at += step {
		points = append(points, at)
	}
	return append(points, n)
}

// reference is what each split holds, in order, when nothing happens.
func (s SourceSuite[T, S, E]) reference(t *testing.T, parallelism int) map[string][]string {
	t.Helper()
	r := s.start(t, parallelism, nil, 1024)
	defer r.close()
	r.toEnd()
	return r.bySplit(r.records)
}

func join[T any](a, b []Emitted[T]) []Emitted[T] { return append(slices.Clone(a), b...) }

// bySplit returns the keys of each split's records.
func (r *checked[T, S, E]) bySplit(records []Emitted[T]) map[string][]string {
	order := map[string][]string{}
	for _, e := range records {
		order[e.Split] = append(order[e.Split], r.suite.Key(e.Value))
	}
	return order
}

func (r *checked[T, S, E]) wantAll(records []Emitted[T], when string) {
	r.t.Helper()
	count := map[string]int{}
	for _, v := range r.suite.Want {
		count[r.suite.Key(v)]++
	}
	for _, e := range records {
		count[r.suite.Key(e.Value)]--
	}
	for _, k := range slices.Sorted(maps.Keys(count)) {
		switch n := count[k]; {
		case n > 0:
			r.t.Errorf("%s: record %s is missing %d times", when, k, n)
		case n < 0:
			r.t.Errorf("%s: record %s came %d times too often", when, k, -n)
		}
	}
	if r.t.Failed() {
		r.t.FailNow()
	}
}

func (r *checked[T, S, E]) wantOrder(records []Emitted[T], order map[string][]string, when string) {
	r.t.Helper()
	r.wantAll(records, when)
	got := r.bySplit(records)
	for _, split := range slices.Sorted(maps.Keys(order)) {
		if !slices.Equal(got[split], order[split]) {
			r.t.Fatalf("%s: split %s brought %q, want %q", when, split, got[split], order[split])
		}
	}
}
