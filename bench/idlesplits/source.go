package main

import (
	"context"
	"strconv"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/splitreader"
)

// source has splits that bring a record each, and then nothing, for ever.
type source struct{ splits int }

type split struct{ Number, Next int64 }

func (s split) SplitID() string        { return strconv.FormatInt(s.Number, 10) }
func (s split) At(next, _ int64) split { s.Next = next; return s }

func (source) Bounded() bool                      { return false }
func (source) SplitCodec() codec.Codec[split]     { return codec.JSON[split]() }
func (source) EnumeratorCodec() codec.Codec[bool] { return codec.JSON[bool]() }

func (s *source) NewEnumerator(ctx connector.EnumeratorContext[split], _ *bool) (connector.Enumerator[split, bool], error) {
	return enumerator{s.splits, ctx}, nil
}

func (s *source) NewReader(ctx connector.ReaderContext) (connector.Reader[int, split], error) {
	return splitreader.New(ctx, &client{}), nil
}

// enumerator gives all splits to the one reader.
type enumerator struct {
	splits int
	ctx    connector.EnumeratorContext[split]
}

func (e enumerator) AddReader(subtask int) error {
	all := make([]split, e.splits)
	for i := range all {
		all[i].Number = int64(i)
	}
	return e.ctx.Assign(subtask, all...)
}

func (enumerator) Start() error                         { return nil }
func (enumerator) HandleSplitRequest(int, string) error { return nil }
func (enumerator) AddSplitsBack([]split, int) error     { return nil }
func (enumerator) HandleSourceEvent(int, any) error     { return nil }
func (enumerator) Snapshot(int64) (bool, error)         { return true, nil }
func (enumerator) CheckpointComplete(int64) error       { return nil }
func (enumerator) Close() error                         { return nil }

// client is the SplitReader.
type client struct{ fresh []split }

func (c *client) HandleSplits(added []split) error {
	c.fresh = append(c.fresh, added...)
	return nil
}

func (c *client) Fetch(ctx context.Context, into *splitreader.Batch[int]) error {
	if len(c.fresh) == 0 {
		c.fresh = nil
		<-ctx.Done()
		return ctx.Err()
	}
	s := c.fresh[0]
	c.fresh = c.fresh[1:]
	into.Split, into.End = s.SplitID(), 1
	into.Append(int(s.Number), s.Number, 1)
	return nil
}

func (c *client) Close() error { return nil }
