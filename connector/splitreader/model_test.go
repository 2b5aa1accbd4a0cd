package splitreader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirstream/weir/connector"
)

// crowd is a reader of several SplitReaders, which are scripts.
type crowd struct {
	*testing.T
	scripts []*script // in the order in which they were opened
	reader  *Reader[int, split]
	engine  engine
	out     *connector.Output[int]
}

// gather starts a reader whose scripts the test waits for with synctest.Wait.
func gather(t *testing.T, m Model[split], opts ...Option) *crowd {
	c := &crowd{T: t, out: connector.NewOutput[int](100)}
	c.engine = engine{ctx: t.Context(), wake: make(chan struct{}, 1)}
	c.reader = NewWith(c.engine, func() (SplitReader[int, split], error) {
		s := newScript()
		c.scripts = append(c.scripts, s)
		return s, nil
	}, m, opts...)
	if err := c.reader.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.reader.Close(); err != nil {
			t.Error(err)
		}
		for i, s := range c.scripts {
			if !s.closed {
				t.Errorf("split reader %d was not closed", i)
			}
		}
	})
	return c
}

// add adds splits one by one, so that scripts open in their order.
func (c *crowd) add(ids ...string) {
	c.Helper()
	for _, id := range ids {
		if err := c.reader.AddSplits([]split{{id: id}}); err != nil {
			c.Fatal(err)
		}
		synctest.Wait()
	}
}

// emits polls all there is and checks which splits it is of.
func (c *crowd) emits(want ...string) {
	c.Helper()
	var got []string
	for {
		synctest.Wait()
		c.out.Reset()
		status, err := c.reader.Poll(c.out)
		if err != nil {
			c.Fatal(err)
		}
		if status != connector.More {
			break
		}
		got = append(got, c.out.SplitID())
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		c.Fatalf("batches of %q, want %q", got, want)
	}
}

func (c *crowd) told(want ...string) {
	c.Helper()
	var got []string
	for _, s := range c.scripts {
		got = append(got, strings.Join(s.calls, "; "))
	}
	if !slices.Equal(got, want) {
		c.Fatalf("split readers were told %q, want %q", got, want)
	}
}

func last(id string) Batch[int] {
	b := batch(id, 0, 1)
	b.Finished = true
	return b
}

func TestFetcherPerSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished []string
		c := gather(t, FetcherPerSplit[split](), OnFinished(func(id string) { finished = append(finished, id) }))
		c.add("a", "b", "c")
		c.told("add [{a 0}]", "add [{b 0}]", "add [{c 0}]")
		c.scripts[1].feed <- last("b")
		c.scripts[2].feed <- batch("c", 0, 1)
		c.emits("b", "c")
		synctest.Wait()
		for i, want := range []bool{false, true, false} {
			if c.scripts[i].closed != want {
				t.Errorf("split reader %d: closed %t", i, c.scripts[i].closed)
			}
		}
		if !slices.Equal(finished, []string{"b"}) {
			t.Errorf("finished %q", finished)
		}
		c.add("b") // anew
		c.scripts[3].feed <- batch("b", 0, 1)
		c.emits("b")
	})
}

func TestFetcherPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gather(t, FetcherPool[split](3))
		of := map[string]int{}
		for i := range 60 {
			id := fmt.Sprint(i)
			c.add(id)
			for n, s := range c.scripts {
				if strings.Contains(strings.Join(s.calls, " "), "{"+id+" ") {
					of[id] = n
				}
			}
		}
		if len(c.scripts) != 3 {
			t.Fatalf("%d fetchers of 3", len(c.scripts))
		}
		for n, s := range c.scripts {
			if len(s.calls) < 10 {
				t.Errorf("split reader %d has %d splits of 60", n, len(s.calls))
			}
		}
		for id, n := range of {
			c.scripts[n].feed <- last(id)
		}
		ids := make([]string, 0, len(of))
		for id := range of {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		c.emits(ids...)
		synctest.Wait()
		c.add("7")
		if len(c.scripts) != 3 || !strings.Contains(strings.Join(c.scripts[of["7"]].calls[1:], " "), "{7 ") {
			t.Errorf("%d fetchers; split 7 did not go where it was", len(c.scripts))
		}
	})
}

func TestFetcherBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gather(t, FetcherBy(func(s split) string { return s.id[:1] }))
		c.add("x1", "y1", "x2")
		c.told("add [{x1 0}]; add [{x2 0}]", "add [{y1 0}]")
		c.scripts[0].feed <- last("x1")
		c.scripts[1].feed <- last("y1")
		c.emits("x1", "y1")
		synctest.Wait()
		if c.scripts[0].closed || !c.scripts[1].closed {
			t.Errorf("closed: x %t, which has a split, y %t, which has none", c.scripts[0].closed, c.scripts[1].closed)
		}
	})
}

// A fetcher that cannot pause its splits stops when they are paused; the others
// go on, and what it had fetched comes when they are resumed.
func TestPausedSplitHoldsUpItsFetcherOnly(t *testing.T) {
	for _, m := range []Model[split]{FetcherPerSplit[split](), FetcherBy(func(s split) string { return s.id[:1] })} {
		synctest.Test(t, func(t *testing.T) {
			c := gather(t, m, Capacity(2))
			c.add("a1", "b1")
			if err := c.reader.PauseSplits([]string{"a1"}, nil); err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				c.scripts[0].feed <- batch("a1", i, 1)
				c.scripts[1].feed <- batch("b1", i, 1)
			}
			c.emits(slices.Repeat([]string{"b1"}, 20)...)
			if n := len(c.scripts[0].feed); n < 19 {
				t.Errorf("%d batches were fetched of a paused split", 20-n)
			}
			if err := c.reader.PauseSplits(nil, []string{"a1"}); err != nil {
				t.Fatal(err)
			}
			c.emits(slices.Repeat([]string{"a1"}, 20)...)
		})
	}
}

// With one split of a fetcher paused, and no way to tell its SplitReader, what
// is parked is bounded, and other fetchers go on.
func TestParkingIsBoundedPerFetcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gather(t, FetcherBy(func(s split) string { return s.id[:1] }), Capacity(2))
		c.add("a1", "a2", "b1")
		if err := c.reader.PauseSplits([]string{"a1"}, nil); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			c.scripts[0].feed <- batch("a1", i, 1)
			c.scripts[1].feed <- batch("b1", i, 1)
		}
		c.emits(slices.Repeat([]string{"b1"}, 20)...)
		if n := 20 - len(c.scripts[0].feed); n > 6 {
			t.Errorf("%d batches were fetched of a paused split", n)
		}
		if err := c.reader.PauseSplits(nil, []string{"a1"}); err != nil {
			t.Fatal(err)
		}
		c.scripts[0].feed <- batch("a2", 0, 1)
		c.emits(append(slices.Repeat([]string{"a1"}, 20), "a2")...)
	})
}

func TestFailuresOfFetchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		r := NewWith(engine{ctx: t.Context(), wake: make(chan struct{}, 1)}, func() (SplitReader[int, split], error) { return nil, refused }, FetcherPerSplit[split]())
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		if err := r.AddSplits([]split{{id: "a"}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := r.Poll(connector.NewOutput[int](1)); !errors.Is(err, refused) {
			t.Errorf("poll: %v, want %v", err, refused)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}

		c := gather(t, FetcherPerSplit[split]())
		c.add("a", "b")
		lost := errors.New("lost")
		c.scripts[1].fail <- lost
		synctest.Wait()
		if _, err := c.reader.Poll(c.out); !errors.Is(err, lost) {
			t.Errorf("poll: %v, want %v", err, lost)
		}
		if !c.scripts[1].closed {
			t.Error("the split reader that failed was not closed")
		}
	})
}

// brittle is a SplitReader whose fetch fails when it is told to stop, as that of
// a client which has closed its connection, and whose closing fails, too.
type brittle struct{ *script }

func (b brittle) Fetch(ctx context.Context, into *Batch[int]) error {
	if err := b.script.Fetch(ctx, into); err == nil || ctx.Err() == nil {
		return err
	}
	return errors.New("connection reset")
}

func (b brittle) Close() error { return errors.New("already closed") }

type logging struct {
	engine
	log *slog.Logger
}

func (l logging) Logger() *slog.Logger { return l.log }

// What fails because the reader ends is no failure of the source. Closing the
// fetcher of a finished split may fail; so may closing the reader, which says so.
func TestEndOfABrittleClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		e := logging{engine{ctx: t.Context(), wake: make(chan struct{}, 1)}, slog.New(slog.NewTextHandler(&lines, nil))}
		var scripts []*script
		r := NewWith(e, func() (SplitReader[int, split], error) {
			s := newScript()
			scripts = append(scripts, s)
			return brittle{s}, nil
		}, FetcherPerSplit[split]())
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "b"} {
			if err := r.AddSplits([]split{{id: id}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		scripts[0].feed <- last("a")
		synctest.Wait()
		out := connector.NewOutput[int](10)
		for range 2 {
			if _, err := r.Poll(out); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if _, err := r.Poll(out); err != nil || !strings.Contains(lines.String(), "already closed") {
			t.Errorf("closing the fetcher of a finished split: error %v, log %q", err, lines.String())
		}
		err := r.Close()
		if err == nil || err.Error() != "already closed" {
			t.Errorf("close returned %v, want the error of closing and nothing of the fetch", err)
		}
		if _, err := r.Poll(out); err != nil {
			t.Errorf("poll after close: %v", err)
		}
	})
}
