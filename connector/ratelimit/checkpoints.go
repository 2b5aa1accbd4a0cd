package ratelimit

import (
	"fmt"

	"github.com/weirstream/weir/connector"
)

// Checkpoints is a limit of records from one completed checkpoint to the next:
// what comes out of a job per checkpoint then is bounded, too, and a test can
// go from checkpoint to checkpoint.
type Checkpoints struct{ records int }

// PerCheckpoint lets n records of all readers together pass, and n further ones
// after each checkpoint that completes. Each reader gets the same part of them;
// n must be one for each at least.
func PerCheckpoint(n int) *Checkpoints { return &Checkpoints{n} }

// Join implements Limiter.
func (c *Checkpoints) Join(ctx connector.ReaderContext) (Share, error) {
	p := ctx.Parallelism()
	if c.records < p {
		return nil, fmt.Errorf("rate limit of %d records per checkpoint for %d readers; give at least %d, or lower the parallelism of the source", c.records, p, p)
	}
	if ctx.Config().CheckpointInterval <= 0 {
		return nil, fmt.Errorf("rate limit of %d records per checkpoint in a job without checkpoints; set execution.checkpointing.interval", c.records)
	}
	part := c.records / p
	if ctx.Subtask() < c.records%p {
		part++
	}
	return &gate{wake: ctx.Wake, part: part, left: part}, nil
}

// gate is one reader's part, until the next checkpoint.
type gate struct {
	wake       func()
	part, left int
}

func (g *gate) Allow(want int) int { return min(want, max(0, g.left)) }
func (g *gate) Used(n int, _ bool) { g.left -= n }

// CheckpointComplete opens the gate again. What was emitted too much counts.
func (g *gate) CheckpointComplete() {
	g.left = min(g.part, g.left+g.part)
	g.wake()
}

func (g *gate) Close() {}
