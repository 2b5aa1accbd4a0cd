package splitreader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/connector"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type split struct {
	id string
	at int64
}

func (s split) SplitID() string       { return s.id }
func (s split) At(pos, _ int64) split { s.at = pos; return s }

// script is a SplitReader that brings what is fed to it.
type script struct {
	feed   chan Batch[int]
	fail   chan error
	mu     sync.Mutex
	calls  []string
	closed bool
}

func newScript() *script {
	return &script{feed: make(chan Batch[int], 100), fail: make(chan error, 1)}
}

func (s *script) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *script) Fetch(ctx context.Context, b *Batch[int]) error {
	select {
	case f := <-s.feed:
		if f.End < 0 {
			panic("boom")
		}
		b.Split, b.End, b.Finished = f.Split, f.End, f.Finished
		b.Vals = append(b.Vals, f.Vals...)
		b.Times = append(b.Times, f.Times...)
		b.Ends = append(b.Ends, f.Ends...)
		return nil
	case err := <-s.fail:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *script) HandleSplits(added []split) error { s.log("add %v", added); return nil }

func (s *script) Close() error {
	s.closed = true
	return nil
}

type pausingScript struct{ *script }

func (s pausingScript) PauseSplits(pause, resume []string) {
	s.log("pause %v resume %v", pause, resume)
}

// engine is a ReaderContext whose Wake is a signal.
type engine struct {
	connector.ReaderContext
	ctx  context.Context
	wake chan struct{}
}

func (e engine) Context() context.Context { return e.ctx }
func (e engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

type harness struct {
	*testing.T
	*script
	reader *Reader[int, split]
	engine engine
	out    *connector.Output[int]
}

func start(t *testing.T, pauses bool, limit int, opts ...Option) *harness {
	h := &harness{T: t, script: newScript(), out: connector.NewOutput[int](limit)}
	h.engine = engine{ctx: t.Context(), wake: make(chan struct{}, 1)}
	var sr SplitReader[int, split] = h.script
	if pauses {
		sr = pausingScript{h.script}
	}
	h.reader = New(h.engine, sr, opts...)
	if err := h.reader.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.reader.Close(); err != nil {
			t.Error(err)
		}
		if !h.script.closed {
			t.Error("the split reader was not closed")
		}
	})
	return h
}

// poll polls until something comes, waiting for wake-ups.
func (h *harness) poll() (connector.Status, error) {
	for {
		h.out.Reset()
		status, err := h.reader.Poll(h.out)
		if err != nil || status != connector.Nothing {
			return status, err
		}
		<-h.engine.wake
	}
}

func (h *harness) want(status connector.Status, id string, vals ...int) {
	h.Helper()
	got, err := h.poll()
	if err != nil {
		h.Fatal(err)
	}
	if got != status || h.out.SplitID() != id || !slices.Equal(h.out.Vals, vals) {
		h.Fatalf("poll: status %v, split %q, %v; want %v, %q, %v", got, h.out.SplitID(), h.out.Vals, status, id, vals)
	}
	if len(h.out.Times) != len(vals) {
		h.Fatalf("%d times for %d values", len(h.out.Times), len(vals))
	}
}

func (h *harness) wantSplits(want ...split) {
	h.Helper()
	got, err := h.reader.Snapshot(1)
	if err != nil {
		h.Fatal(err)
	}
	if !slices.Equal(got, want) {
		h.Fatalf("snapshot %v, want %v", got, want)
	}
}

func batch(id string, first, n int) Batch[int] {
	b := Batch[int]{Split: id}
	for i := first; i < first+n; i++ {
		b.Append(i, int64(i), int64(i+1))
	}
	b.End = int64(first + n)
	return b
}

func TestEmissionMovesTheSplits(t *testing.T) {
	h := start(t, false, 100)
	if err := h.reader.AddSplits([]split{{"a", 0}, {"b", 10}}); err != nil {
		t.Fatal(err)
	}
	h.feed <- batch("a", 0, 3)
	h.feed <- batch("b", 10, 2)
	h.want(connector.More, "a", 0, 1, 2)
	h.wantSplits(split{"a", 3}, split{"b", 10}) // what is fetched and not emitted lies behind
	h.want(connector.More, "b", 10, 11)
	h.wantSplits(split{"a", 3}, split{"b", 12})
}

func TestLargeBatchIsCutAndEqualEndsAreNot(t *testing.T) {
	h := start(t, false, 2)
	h.reader.AddSplits([]split{{"a", 0}})
	b := Batch[int]{Split: "a", End: 9}
	for i, end := range []int64{1, 2, 2, 2, 3} {
		b.Append(i, 0, end)
	}
	h.feed <- b
	h.want(connector.More, "a", 0, 1, 2, 3)
	h.wantSplits(split{"a", 2})
	h.want(connector.More, "a", 4)
	h.wantSplits(split{"a", 9})

	b.Ends, b.End = nil, 10
	h.feed <- b
	h.want(connector.More, "a", 0, 1, 2, 3, 4)
}

func TestEmptyBatchMovesThePosition(t *testing.T) {
	h := start(t, false, 2)
	h.reader.AddSplits([]split{{"a", 0}})
	h.feed <- Batch[int]{Split: "a", End: 7}
	h.feed <- batch("a", 7, 1)
	h.want(connector.More, "a", 7)
	h.wantSplits(split{"a", 8})
}

func TestEndComesLast(t *testing.T) {
	h := start(t, false, 10)
	h.reader.AddSplits([]split{{"a", 0}})
	last := batch("a", 0, 2)
	last.Finished = true
	h.feed <- last
	h.want(connector.More, "a", 0, 1)
	h.wantSplits()
	if s, err := h.reader.Poll(h.out); s != connector.Nothing || err != nil {
		t.Fatalf("poll before NoMoreSplits: %v, %v", s, err)
	}
	h.reader.AddSplits([]split{{"b", 0}})
	h.reader.NoMoreSplits()
	h.feed <- Batch[int]{Split: "b", Finished: true}
	h.out.Reset()
	h.want(connector.End, "")
}

func TestReaderWithoutSplitsEnds(t *testing.T) {
	h := start(t, false, 10)
	h.reader.NoMoreSplits()
	h.want(connector.End, "")
}

func TestErrorAndPanicFailTheReader(t *testing.T) {
	h := start(t, false, 10)
	h.reader.AddSplits([]split{{"a", 0}})
	lost := errors.New("connection lost")
	h.fail <- lost
	if _, err := h.poll(); !errors.Is(err, lost) {
		t.Errorf("poll returned %v, want %v", err, lost)
	}

	h = start(t, false, 10)
	h.reader.AddSplits([]split{{"a", 0}})
	h.feed <- Batch[int]{End: -1}
	if _, err := h.poll(); err == nil || !strings.Contains(err.Error(), "boom") || !strings.Contains(err.Error(), "Fetch") {
		t.Errorf("poll returned %v, want the panic with its stack", err)
	}
}

func TestUnknownAndRepeatedSplits(t *testing.T) {
	h := start(t, false, 10)
	h.reader.AddSplits([]split{{"a", 0}})
	if err := h.reader.AddSplits([]split{{"a", 1}}); err == nil {
		t.Error("a split was added twice")
	}
	h.feed <- batch("x", 0, 1)
	if _, err := h.poll(); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("records of an unknown split: %v", err)
	}
}

func TestAddingSplitsInterruptsAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, false, 10)
		h.reader.AddSplits([]split{{"a", 0}})
		synctest.Wait() // in Fetch
		h.reader.AddSplits([]split{{"b", 0}})
		synctest.Wait()
		if want := []string{"add [{a 0}]", "add [{b 0}]"}; !slices.Equal(h.calls, want) {
			t.Errorf("split reader was told %v, want %v", h.calls, want)
		}
	})
}

func TestPausedSplitLetsOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, true, 2)
		h.reader.AddSplits([]split{{"a", 0}, {"b", 0}})
		h.feed <- batch("a", 0, 4)
		h.want(connector.More, "a", 0, 1)
		h.reader.PauseSplits([]string{"a"}, nil) // in the middle of a batch
		h.feed <- batch("a", 4, 1)
		h.feed <- batch("a", 5, 1)
		h.feed <- batch("a", 6, 1)
		h.feed <- batch("b", 0, 1)
		h.want(connector.More, "b", 0)
		h.wantSplits(split{"a", 2}, split{"b", 1})
		h.reader.PauseSplits(nil, []string{"a"})
		h.want(connector.More, "a", 2, 3)
		h.want(connector.More, "a", 4)
		h.want(connector.More, "a", 5)
		h.want(connector.More, "a", 6)
		synctest.Wait()
		if want := []string{"add [{a 0} {b 0}]", "pause [a] resume []", "pause [] resume [a]"}; !slices.Equal(h.calls, want) {
			t.Errorf("split reader was told %v, want %v", h.calls, want)
		}
	})
}

func TestWithoutPauserParkingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, false, 10, Capacity(2))
		h.reader.AddSplits([]split{{"a", 0}})
		h.reader.PauseSplits([]string{"a"}, nil)
		for i := range 20 {
			h.feed <- batch("a", i, 1)
		}
		for range 20 {
			synctest.Wait()
			if s, err := h.reader.Poll(h.out); s != connector.Nothing || err != nil {
				t.Fatalf("poll of a paused split: %v, %v", s, err)
			}
		}
		if taken := 20 - len(h.feed); taken > 5 {
			t.Errorf("%d batches were fetched of a paused split", taken)
		}
		h.reader.PauseSplits(nil, []string{"a"})
		for i := range 20 {
			h.want(connector.More, "a", i)
		}
	})
}

// deaf is a SplitReader whose Fetch does not hear of ctx.
type deaf struct{ release chan struct{} }

func (d deaf) Fetch(context.Context, *Batch[int]) error { <-d.release; return nil }
func (deaf) HandleSplits([]split) error                 { return nil }
func (deaf) Close() error                               { return nil }

func TestCloseGivesUpOnADeafFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deaf{make(chan struct{})}
		r := New(engine{ctx: t.Context(), wake: make(chan struct{}, 1)}, d, CloseTimeout(time.Second))
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		r.AddSplits([]split{{"a", 0}})
		synctest.Wait()
		if err := r.Close(); err == nil || !strings.Contains(err.Error(), "1s") {
			t.Errorf("close returned %v, want the time it waited", err)
		}
		close(d.release)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestSteadyStateReusesBatches(t *testing.T) {
	h := start(t, false, 1024)
	h.reader.AddSplits([]split{{"a", 0}})
	b := batch("a", 0, 1024)
	seen := map[*int]bool{}
	for range 50 {
		h.feed <- b
		h.out.Reset()
		for {
			if h.reader.next() {
				break
			}
			<-h.engine.wake
		}
		seen[&h.reader.current.Vals[0]] = true
		h.want(connector.More, "a", b.Vals...)
	}
	if len(seen) > 5 {
		t.Errorf("%d batches were made for 50 fetches", len(seen))
	}
}
