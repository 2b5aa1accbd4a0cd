package datagen

import (
	"context"
	"math"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
)

func identity(i int64) int64 { return i }

func start(t *testing.T, s *Sequence[int64], p int, from *connectortest.SourceSnapshot) *connectortest.SourceRun[int64, Split, Enumeration] {
	t.Helper()
	run, err := connectortest.StartSource(s, p, from, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	return run
}

func upTo(n int64) []int64 {
	vals := make([]int64, n)
	for i := range vals {
		vals[i] = int64(i)
	}
	return vals
}

func sorted(vals []int64) []int64 {
	slices.Sort(vals)
	return vals
}

func TestEveryIndexOnce(t *testing.T) {
	for _, opts := range [][]Option{nil, {Interleaved()}} {
		for _, n := range []int64{0, 1, 2, 3, 1000, 2049} {
			for p := 1; p <= 4; p++ {
				run := start(t, Source(n, identity, opts...), p, nil)
				if err := run.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := sorted(run.Values()); !slices.Equal(got, upTo(n)) {
					t.Errorf("n %d, parallelism %d: got %d values %v", n, p, len(got), got[:min(len(got), 20)])
				}
			}
		}
	}
}

func TestContiguousAndInterleaved(t *testing.T) {
	of := func(subtask int, opts ...Option) (vals []int64) {
		run := start(t, Source(7, identity, opts...), 3, nil)
		if err := run.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, r := range run.Records() {
			if r.Subtask == subtask {
				vals = append(vals, r.Value)
			}
		}
		return vals
	}
	if got, want := of(0), []int64{0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("subtask 0 made %v, want %v", got, want)
	}
	if got, want := of(1), []int64{3, 4}; !slices.Equal(got, want) {
		t.Errorf("subtask 1 made %v, want %v", got, want)
	}
	if got, want := of(0, Interleaved()), []int64{0, 3, 6}; !slices.Equal(got, want) {
		t.Errorf("subtask 0 interleaved made %v, want %v", got, want)
	}
}

func TestResumeAtAnotherParallelism(t *testing.T) {
	src := Source(1000, identity)
	for _, p := range []int{1, 2, 3, 5} {
		first := start(t, src, 3, nil)
		first.Batch = 7
		for range 10 {
			if _, err := first.Step(); err != nil {
				t.Fatal(err)
			}
		}
		snap, err := first.Snapshot(1)
		if err != nil {
			t.Fatal(err)
		}
		before := first.Values()
		if len(before) != 3*10*7 {
			t.Fatalf("%d records before the snapshot, want 210", len(before))
		}
		second := start(t, src, p, snap)
		if err := second.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := sorted(append(before, second.Values()...)); !slices.Equal(got, upTo(1000)) {
			t.Errorf("parallelism %d: %d records in both attempts, want each of 1000 once", p, len(got))
		}
	}
}

func TestRestoredEndHasNothingLeft(t *testing.T) {
	src := Source(10, identity)
	first := start(t, src, 2, nil)
	if err := first.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	snap, err := first.Snapshot(1)
	if err != nil {
		t.Fatal(err)
	}
	second := start(t, src, 3, snap)
	if err := second.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := second.Values(); len(got) != 0 {
		t.Errorf("a finished sequence made %v again", got)
	}
}

func TestTimestamps(t *testing.T) {
	at := func(i int64) time.Time { return time.UnixMilli(100 + i) }
	run := start(t, Source(3, identity, Timestamps(at)), 1, nil)
	if err := run.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, r := range run.Records() {
		if r.Time != 100+int64(i) {
			t.Errorf("record %d has time %d, want %d", i, r.Time, 100+i)
		}
	}
	run = start(t, Source(1, identity), 1, nil)
	if err := run.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := run.Records()[0].Time; got != connector.NoTimestamp {
		t.Errorf("time %d without timestamps, want none", got)
	}
}

func TestFromSliceIsReadInOrderByOneSubtask(t *testing.T) {
	vals := []string{"c", "a", "b"}
	run, err := connectortest.StartSource(FromSlice(vals), 4, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := run.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := run.Values(); !slices.Equal(got, vals) {
		t.Errorf("got %v, want %v", got, vals)
	}
	for _, r := range run.Records() {
		if r.Subtask != run.Records()[0].Subtask {
			t.Error("two subtasks read the slice")
		}
	}
}

func TestUnboundedNeverEnds(t *testing.T) {
	run := start(t, Source(-1, identity), 2, nil)
	if err := run.Count(t.Context(), 10_000); err != nil {
		t.Fatal(err)
	}
	if run.Ended() {
		t.Error("ended")
	}
	got := sorted(run.Values())
	for i, v := range got[:9000] {
		if v != int64(i) {
			t.Fatalf("index %d is missing", i)
		}
	}
}

func TestUnboundedSplitsEndAtTheLastIndex(t *testing.T) {
	for _, s := range cut(-1, 3, false, false) {
		s.Next = math.MaxInt64 - 4
		s.advance(s.left())
		if s.left() != 0 || s.Next != s.To {
			t.Errorf("split %v did not end", s)
		}
	}
}

func TestPause(t *testing.T) {
	run := start(t, Source(10, identity), 1, nil)
	if err := run.Reader(0).PauseSplits([]string{"0"}, nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := run.Step(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(run.Records()); n != 0 {
		t.Errorf("%d records of a paused split", n)
	}
	if err := run.Reader(0).PauseSplits(nil, []string{"0"}); err != nil {
		t.Fatal(err)
	}
	if err := run.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(run.Records()); n != 10 {
		t.Errorf("%d records after resuming, want 10", n)
	}
}

// F01 for a source without files: splits that were assigned and lost go to
// the subtask's next reader, once.
func TestF01SplitsGoBackOnce(t *testing.T) {
	run := start(t, Source(10, identity), 2, nil)
	splits, err := run.Reader(0).Snapshot(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Enumerator().AddSplitsBack(splits, 0); err != nil {
		t.Fatal(err)
	}
	state, err := run.Enumerator().Snapshot(1)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(state.Pending, splits) || state.Splits != 2 {
		t.Errorf("state %+v, want split 0 pending of 2", state)
	}
	if err := run.Enumerator().AddReader(0); err != nil {
		t.Fatal(err)
	}
	if state, _ := run.Enumerator().Snapshot(2); len(state.Pending) != 0 {
		t.Errorf("still pending after the reader came back: %v", state.Pending)
	}
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := start(t, Source(-1, identity, Rate(1000)), 2, nil)
		began := time.Now()
		if err := run.Count(context.Background(), 3000); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 2900*time.Millisecond || took > 3100*time.Millisecond {
			t.Errorf("3000 records at 1000 per second took %v", took)
		}
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestBadOptions(t *testing.T) {
	for name, s := range map[string]*Sequence[int64]{
		"rate 0":   Source(1, identity, Rate(0)),
		"rate NaN": Source(1, identity, Rate(math.NaN())),
		"no func":  Source[int64](1, nil),
	} {
		if _, err := s.NewReader(nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := s.NewEnumerator(nil, nil); err == nil {
			t.Errorf("%s: no error of the enumerator", name)
		}
	}
}

func TestPollDoesNotAllocate(t *testing.T) {
	r, out := benchReader()
	if n := testing.AllocsPerRun(100, func() {
		out.Reset()
		if _, err := r.Poll(out); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per poll", n)
	}
}

func benchReader() (*reader[int64], *connector.Output[int64]) {
	r := &reader[int64]{gen: identity}
	_ = r.AddSplits(cut(-1, 1, false, false))
	return r, connector.NewOutput[int64](1024)
}

func BenchmarkPoll(b *testing.B) {
	r, out := benchReader()
	b.ReportAllocs()
	for n := 0; n < b.N; n += 1024 {
		out.Reset()
		if _, err := r.Poll(out); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzSplit(f *testing.F) {
	b, _ := splitCodec{}.Append(nil, Split{1, 10, 20, 2, 12})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := splitCodec{}.Decode(b)
		if err != nil {
			return
		}
		again, _ := splitCodec{}.Append(nil, s)
		if back, err := (splitCodec{}).Decode(again); err != nil || back != s {
			t.Fatalf("%+v came back as %+v, %v", s, back, err)
		}
		if n := s.left(); n < 0 {
			t.Fatalf("%d records are left of %+v", n, s)
		}
	})
}

func FuzzEnumeration(f *testing.F) {
	b, _ := enumerationCodec{}.Append(nil, Enumeration{3, []Split{{1, 10, 20, 2, 12}}})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := enumerationCodec{}.Decode(b)
		if err != nil {
			return
		}
		again, _ := enumerationCodec{}.Append(nil, e)
		if back, err := (enumerationCodec{}).Decode(again); err != nil || !reflect.DeepEqual(back, e) {
			t.Fatalf("%+v came back as %+v, %v", e, back, err)
		}
	})
}
