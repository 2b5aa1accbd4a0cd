package splitreader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/splitreader"
)

// span is a split: the numbers from Next up to Last, of a server.
type span struct {
	Server     string
	First      int64
	Next, Last int64
	// Odd is how many odd numbers were read, of a source that counts.
	Odd int64
}

func (s span) SplitID() string              { return fmt.Sprint("from-", s.First) }
func (s span) At(next, _ int64) span        { s.Next = next; return s }
func spanOf(server string, a, b int64) span { return span{Server: server, First: a, Next: a, Last: b} }

var all = []span{spanOf("x", 0, 7), spanOf("y", 100, 103), spanOf("x", 200, 212), spanOf("z", 300, 309)}

func numbers() (n []int64) {
	for _, s := range all {
		for i := s.First; i < s.Last; i++ {
			n = append(n, i)
		}
	}
	return n
}

// spans is a source on the kit.
type spans struct {
	reader func(connector.ReaderContext) (connector.Reader[int64, span], error)
}

func (spans) Bounded() bool                        { return true }
func (spans) SplitCodec() codec.Codec[span]        { return codec.JSON[span]() }
func (spans) EnumeratorCodec() codec.Codec[[]span] { return codec.JSON[[]span]() }

func (spans) NewEnumerator(ctx connector.EnumeratorContext[span], restored *[]span) (connector.Enumerator[span, []span], error) {
	if restored != nil {
		return &dealer{ctx: ctx, left: *restored}, nil
	}
	return &dealer{ctx: ctx, left: slices.Clone(all)}, nil
}

func (s spans) NewReader(ctx connector.ReaderContext) (connector.Reader[int64, span], error) {
	ctx.RequestSplit()
	return s.reader(ctx)
}

// dealer gives each reader that asks two spans at once.
type dealer struct {
	ctx  connector.EnumeratorContext[span]
	left []span
}

func (d *dealer) HandleSplitRequest(subtask int, _ string) error {
	if len(d.left) == 0 {
		return d.ctx.NoMoreSplits(subtask)
	}
	n := min(2, len(d.left))
	next := d.left[:n]
	d.left = d.left[n:]
	return d.ctx.Assign(subtask, next...)
}

func (d *dealer) AddSplitsBack(s []span, _ int) error { d.left = append(d.left, s...); return nil }
func (d *dealer) Snapshot(int64) ([]span, error)      { return append([]span{}, d.left...), nil }
func (d *dealer) Start() error                        { return nil }
func (d *dealer) AddReader(int) error                 { return nil }
func (d *dealer) HandleSourceEvent(int, any) error    { return nil }
func (d *dealer) CheckpointComplete(int64) error      { return nil }
func (d *dealer) Close() error                        { return nil }

// client is a SplitReader: it fetches three numbers of one span, then of the
// next.
type client struct {
	spans  []span
	closed bool
}

func open() (splitreader.SplitReader[int64, span], error) { return &client{}, nil }

func (c *client) HandleSplits(added []span) error {
	c.spans = append(c.spans, added...)
	return nil
}

func (c *client) Fetch(_ context.Context, into *splitreader.Batch[int64]) error {
	s := c.spans[0]
	c.spans = c.spans[1:]
	into.Split = s.SplitID()
	for range 3 {
		if s.Next == s.Last {
			break
		}
		s.Next++
		into.Append(s.Next-1, s.Next-1, s.Next)
	}
	into.End, into.Finished = s.Next, s.Next == s.Last
	if !into.Finished {
		c.spans = append(c.spans, s)
	}
	return nil
}

func (c *client) Close() error {
	if c.closed {
		return errors.New("closed twice")
	}
	c.closed = true
	return nil
}

// request asks for more whenever a span is finished.
func request(ctx connector.ReaderContext) splitreader.Option {
	return splitreader.OnFinished(func(string) { ctx.RequestSplit() })
}

func TestAcceptance(t *testing.T) {
	models := map[string]splitreader.Model[span]{
		"one":       splitreader.OneFetcher[span](),
		"per split": splitreader.FetcherPerSplit[span](),
		"pool":      splitreader.FetcherPool[span](2),
		"by server": splitreader.FetcherBy(func(s span) string { return s.Server }),
	}
	for name, m := range models {
		suite := connectortest.SourceSuite[int64, span, []span]{Want: numbers(), Time: func(v int64) int64 { return v % 100 }}
		t.Run(name, func(t *testing.T) {
			suite.New = func() connector.Source[int64, span, []span] {
				return spans{func(ctx connector.ReaderContext) (connector.Reader[int64, span], error) {
					return splitreader.NewWith(ctx, open, m, request(ctx)), nil
				}}
			}
			connectortest.TestSource(t, suite)
		})
		t.Run(name+" with state", func(t *testing.T) {
			suite.New = func() connector.Source[int64, span, []span] {
				return spans{func(ctx connector.ReaderContext) (connector.Reader[int64, span], error) {
					return splitreader.NewStateful(ctx, open, m, counting(), request(ctx))
				}}
			}
			connectortest.TestSource(t, suite)
		})
	}
	t.Run("given", func(t *testing.T) {
		connectortest.TestSource(t, connectortest.SourceSuite[int64, span, []span]{
			Want: numbers(),
			New: func() connector.Source[int64, span, []span] {
				return spans{func(ctx connector.ReaderContext) (connector.Reader[int64, span], error) {
					return splitreader.New(ctx, &client{}, request(ctx)), nil
				}}
			},
		})
	})
}

// counting counts the odd numbers of each span in its state.
func counting() splitreader.Hooks[int64, int64, span, span] {
	return splitreader.Hooks[int64, int64, span, span]{
		Initial: func(s span) span { return s },
		Emit: func(elements, times []int64, s *span, out *connector.Output[int64]) error {
			for i, v := range elements {
				s.Next, s.Odd = v+1, s.Odd+v%2
				out.EmitAt(v, times[i])
			}
			return nil
		},
		Split: func(_ string, s *span) span { return *s },
	}
}
