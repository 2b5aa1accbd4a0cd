package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// floatKey reads keys that do not equal themselves, or each other.
func floatKey(v string) float64 {
	switch v {
	case "NaN1":
		return math.Float64frombits(0x7ff8000000000001)
	case "NaN2":
		return math.Float64frombits(0x7ff8000000000002)
	case "-0":
		return math.Copysign(0, -1)
	}
	return 0
}

type floatCounter struct{ n state.Value[int64] }

func newFloatCounter(r *state.Registry) *floatCounter {
	return &floatCounter{n: state.ValueIn[int64](r, "n")}
}

func (f *floatCounter) Process(c *stream.Ctx[float64, string], _ string) error {
	n, err := f.n.Get()
	if err != nil {
		return err
	}
	c.Emit(fmt.Sprintf("%v=%d", math.Abs(c.Key()), n+1))
	return f.n.Set(n + 1)
}

// failingCommits is a sink whose commits fail while fail is set.
type failingCommits struct {
	*collect.Sink[string]
	fail atomic.Bool
}

func (s *failingCommits) NewCommitter(c connector.CommitterContext) (connector.Committer[collect.Committable], error) {
	inner, err := s.Sink.NewCommitter(c)
	return &failingCommitter{inner, s}, err
}

type failingCommitter struct {
	connector.Committer[collect.Committable]
	sink *failingCommits
}

func (c *failingCommitter) Commit(ctx context.Context, cs []collect.Committable) error {
	if c.sink.fail.Load() && len(cs) > 0 {
		return errors.New("no commits today")
	}
	return c.Committer.Commit(ctx, cs)
}
