package twophase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
)

// bank is a system with transactions: it records every call.
type bank struct {
	calls []string
	open  []Open[string]
	empty bool
	fail  error
}

func (b *bank) log(format string, args ...any) {
	b.calls = append(b.calls, fmt.Sprintf(format, args...))
}

func (b *bank) take() []string {
	calls := b.calls
	b.calls = nil
	return calls
}

type stringCodec struct{}

func (stringCodec) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }
func (stringCodec) Decode(src []byte) (string, error)           { return string(src), nil }
func (stringCodec) Format() codec.Format                        { return codec.Format{ID: "string", Version: 1} }

func (b *bank) HandleCodec() codec.Codec[string] { return stringCodec{} }
func (b *bank) NewParticipant(connector.SinkContext) (Participant[int, string], error) {
	return participant{b}, nil
}
func (b *bank) NewCoordinator(connector.CommitterContext) (Coordinator[string], error) {
	return coordinator{b}, nil
}

type participant struct{ *bank }

func (p participant) Begin(_ context.Context, n Name) (string, error) {
	p.log("begin %s", n)
	return fmt.Sprint(n.Slot), p.fail
}
func (p participant) Write(txn string, vals []int, _ []int64) error {
	p.log("write %s %v", txn, vals)
	return nil
}
func (p participant) Flush(_ context.Context, txn string) error { p.log("flush %s", txn); return nil }
func (p participant) PreCommit(_ context.Context, txn string) (string, bool, error) {
	p.log("precommit %s", txn)
	return txn + "!", !p.empty, p.fail
}
func (p participant) Abort(ctx context.Context, txn string) error {
	p.log("abort %s", txn)
	return ctx.Err()
}
func (p participant) Close() error { p.log("close"); return nil }

type coordinator struct{ *bank }

func (c coordinator) Commit(_ context.Context, txn string) error {
	c.log("commit %s", txn)
	return c.fail
}
func (c coordinator) RecoverAndCommit(_ context.Context, txn string) error {
	c.log("recover %s", txn)
	return nil
}
func (c coordinator) Open(_ context.Context, lineages []string) ([]Open[string], error) {
	c.log("open %s", strings.Join(lineages, " "))
	return c.open, nil
}
func (c coordinator) RecoverAndAbort(_ context.Context, txn string) error {
	c.log("rollback %s", txn)
	return nil
}
func (c coordinator) Close() error { return nil }

var context7 = &connectortest.Context{LineageID: "lin", AttemptNumber: 7, OperatorID: "op.1"}

func (b *bank) writer(t *testing.T, opts ...Option) connector.Writer[int, Committable[string]] {
	t.Helper()
	w, err := Sink[int, string](b, opts...).NewWriter(context7)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (b *bank) want(t *testing.T, calls ...string) {
	t.Helper()
	if got := b.take(); !slices.Equal(got, calls) {
		t.Errorf("calls %q, want %q", got, calls)
	}
}

// interval writes a record and takes a checkpoint.
func interval(t *testing.T, w connector.Writer[int, Committable[string]], checkpoint int64) []Committable[string] {
	t.Helper()
	if err := w.Write([]int{int(checkpoint)}, []int64{0}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	cs, err := w.PreCommit(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

func TestOneTransactionPerInterval(t *testing.T) {
	b := &bank{}
	w := b.writer(t)
	if cs, err := w.PreCommit(1); err != nil || len(cs) != 0 {
		t.Errorf("an empty interval has %v, %v", cs, err)
	}
	b.want(t)
	if err := w.Write([]int{5}, []int64{0}); err != nil {
		t.Fatal(err)
	}
	cs := interval(t, w, 2)
	want := []Committable[string]{{Attempt: 7, Checkpoint: 2, Txn: "0!"}}
	if !slices.Equal(cs, want) {
		t.Errorf("committables %v, want %v", cs, want)
	}
	b.want(t, "begin lin.7.op%2E1.0.0", "write 0 [5]", "write 0 [2]", "flush 0", "precommit 0")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b.want(t, "close") // neither commits nor aborts what is pre-committed
}

func TestCloseAbortsTheOpenTransactionAfterCancellation(t *testing.T) {
	b := &bank{}
	ctx, cancel := context.WithCancel(t.Context())
	w, err := Sink[int, string](b).NewWriter(&connectortest.Context{Ctx: ctx})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write([]int{1}, []int64{0}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b.want(t, "begin .0..0.0", "write 0 [1]", "abort 0", "close")
}

func TestErrorsFailTheTask(t *testing.T) {
	b := &bank{}
	w := b.writer(t)
	if err := w.Write([]int{1}, []int64{0}); err != nil {
		t.Fatal(err)
	}
	b.fail = errors.New("down")
	if _, err := w.PreCommit(1); !errors.Is(err, b.fail) {
		t.Errorf("pre-commit: %v", err)
	}
	if err := b.writer(t).Write([]int{1}, []int64{0}); !errors.Is(err, b.fail) {
		t.Errorf("begin: %v", err)
	}
}

func slotsOf(t *testing.T, w connector.Writer[int, Committable[string]], checkpoint int64) string {
	t.Helper()
	return interval(t, w, checkpoint)[0].Txn
}

func TestSlotsAreReusedOnlyAfterALaterCheckpoint(t *testing.T) {
	w := (&bank{}).writer(t, Pooled())
	var got []string
	for n := int64(1); n <= 4; n++ { // four checkpoints in flight
		got = append(got, slotsOf(t, w, n))
	}
	if err := w.Committed(2); err != nil {
		t.Fatal(err)
	}
	for n := int64(5); n <= 7; n++ { // two are free, the third is new
		got = append(got, slotsOf(t, w, n))
	}
	if err := w.Committed(2); err != nil { // a notice may come twice
		t.Fatal(err)
	}
	got = append(got, slotsOf(t, w, 8))
	want := []string{"0!", "1!", "2!", "3!", "0!", "1!", "4!", "5!"}
	if !slices.Equal(got, want) {
		t.Errorf("slots %v, want %v", got, want)
	}
}

func TestAtLeastThreeSlotsInTurn(t *testing.T) {
	w := (&bank{}).writer(t, Pooled())
	var got []string
	for n := int64(1); n <= 6; n++ {
		got = append(got, slotsOf(t, w, n))
		if err := w.Committed(n); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"0!", "1!", "2!", "0!", "1!", "2!"}; !slices.Equal(got, want) {
		t.Errorf("slots %v, want %v", got, want)
	}
}

func TestEmptyTransactionFreesItsSlotAtOnce(t *testing.T) {
	b := &bank{empty: true}
	w := b.writer(t, Pooled())
	for n := int64(1); n <= 10; n++ {
		if cs := interval(t, w, n); len(cs) != 0 {
			t.Errorf("an empty transaction gave %v", cs)
		}
	}
	for _, c := range b.calls {
		if c == "begin lin.7.op%2E1.0.3" {
			t.Error("a fourth slot was used")
		}
	}
}

func TestWithoutPoolNamesAreNew(t *testing.T) {
	w := (&bank{}).writer(t)
	for n := int64(1); n <= 5; n++ {
		if got, want := slotsOf(t, w, n), fmt.Sprintf("%d!", n-1); got != want {
			t.Errorf("slot %s, want %s", got, want)
		}
		if err := w.Committed(n); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCommitAndRecover(t *testing.T) {
	b := &bank{}
	c, err := Sink[int, string](b).NewCommitter(context7)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(t.Context(), []Committable[string]{{6, 1, "old"}, {7, 2, "own"}}); err != nil {
		t.Fatal(err)
	}
	b.want(t, "recover old", "commit own")
	b.fail = connector.ErrTransactionLost
	if err := c.Commit(t.Context(), []Committable[string]{{7, 3, "x"}}); !errors.Is(err, connector.ErrTransactionLost) {
		t.Errorf("got %v", err)
	}
}

func TestSweep(t *testing.T) {
	b := &bank{open: []Open[string]{
		{Name{Lineage: "lin", Attempt: 6}, "earlier"},
		{Name{Lineage: "lin", Attempt: 7}, "own"},
		{Name{Lineage: "lin", Attempt: 8}, "newer"},
		{Name{Lineage: "other", Attempt: 1}, "foreign"},
		{Name{Lineage: "old", Attempt: 2}, "begun anew since"},
		{Name{Lineage: "old", Attempt: 3}, "last before that"},
		{Name{Lineage: "old", Attempt: 4}, "of a job whose directory was copied"},
	}}
	ctx := &connectortest.Context{LineageID: "lin", AttemptNumber: 7, Former: []connector.FormerLineage{{Lineage: "old", LastAttempt: 3}}}
	c, err := Sink[int, string](b).NewCommitter(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Sweep(t.Context(), func() error { b.log("ledger"); return nil }); err != nil {
		t.Fatal(err)
	}
	b.want(t, "open lin old", "ledger", "rollback earlier", "rollback begun anew since", "rollback last before that")
	fenced := errors.New("fenced")
	if err := c.Sweep(t.Context(), func() error { return fenced }); !errors.Is(err, fenced) {
		t.Errorf("got %v", err)
	}
	b.want(t, "open lin old")
}

func TestNames(t *testing.T) {
	n := Name{Lineage: "a.b%", Attempt: 3, Operator: "x%2Ey", Subtask: 4, Slot: 5}
	if got, err := ParseName(n.String()); err != nil || got != n {
		t.Errorf("%+v came back as %+v, %v", n, got, err)
	}
	for _, s := range []string{"", "a.1.b.2", "a.1.b.2.3.4", "a.+1.b.2.3", "a.01.b.2.3", "a.1.b.-2.3", "a.1.b%2e.2.3", "a%.1.b.2.3"} {
		if n, err := ParseName(s); err == nil {
			t.Errorf("%q was read as %+v", s, n)
		}
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("a.1.b.2.3")
	f.Add("a%2E.1.b%25.2.3")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseName(s); err == nil && n.String() != s {
			t.Errorf("%q was read as %+v", s, n)
		}
	})
}

func FuzzCommittable(f *testing.F) {
	c := committableCodec[string]{stringCodec{}}
	b, _ := c.Append(nil, Committable[string]{1, 2, "x"})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := c.Decode(b)
		if err != nil {
			return
		}
		again, _ := c.Append(nil, v)
		if back, err := c.Decode(again); err != nil || back != v {
			t.Errorf("%+v came back as %+v, %v", v, back, err)
		}
	})
}

// TestCommitGoesOnBehindWhatIsSettled: a start takes every committable that is
// not named in the error for committed, so those behind a lost one have to be;
// behind a failure that may pass nothing is, so that the order stays.
func TestCommitGoesOnBehindWhatIsSettled(t *testing.T) {
	for _, test := range []struct {
		fails error
		calls []string
	}{
		{connector.ErrTransactionLost, []string{"recover a", "recover b", "recover c"}},
		{connector.ErrTransactionUnknown, []string{"recover a", "recover b", "recover c"}},
		{errors.New("broker away"), []string{"recover a", "recover b"}},
	} {
		b := &failing{bank: &bank{}, fails: map[string]error{"b": test.fails}}
		com := &committer[string]{ctx: context7, coordinator: b}
		err := com.Commit(t.Context(), []Committable[string]{{1, 1, "a"}, {1, 1, "b"}, {1, 2, "c"}})
		var at *connector.CommitError
		if !errors.As(err, &at) || at.Index != 1 || !errors.Is(err, test.fails) {
			t.Errorf("got %v, want %v of the second", err, test.fails)
		}
		b.want(t, test.calls...)
	}
}

// failing fails some commits.
type failing struct {
	*bank
	fails map[string]error
}

func (f *failing) Commit(ctx context.Context, txn string) error { return f.RecoverAndCommit(ctx, txn) }
func (f *failing) RecoverAndCommit(_ context.Context, txn string) error {
	f.log("recover %s", txn)
	return f.fails[txn]
}
func (f *failing) Open(context.Context, []string) ([]Open[string], error) { return nil, nil }
func (f *failing) RecoverAndAbort(context.Context, string) error          { return nil }
func (f *failing) Close() error                                           { return nil }
