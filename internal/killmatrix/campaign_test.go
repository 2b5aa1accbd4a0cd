//go:build unix

package killmatrix

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// longest is how long a process may live before it is killed at a random
// moment. Starting and restoring take part of it, a checkpoint is due every
// tenth of a second.
const longest = 1500 * time.Millisecond

// campaign is one job with its topics, killed many times.
type campaign struct {
	*testing.T
	random   *rand.Rand
	address  string
	names    topics
	readings []reading
	feeder   *feeder
	dir      string
	// shared has the victims do without the directory's lock.
	shared      bool
	atLeastOnce bool
	interval    time.Duration // of checkpoints
	// parallelism of every start, 0 for one from 1 to 4.
	parallelism int
}

// usualRate is the rate in records per second at which input is written.
const usualRate = 600

// newCampaign starts to write an input of n records.
func newCampaign(t *testing.T, seed uint64, n int) *campaign {
	t.Helper()
	return newCampaignAt(t, seed, n, usualRate)
}

func newCampaignAt(t *testing.T, seed uint64, n, rate int) *campaign {
	t.Helper()
	c := &campaign{T: t, random: rand.New(rand.NewPCG(seed, 0x6b69_6c6c)), dir: t.TempDir(), interval: 100 * time.Millisecond}
	c.address, c.names = startBroker(t)
	c.readings = newReadings(n, c.random)
	c.feeder = feed(t, c.address, c.names.in, c.readings, rate)
	return c
}

func (c *campaign) checkpoints() string { return filepath.Join(c.dir, "checkpoints") }

// local is where state lies on local disk, if it does.
func (c *campaign) local() string { return filepath.Join(c.dir, "state") }

// start starts the job; point is where it dies or stops.
func (c *campaign) start(point string) *process {
	c.Helper()
	parallelism := c.parallelism
	if parallelism == 0 {
		parallelism = 1 + c.random.IntN(4)
	}
	args := []string{
		"-dir", c.checkpoints(), "-servers", c.address, "-records", fmt.Sprint(len(c.readings)),
		"-in", c.names.in, "-numbered", c.names.numbered, "-totals", c.names.totals,
		"-parallelism", fmt.Sprint(parallelism), "-interval", c.interval.String(),
	}
	if c.shared {
		args = append(args, "-shared")
	}
	if *onDisk {
		args = append(args, "-local", c.local())
	}
	if c.atLeastOnce {
		args = append(args, "-at-least-once")
	}
	return launch(c.T, filepath.Join(c.dir, "job.log"), point, args...)
}

// want checks how a process has ended.
func (c *campaign) want(p *process, e event, codes ...int) {
	c.Helper()
	for _, code := range codes {
		if e.code() == code {
			return
		}
	}
	c.Fatalf("process %d ended with code %d, status %v, want one of %v\n%s", p.pid, e.code(), e.status, codes, p.tail())
}

// life is how long a process lives that is killed at a random moment.
func (c *campaign) life() time.Duration { return time.Duration(c.random.Int64N(int64(longest))) }

// killAtRandom kills a process at a random moment. In some its attempt fails
// before, and is followed by another.
func (c *campaign) killAtRandom() {
	c.Helper()
	p := c.start("")
	fail := c.random.IntN(3) == 0
	e := p.live(c.T, c.life(), func(e event) {
		if e.kind == "started" && fail {
			p.signal(failSignal)
			fail = false
		}
	})
	c.want(p, e, -1)
	all.kills.Add(1)
}

// tries is how many checkpoints a process completes before it is killed
// although it has not come to its kill point.
const tries = 15

// killAt has a process die at a point; nudge is the signal that leads it
// there, sent after its first checkpoint, 0 for none. It returns false if the
// process has not come there: it was killed elsewhere, or stopped.
func (c *campaign) killAt(point string, nudge syscall.Signal) (reached bool) {
	c.Helper()
	p := c.start(point)
	for completed := 0; ; {
		switch e := p.next(c.T); e.kind {
		case "completed":
			completed++
			if completed == 1 && nudge != 0 {
				p.signal(nudge)
			}
			if completed == tries {
				p.killed = true
				p.signal(syscall.SIGKILL)
			}
		case "failed":
			c.Errorf("an attempt failed\n%s", p.tail())
		case "exited":
			if e.code() != -1 {
				c.want(p, e, exitStopped, exitCanceled)
				return false
			}
			all.kills.Add(1)
			return !p.killed
		}
	}
}

// halt has a process end by itself, by a signal after n checkpoints.
func (c *campaign) halt(n int, signal syscall.Signal, code int) {
	c.Helper()
	p := c.start("")
	p.awaitCompleted(c.T, n)
	p.signal(signal)
	c.want(p, p.await(c.T, "exited"), code)
	all.halts.Add(1)
	if code == exitStopped {
		// All that it took is committed, and nothing is left open.
		committed[numbered](c.T, c.address, c.names.numbered)
		committed[total](c.T, c.address, c.names.totals)
	}
}

// finish writes the rest of the input, kills the job up to n times while it
// reads it, and lets it come to its end.
func (c *campaign) finish(n int) {
	c.Helper()
	c.feeder.rest(c.T)
	for range n {
		p := c.start("")
		e := p.live(c.T, c.life(), func(event) {})
		c.want(p, e, -1, exitFinished)
		if e.code() == exitFinished {
			break
		}
		all.kills.Add(1)
	}
	// A job that has finished has nothing more to do.
	for range 2 {
		p := c.start("")
		c.want(p, p.await(c.T, "exited"), exitFinished)
	}
}

// faults compares the output with the input.
func (c *campaign) faults() []fault {
	c.Helper()
	return append(
		checkNumbered(c.readings, committed[numbered](c.T, c.address, c.names.numbered)),
		checkTotals(c.readings, committed[total](c.T, c.address, c.names.totals))...)
}

// conclude brings the job to its end and holds its output to be exact.
func (c *campaign) conclude() {
	c.Helper()
	c.finish(2)
	if _, err := os.Stat(c.local()); *onDisk != (err == nil) {
		c.Errorf("state on local disk: want %v, and its directory: %v", *onDisk, err)
	}
	c.wantNothingLeft()
	faults := c.faults()
	for i, f := range faults {
		if i == 20 {
			break
		}
		c.Error(f)
	}
	if c.Failed() {
		c.keep()
	}
	if len(faults) > 0 {
		c.Fatalf("%d faults", len(faults))
	}
	all.records.Add(int64(len(c.readings)))
}
