package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/connector/hybrid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbers is a source of n numbers from first on.
func numbers(first, n int64, opts ...datagen.Option) *datagen.Sequence[int64] {
	return datagen.Source(n, func(i int64) int64 { return first + i }, opts...)
}

func upTo(n int64) (all []int64) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// reassigned is a source that wants its splits back after a restore.
type reassigned struct{ *datagen.Sequence[int64] }

func (reassigned) ReassignSplits() bool { return true }

// handing is a source whose enumerator hands over where it ends.
type handing struct {
	*datagen.Sequence[int64]
	end string
}

func (h handing) NewEnumerator(ctx connector.EnumeratorContext[datagen.Split], restored *datagen.Enumeration) (connector.Enumerator[datagen.Split, datagen.Enumeration], error) {
	inner, err := h.Sequence.NewEnumerator(ctx, restored)
	return handingOver{inner, h.end}, err
}

type handingOver struct {
	connector.Enumerator[datagen.Split, datagen.Enumeration]
	end string
}

func (h handingOver) HandOver() ([]byte, error) { return []byte(h.end), nil }

// slice is a source of the numbers from first up to 24 in one split, whatever the
// parallelism.
func slice(first, last int64) *datagen.Sequence[int64] { return datagen.FromSlice(upTo(last)[first:]) }

// from makes the source at a position.
func from(position []byte) (connector.Source[int64, datagen.Split, datagen.Enumeration], error) {
	var first int64
	_, err := fmt.Sscan(string(position), &first)
	return slice(first, 24), err
}

func TestAcceptance(t *testing.T) {
	type seq = datagen.Split
	chains := map[string]func() *hybrid.Source[int64]{
		"one": func() *hybrid.Source[int64] { return hybrid.New(numbers(0, 24)) },
		"two": func() *hybrid.Source[int64] { return hybrid.Then(hybrid.New(numbers(0, 9)), slice(9, 24)) },
		"three, one of them empty": func() *hybrid.Source[int64] {
			return hybrid.Then(hybrid.Then(hybrid.New(numbers(0, 14)), numbers(0, 0)), slice(14, 24))
		},
		"three": func() *hybrid.Source[int64] {
			return hybrid.Then(hybrid.Then(hybrid.New(slice(0, 10)), slice(10, 14)), slice(14, 24))
		},
		"handed over": func() *hybrid.Source[int64] {
			return hybrid.ThenAt(hybrid.New(handing{numbers(0, 11), "11"}), hybrid.Switch[int64, seq, datagen.Enumeration]{Source: from})
		},
		"found at the switch": func() *hybrid.Source[int64] {
			s := hybrid.ThenAt(hybrid.New(handing{numbers(0, 7), "7"}), hybrid.Switch[int64, seq, datagen.Enumeration]{
				Position: func(_ context.Context, handed []byte) ([]byte, error) { return append(handed, " of 16"...), nil },
				Source: func(position []byte) (connector.Source[int64, seq, datagen.Enumeration], error) {
					var first, last int64
					_, err := fmt.Sscanf(string(position), "%d of %d", &first, &last)
					return handing{slice(first, last), "16"}, err
				},
			})
			return hybrid.ThenAt(s, hybrid.Switch[int64, seq, datagen.Enumeration]{Source: from})
		},
		"reassigned": func() *hybrid.Source[int64] {
			return hybrid.Then(hybrid.New(reassigned{numbers(0, 9)}), reassigned{slice(9, 24)})
		},
		"one of two reassigned": func() *hybrid.Source[int64] {
			return hybrid.Then(hybrid.New(numbers(0, 12)), reassigned{slice(12, 24)})
		},
	}
	for name, chain := range chains {
		t.Run(name, func(t *testing.T) {
			connectortest.TestSource(t, connectortest.SourceSuite[int64, hybrid.Split, hybrid.Enumeration]{
				New:  func() connector.Source[int64, hybrid.Split, hybrid.Enumeration] { return chain() },
				Want: upTo(24),
				Time: func(v int64) int64 { return v },
			})
		})
	}
}

// Files, of which readers ask for one after the other, before and behind others.
func TestAcceptanceWithFiles(t *testing.T) {
	dir := t.TempDir()
	var want, live []string
	for i, n := range []int{7, 1, 12} {
		var lines []string
		for k := range n {
			lines = append(lines, fmt.Sprint("file ", i, " line ", k))
		}
		want = append(want, lines...)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 6 {
		live = append(live, fmt.Sprint("live ", i))
	}
	files := func() *file.Files[string] { return file.Source(dir, file.Lines()) }
	for name, chain := range map[string]func() *hybrid.Source[string]{
		"before": func() *hybrid.Source[string] { return hybrid.Then(hybrid.New(files()), datagen.FromSlice(live)) },
		"behind": func() *hybrid.Source[string] { return hybrid.Then(hybrid.New(datagen.FromSlice(live)), files()) },
	} {
		t.Run(name, func(t *testing.T) {
			connectortest.TestSource(t, connectortest.SourceSuite[string, hybrid.Split, hybrid.Enumeration]{
				New:  func() connector.Source[string, hybrid.Split, hybrid.Enumeration] { return chain() },
				Want: append(slices.Clone(want), live...),
			})
		})
	}
}

type run = connectortest.SourceRun[int64, hybrid.Split, hybrid.Enumeration]

func start(t *testing.T, s *hybrid.Source[int64], parallelism int, from *connectortest.SourceSnapshot) *run {
	t.Helper()
	r, err := connectortest.StartSource[int64, hybrid.Split, hybrid.Enumeration](s, parallelism, from, &connectortest.Context{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Nothing of a source is emitted before all of the one before it is.
func TestSourcesFollowEachOther(t *testing.T) {
	for _, p := range []int{1, 2, 5} {
		r := start(t, hybrid.Then(hybrid.Then(hybrid.New(numbers(0, 30)), numbers(100, 3)), numbers(200, 50)), p, nil)
		r.Batch = 4
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		hundreds := []int64{}
		for _, v := range r.Values() {
			hundreds = append(hundreds, v/100)
		}
		if len(hundreds) != 83 || !slices.IsSorted(hundreds) {
			t.Errorf("parallelism %d: %d records, in the order of sources: %v", p, len(hundreds), hundreds)
		}
	}
}

// Where the next source begins is found once, if a checkpoint has kept it.
func TestPositionIsKept(t *testing.T) {
	found := 0
	chain := func() *hybrid.Source[int64] {
		return hybrid.ThenAt(hybrid.New(numbers(0, 4)), hybrid.Switch[int64, datagen.Split, datagen.Enumeration]{
			Position: func(_ context.Context, handed []byte) ([]byte, error) {
				if found++; handed != nil {
					return nil, fmt.Errorf("%q was handed over", handed)
				}
				return []byte(fmt.Sprint(10 * found)), nil
			},
			Source: func(p []byte) (connector.Source[int64, datagen.Split, datagen.Enumeration], error) {
				var first int64
				_, err := fmt.Sscan(string(p), &first)
				return numbers(first, 4), err
			},
		})
	}
	first := start(t, chain(), 2, nil)
	first.Batch = 1
	if err := first.Count(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	snap, err := first.Snapshot(1)
	if err != nil {
		t.Fatal(err)
	}
	second := start(t, chain(), 3, snap)
	if err := second.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := append(first.Values(), second.Values()...)
	slices.Sort(got)
	if want := []int64{0, 1, 2, 3, 10, 11, 12, 13}; !slices.Equal(got, want) || found != 1 {
		t.Errorf("emitted %v, the position was found %d times; want %v, once", got, found, want)
	}
}

// A reader that fails alone after the switch goes back to the source before, and
// reads what is left of it before it joins the others.
func TestReaderIsLedThroughTheSourcesBetween(t *testing.T) {
	r := start(t, hybrid.Then(hybrid.Then(hybrid.New(numbers(0, 40)), numbers(100, 4)), numbers(200, 40)), 2, nil)
	r.Batch = 3
	if err := r.Count(t.Context(), 12); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Snapshot(1); err != nil {
		t.Fatal(err)
	}
	if err := r.Complete(1); err != nil {
		t.Fatal(err)
	}
	if err := r.Count(t.Context(), 60); err != nil { // in the third source
		t.Fatal(err)
	}
	if err := r.FailReader(1); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := r.Values()
	slices.Sort(got)
	var want []int64
	want = append(want, upTo(40)...)
	want = append(want, 100, 101, 102, 103)
	for _, v := range upTo(40) {
		want = append(want, 200+v)
	}
	if !slices.Equal(got, want) {
		t.Errorf("emitted %v, want each of 84 numbers once", got)
	}
}

func TestBadChains(t *testing.T) {
	endless := func() *datagen.Sequence[int64] { return numbers(0, -1) }
	at := func(endless bool, src connector.Source[int64, datagen.Split, datagen.Enumeration], err error) *hybrid.Source[int64] {
		return hybrid.ThenAt(hybrid.New(numbers(0, 1)), hybrid.Switch[int64, datagen.Split, datagen.Enumeration]{
			Endless: endless,
			Source:  func([]byte) (connector.Source[int64, datagen.Split, datagen.Enumeration], error) { return src, err },
		})
	}
	full := errors.New("no such topic")
	for name, tc := range map[string]struct {
		chain *hybrid.Source[int64]
		fatal bool
		wants []string
	}{
		"endless first":  {hybrid.Then(hybrid.New(endless()), numbers(0, 1)), true, []string{"source 1 of 2 never ends", "put it last"}},
		"endless middle": {hybrid.Then(hybrid.ThenAt(hybrid.New(numbers(0, 1)), hybrid.Switch[int64, datagen.Split, datagen.Enumeration]{Endless: true}), numbers(0, 1)), true, []string{"source 2 of 3 never ends"}},
		"no function":    {hybrid.ThenAt(hybrid.New(numbers(0, 1)), hybrid.Switch[int64, datagen.Split, datagen.Enumeration]{}), true, []string{"source 2 of 2", "no Source function"}},
		"made endless":   {at(false, endless(), nil), true, []string{"bounded: false", "Endless: false"}},
		"made bounded":   {at(true, numbers(0, 1), nil), true, []string{"bounded: true", "Endless: true"}},
		"failing":        {at(false, nil, full), false, []string{"source 2 of 2", full.Error()}},
		"no position": {hybrid.ThenAt(hybrid.New(numbers(0, 1)), hybrid.Switch[int64, datagen.Split, datagen.Enumeration]{
			Position: func(context.Context, []byte) ([]byte, error) { return nil, full },
		}), false, []string{"the position of source 2 of 2", full.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := connectortest.StartSource[int64, hybrid.Split, hybrid.Enumeration](tc.chain, 1, nil, nil)
			if err == nil {
				err = r.Run(t.Context())
				if cerr := r.Close(); cerr != nil {
					t.Error(cerr)
				}
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range tc.wants {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v does not say %q", err, w)
				}
			}
			if errors.Is(err, connector.ErrFatal) != tc.fatal {
				t.Errorf("%v: fatal %t, want %t", err, !tc.fatal, tc.fatal)
			}
		})
	}
}

// A snapshot of another chain is refused, in words.
func TestSnapshotOfAnotherChain(t *testing.T) {
	r := start(t, hybrid.Then(hybrid.New(numbers(0, 2)), numbers(2, 10)), 1, nil)
	r.Batch = 1
	if err := r.Count(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	snap, err := r.Snapshot(1)
	if err != nil {
		t.Fatal(err)
	}
	split, err := hybrid.Then(hybrid.New(numbers(0, 2)), numbers(2, 10)).SplitCodec().Decode(snap.Splits[0])
	if err != nil || split.SplitID() != "2/0" || split.Position() != "record 3" {
		t.Errorf("split %s at %q (%v), want 2/0 at record 3", split.SplitID(), split.Position(), err)
	}
	for _, tc := range []struct {
		chain connector.Source[int64, hybrid.Split, hybrid.Enumeration]
		want  string
	}{
		{hybrid.New(numbers(0, 2)), "at source 2, and there are 1"},
		{hybrid.Then(hybrid.New(numbers(0, 2)), hybrid.New(numbers(2, 10))), "the sources of a chain may not change their places"},
	} {
		r, err := connectortest.StartSource(tc.chain, 1, snap, nil)
		if err == nil {
			err = r.Run(t.Context())
			if cerr := r.Close(); cerr != nil {
				t.Error(cerr)
			}
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
}

func TestDescription(t *testing.T) {
	s := hybrid.Then(hybrid.New(numbers(0, 1)), numbers(0, -1))
	if s.Bounded() || !s.CanRewind() || s.ReassignSplits() {
		t.Errorf("bounded %t, rewinds %t, reassigns %t", s.Bounded(), s.CanRewind(), s.ReassignSplits())
	}
	if s := hybrid.ThenAt(s, hybrid.Switch[int64, datagen.Split, datagen.Enumeration]{}); !s.Bounded() {
		t.Error("a chain is bounded if its last source is")
	}
	base := hybrid.New(numbers(0, 1))
	a, b := hybrid.Then(base, numbers(1, 1)), hybrid.Then(base, numbers(2, -1))
	if !a.Bounded() || b.Bounded() || !base.Bounded() {
		t.Error("two chains with one beginning share more than that")
	}
}
