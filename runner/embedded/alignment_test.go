package embedded

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
)

// clocked is a strategy in which each record moves the watermark to its time.
func clocked(at func(i int) int64) watermark.Strategy[int] {
	return watermark.Custom(watermark.Punctuated(func(_ int, at time.Time) (time.Time, bool) { return at, true }), nil).
		WithTimestamps(func(i int, _ int64) int64 { return at(i) })
}

func millis(i int) int64 { return int64(i) }

// numbers is a source of the numbers below n.
func numbers(n int64) *datagen.Sequence[int] {
	return datagen.Source(n, func(i int64) int { return int(i) })
}

// more gives a source's subtask a split without saying that no other follows.
func more(t *testing.T, s *Stepped, source string, part datagen.Split) {
	t.Helper()
	b, err := datagen.FromSlice([]int{}).SplitCodec().Append(nil, part)
	if err != nil {
		t.Fatal(err)
	}
	s.a.wiring.Load().sources[source][0].PostEvent(stage.SourceEvent{Splits: [][]byte{b}})
}

// pass lets the job work until it rests, some intervals of an alignment on.
func pass(t *testing.T, s *Stepped) {
	t.Helper()
	for range 3 {
		if err := s.Settle(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) //nolint:forbidigo // the virtual clock moves
	}
}

// A fast source waits for a slow one: what is read of it, and what would lie in a
// join's state, stays within the drift and a batch. Checkpoints pass meanwhile.
func TestAlignmentBoundsAFastSource(t *testing.T) {
	const n, drift, batch = 50_000, 2000, 1024
	for _, aligned := range []bool{true, false} {
		t.Run(fmt.Sprint("aligned ", aligned), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				strategy := clocked(millis)
				if aligned {
					strategy = strategy.Align("both", drift*time.Millisecond).AlignInterval(time.Second)
				}
				fast, slow := collect.New[int](), collect.New[int]()
				s := stepped(t, SteppedOptions{Attempt: 1, Blobs: mem.New(), Rounds: 1000}, func(j *stream.Job) {
					stream.To(stream.From(j, "fast", numbers(n), strategy), "fast-out", fast)
					stream.To(stream.From(j, "slow", numbers(n), strategy), "slow-out", slow)
				})
				wantFast := func(what string, slowest int) {
					t.Helper()
					pass(t, s)
					got, least, most := len(fast.Values()), slowest+drift+1, slowest+drift+2*batch
					if !aligned || least > n {
						least, most = n, n
					}
					if got < least || got > most {
						t.Errorf("%s: %d records of the fast source, want %d to %d", what, got, least, most)
					}
				}
				s.Assign("fast", 0, split(t, n))
				wantFast("the slow source has brought nothing", -drift)
				more(t, s, "slow", datagen.Split{To: 5, Step: 1})
				wantFast("it has brought five", 4)
				if _, err := s.Snapshot(1); err != nil {
					t.Fatal(err)
				}
				more(t, s, "slow", datagen.Split{Number: 1, From: 10_000, Next: 10_000, To: 10_001, Step: 1})
				wantFast("it has got on", 10_000)
				s.Assign("slow", 0)
				wantFast("it has ended", n)
				if got := len(slow.Values()); got != 6 {
					t.Errorf("%d records of the slow source, want 6", got)
				}
			})
		})
	}
}

// Of two splits of one subtask the one that is ahead is paused.
func TestAlignmentPausesSplits(t *testing.T) {
	const n, drift, batch = 20_000, 1000, 1024
	at := func(i int) int64 {
		if i < n {
			return 10 * int64(i) // the first split is ten times as fast
		}
		return int64(i - n)
	}
	ahead := func(t *testing.T, strategy watermark.Strategy[int]) (most int64) {
		synctest.Test(t, func(t *testing.T) {
			out := collect.New[int]()
			s := stepped(t, SteppedOptions{Attempt: 1, Blobs: mem.New(), Rounds: 1000}, func(j *stream.Job) {
				stream.To(stream.From(j, "in", numbers(2*n), strategy), "out", out)
			})
			more(t, s, "in", datagen.Split{To: n, Step: 1})
			more(t, s, "in", datagen.Split{Number: 1, From: n, Next: n, To: 2 * n, Step: 1})
			s.Assign("in", 0)
			for before := -1; before != len(out.Values()); {
				before = len(out.Values())
				pass(t, s)
			}
			if got := len(out.Values()); got != 2*n {
				t.Errorf("%d records, want %d", got, 2*n)
			}
			fast, slow := int64(0), int64(0)
			for _, i := range out.Values() {
				if i < n {
					fast = at(i)
				} else if slow = at(i); slow == n-1 {
					break // it has ended: the other may go on
				}
				most = max(most, fast-slow)
			}
		})
		return most
	}
	if got := ahead(t, clocked(at).Align("in", drift*time.Millisecond).AlignInterval(time.Millisecond)); got > drift+3*10*batch {
		t.Errorf("the fast split was %d ms ahead", got)
	}
	if got := ahead(t, clocked(at)); got < 8*n {
		t.Errorf("without alignment it was %d ms ahead, want nearly all", got)
	}
}

// stubborn is a source whose readers cannot pause splits.
type stubborn struct{ *datagen.Sequence[int] }

type stubbornReader struct {
	connector.Reader[int, datagen.Split]
}

func (s stubborn) NewReader(ctx connector.ReaderContext) (connector.Reader[int, datagen.Split], error) {
	r, err := s.Sequence.NewReader(ctx)
	return stubbornReader{r}, err
}

func (stubbornReader) PauseSplits([]string, []string) error { return errors.ErrUnsupported }

func TestBadAlignmentOfSplitsThatCannotBePaused(t *testing.T) {
	const n = 5000
	run := func(t *testing.T, strategy watermark.Strategy[int]) (err error) {
		synctest.Test(t, func(t *testing.T) {
			s := stepped(t, SteppedOptions{Attempt: 1, Blobs: mem.New(), Rounds: 1000}, func(j *stream.Job) {
				stream.To(stream.From(j, "in", stubborn{numbers(2 * n)}, strategy), "out", connector.Discard[int]())
			})
			more(t, s, "in", datagen.Split{To: n, Step: 1})
			more(t, s, "in", datagen.Split{Number: 1, From: n, Next: n, To: 2 * n, Step: 1})
			s.Assign("in", 0)
			for range 5 {
				if err = s.Settle(); err != nil {
					return
				}
				time.Sleep(time.Second) //nolint:forbidigo // the virtual clock moves
			}
		})
		return err
	}
	strategy := clocked(millis).Align("in", time.Second)
	err := run(t, strategy)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), `operator "in", subtask 0: watermark alignment "in"`) || !strings.Contains(err.Error(), "AlignUnalignedSplits") {
		t.Errorf("got %v", err)
	}
	if err := run(t, strategy.AlignUnalignedSplits()); err != nil {
		t.Error(err)
	}
}
