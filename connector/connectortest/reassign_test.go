package connectortest

import (
	"testing"

	"github.com/weirstream/weir/connector"
)

// dealing is a source that deals its splits out anew when it is restored.
type dealing struct{ counting }

func (dealing) ReassignSplits() bool { return true }

func (s dealing) NewEnumerator(ctx connector.EnumeratorContext[part], restored *int64) (connector.Enumerator[part, int64], error) {
	e, err := s.counting.NewEnumerator(ctx, restored)
	if err != nil {
		return nil, err
	}
	return &eager{dealer: e.(*dealer)}, nil
}

// eager assigns what came back as soon as all readers are there, and later to
// the reader that failed: the others may have ended.
type eager struct {
	*dealer
	dealt bool
}

func (e *eager) AddReader(subtask int) error {
	readers := e.ctx.Readers()
	if len(readers) < e.ctx.Parallelism() {
		return nil
	}
	for i, p := range e.back {
		to := readers[i%len(readers)]
		if e.dealt {
			to = subtask
		}
		if err := e.ctx.Assign(to, p); err != nil {
			return err
		}
	}
	e.back, e.dealt = nil, true
	return nil
}

func TestSuiteOnReassignment(t *testing.T) {
	var want []int64
	for _, p := range []part{{0, 7, 0}, {100, 103, 0}, {200, 212, 0}} {
		for v := p.First; v < p.Last; v++ {
			want = append(want, v)
		}
	}
	TestSource(t, SourceSuite[int64, part, int64]{
		New:  func() connector.Source[int64, part, int64] { return dealing{} },
		Want: want,
		Time: func(v int64) int64 { return v % 100 },
	})
}

// A restore of a source that reassigns gives the readers nothing but what the
// enumerator deals out.
func TestRestoredSplitsGoToTheEnumerator(t *testing.T) {
	src := dealing{}
	r, err := StartSource(src, 1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Batch = 1
	if err := r.Count(t.Context(), 9); err != nil { // part-0 whole, two of part-100
		t.Fatal(err)
	}
	snap, err := r.Snapshot(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	snap.Enumerator, err = src.EnumeratorCodec().Append(nil, 3) // all were dealt
	if err != nil {
		t.Fatal(err)
	}
	last, err := src.SplitCodec().Append(nil, part{200, 212, 205})
	if err != nil {
		t.Fatal(err)
	}
	snap.Splits = append(snap.Splits, last)

	again, err := StartSource(src, 2, snap, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got [2]int
	for i := range got {
		splits, err := again.Reader(i).Snapshot(2)
		if err != nil {
			t.Fatal(err)
		}
		got[i] = len(splits)
	}
	if got != [2]int{1, 1} {
		t.Errorf("the readers have %v splits, want one each", got)
	}
	if err := again.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(again.Records()); n != 1+7 {
		t.Errorf("%d records, want those behind the positions, 8", n)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
