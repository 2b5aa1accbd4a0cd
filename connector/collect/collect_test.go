package collect

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
)

func open(t *testing.T, s *Sink[int], lineage string, attempt int64) (connector.Writer[int, Committable], connector.Committer[Committable]) {
	t.Helper()
	ctx := &connectortest.Context{LineageID: lineage, AttemptNumber: attempt, OperatorID: "out"}
	w, err := s.NewWriter(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.NewCommitter(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return w, c
}

func write(t *testing.T, w connector.Writer[int, Committable], vals ...int) {
	t.Helper()
	times := make([]int64, len(vals))
	for i, v := range vals {
		times[i] = int64(v) * 10
	}
	if err := w.Write(vals, times); err != nil {
		t.Fatal(err)
	}
	for i := range vals { // neither slice may be kept
		vals[i], times[i] = -1, -1
	}
}

func preCommit(t *testing.T, w connector.Writer[int, Committable], checkpoint int64) []Committable {
	t.Helper()
	cs, err := w.PreCommit(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

func TestAtLeastOnceIsVisibleAtOnce(t *testing.T) {
	s := New[int]()
	w, c := open(t, s, "l", 1)
	if c != nil {
		t.Error("an at-least-once sink has a committer")
	}
	write(t, w, 1, 2)
	want := []Record[int]{{1, 10, 0}, {2, 20, 0}}
	if got := s.Records(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestExactlyOnceIsVisibleAfterCommit(t *testing.T) {
	s := NewExactlyOnce[int]()
	w, c := open(t, s, "l", 1)
	write(t, w, 1, 2)
	first := preCommit(t, w, 1)
	write(t, w, 3)
	second := preCommit(t, w, 2)
	if s.Len() != 0 || s.Prepared() != 2 {
		t.Fatalf("%d visible, %d prepared before the commit; want 0, 2", s.Len(), s.Prepared())
	}
	for range 2 { // a committable may come again
		if err := c.Commit(t.Context(), first); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Values(); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("got %v, want [1 2]", got)
	}
	if err := c.Commit(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if got := s.Values(); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("got %v, want [1 2 3]", got)
	}
	if cs := preCommit(t, w, 3); len(cs) != 0 {
		t.Errorf("an empty interval has the committables %v", cs)
	}
}

func TestSweepTakesEarlierAttemptsOfTheLineageOnly(t *testing.T) {
	s := NewExactlyOnce[int]()
	old, _ := open(t, s, "l", 1)
	write(t, old, 1)
	lost := preCommit(t, old, 1)
	other, otherCommitter := open(t, s, "other", 1)
	write(t, other, 2)
	kept := preCommit(t, other, 1)

	w, c := open(t, s, "l", 2)
	write(t, w, 3)
	own := preCommit(t, w, 2)
	fenced := errors.New("fenced")
	if err := c.Sweep(t.Context(), func() error { return fenced }); !errors.Is(err, fenced) {
		t.Errorf("sweep of a fenced attempt: %v", err)
	}
	if s.Prepared() != 3 {
		t.Errorf("a fenced sweep aborted")
	}
	if err := c.Sweep(t.Context(), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(t.Context(), lost); !errors.Is(err, connector.ErrTransactionLost) {
		t.Errorf("commit of an aborted transaction: %v, want ErrTransactionLost", err)
	}
	if err := errors.Join(otherCommitter.Commit(t.Context(), kept), c.Commit(t.Context(), own)); err != nil {
		t.Error(err)
	}
	if got := s.Values(); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("got %v, want [2 3]", got)
	}
}

func TestWait(t *testing.T) {
	s := New[int]()
	w, _ := open(t, s, "l", 1)
	done := make(chan error)
	go func() { done <- s.Wait(context.Background(), 2) }()
	write(t, w, 1)
	write(t, w, 2)
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("wait ended with %v", err)
	}
}

func TestCommittableCodec(t *testing.T) {
	c := Committable{ID: "l/1/out/0/1"}
	b, err := committableCodec{}.Append(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := (committableCodec{}).Decode(b); err != nil || got != c {
		t.Errorf("%v came back as %v, %v", c, got, err)
	}
	if _, err := (committableCodec{}).Decode(nil); err == nil {
		t.Error("an empty committable was decoded")
	}
}
