package checkpoint

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

// Region is a part of the job that exchanges no records with the others, and
// may start again alone.
type Region struct {
	ID    int
	Tasks []stage.TaskID
}

// RegionFailed tells that a region has failed, before its tasks are ended: no
// answer of theirs counts from here on. What is under way and not yet being
// published is given up, and no snapshot is taken until RegionRestarted. A job
// that is about to end does so with err.
func (c *Coordinator) RegionFailed(r Region, err error) {
	c.post(func(d *driver) { d.step(RegionFailed{r, err}) })
}

// RegionStopped tells that the tasks of a region that has failed have ended,
// and waits until it is known what it starts from: the newest checkpoint that
// this attempt has completed, or, if that is 0, what the attempt began from.
func (c *Coordinator) RegionStopped(ctx context.Context, r Region) (checkpoint int64, err error) {
	answer := make(chan int64, 1)
	c.post(func(d *driver) {
		d.regionStopped(r)
		d.regions[r.ID] = answer
		d.step(RegionStopped{r})
	})
	select {
	case id := <-answer:
		return id, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-c.done:
		return 0, ErrInterrupted
	}
}

// RegionRestarted tells that the tasks of a region take part again. They may
// report from here on.
func (c *Coordinator) RegionRestarted(r Region) {
	c.post(func(d *driver) { d.step(RegionRestarted{r}) })
}

// regionStopped no longer waits for answers of tasks that are gone. What they
// have not answered is dead.
func (d *driver) regionStopped(r Region) {
	for _, b := range d.barriers {
		for _, t := range r.Tasks {
			delete(b.missing, t)
		}
		if b.dead {
			d.forget(b)
		}
	}
}

func (d *driver) restoreRegion(a RestoreRegion) {
	d.regions[a.Region] <- a.From
	delete(d.regions, a.Region)
}

// The core's part.

type (
	// RegionFailed: the tasks of a region are being ended, because of Err.
	RegionFailed struct {
		Region Region
		Err    error
	}
	// RegionStopped: they have ended; the answer is a RestoreRegion.
	RegionStopped struct{ Region Region }
	// RegionRestarted: they are there again.
	RegionRestarted struct{ Region Region }

	// RestoreRegion tells where a region starts from: the checkpoint From, or
	// what the attempt began from if that is 0.
	RestoreRegion struct {
		Region int
		From   int64
	}
)

func (e RegionFailed) String() string {
	return fmt.Sprintf("region %d failed%s", e.Region.ID, cause(e.Err))
}
func (e RegionStopped) String() string   { return fmt.Sprintf("region %d stopped", e.Region.ID) }
func (e RegionRestarted) String() string { return fmt.Sprintf("region %d restarted", e.Region.ID) }
func (a RestoreRegion) String() string {
	return fmt.Sprintf("restore region %d from %d", a.Region, a.From)
}

// onRegionFailed gives up all that lacks an answer of the region, or may: what
// is published later must not hold more than the region goes on from.
func (c *Core) onRegionFailed(e RegionFailed) {
	if c.stop != nil || c.draining != nil || c.cancel != notCanceled {
		c.fail(e.Err)
		return
	}
	for _, t := range e.Region.Tasks {
		if c.tasks[t] {
			c.tasks[t] = false
			c.running++
		}
		c.down[t] = true
	}
	c.why = e.Err
	for _, p := range slices.Clone(c.pending) {
		if p != c.publishing {
			c.abort(p, fmt.Errorf("%w: %w", errRegionFailed, e.Err), true)
		}
	}
}

func (c *Core) onRegionRestarted(e RegionRestarted) {
	for _, t := range e.Region.Tasks {
		delete(c.down, t)
	}
	if len(c.down) > 0 {
		return
	}
	held := c.held
	c.held = nil
	for _, r := range held {
		c.onRequested(r)
	}
}

// restoreRegions answers those that have stopped, once it is known what the
// newest checkpoint is.
func (c *Core) restoreRegions() {
	if c.publishing != nil {
		return
	}
	for _, r := range c.stopped {
		c.do(RestoreRegion{r.ID, c.latest})
	}
	c.stopped = nil
}

// hold keeps a request until all regions are there. To suspend the job need not
// wait: the next start goes on from where this one has come to.
func (c *Core) hold(r Requested) {
	if !r.Stop || r.Kind != snapshot.Final {
		c.held = append(c.held, r)
		return
	}
	c.do(Reply{Token: r.Token, Err: c.why})
	c.fail(c.why)
}
