//go:build unix

package killmatrix

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/killpoint"
)

var (
	kills = flag.Int("kills", 10, "how often each seed kills its job at random moments")
	seeds = flag.Uint64("seeds", 1, "how many seeds are tried")
	seed  = flag.Uint64("seed", 1, "the first seed: of the input, the order and the moments of the kills")
	logs  = flag.String("logs", "", "directory to keep the logs and snapshots of a job that failed")
)

// eachSeed runs a campaign for each seed, one after the other.
func eachSeed(t *testing.T, campaign func(t *testing.T, seed uint64)) {
	t.Helper()
	if testing.Short() {
		t.Skip("kills child processes for seconds")
	}
	for s := *seed; s < *seed+*seeds; s++ {
		t.Run(fmt.Sprintf("seed-%d", s), func(t *testing.T) { campaign(t, s) })
	}
}

func needKillPoints(t *testing.T) {
	t.Helper()
	if !killpoint.On {
		t.Skip("kill points are not compiled in: go test -tags killpoints")
	}
}

// keep saves what a failed campaign has left.
func (c *campaign) keep() {
	c.Helper()
	if *logs == "" {
		return
	}
	to := filepath.Join(*logs, strings.ReplaceAll(c.Name(), "/", "-"))
	if err := os.CopyFS(to, os.DirFS(c.dir)); err != nil {
		c.Logf("keeping %s: %v", c.dir, err)
	}
	c.Logf("kept in %s; topics %+v", to, c.names)
}

func TestKillsAtRandomMoments(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		c := newCampaign(t, seed, 20_000+400**kills)
		for range *kills {
			c.killAtRandom()
		}
		c.conclude()
	})
}

func TestKillsAtEveryPoint(t *testing.T) {
	needKillPoints(t)
	eachSeed(t, func(t *testing.T, seed uint64) {
		c := newCampaign(t, seed, 150_000)
		list := blows()
		c.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, b := range list {
			if !c.strike(b) {
				t.Logf("not reached: %v", b)
				continue
			}
			all.at(b.label)
		}
		if c.strikeDiscard() {
			all.at(discardPoint)
		}
		c.conclude()
		if missing := all.missing(needed()); len(missing) > 0 {
			t.Errorf("not reached at any count: %v", missing)
		}
	})
}

// A stop publishes all that was read before it returns, and the same command
// goes on behind it.
func TestStopsAndResumes(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		c := newCampaign(t, seed, 20_000)
		for i := range 6 {
			signal, code := suspendSignal, exitStopped
			switch i % 3 {
			case 1:
				signal = stopSignal
			case 2:
				signal, code = cancelSignal, exitCanceled
			}
			c.halt(1+c.random.IntN(3), signal, code)
			if c.random.IntN(2) == 0 {
				c.killAtRandom()
			}
		}
		c.conclude()
	})
}

// A paused process that goes on after another has taken its place changes
// nothing, and one of the two ends fenced. It must have been paused at every
// label; whether also at the last count of it, on the way to a stop, depends on
// what there is to commit.
func TestPausedProcessesAreOvertaken(t *testing.T) {
	needKillPoints(t)
	eachSeed(t, func(t *testing.T, seed uint64) {
		c := newCampaign(t, seed, 60_000)
		c.shared = true
		list := pauses()
		c.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		paused := map[string]bool{}
		for _, b := range list {
			if !c.overtake(b) {
				t.Logf("not reached: pause at %v", b)
				continue
			}
			paused[b.label] = true
		}
		c.conclude()
		for _, b := range list {
			if !paused[b.label] {
				t.Errorf("not reached at any count: pause at %s", b.label)
			}
		}
	})
}

// overtake pauses a process, starts another one, and lets the first go on. It
// reports whether the process came to the point.
func (c *campaign) overtake(b blow) bool {
	c.Helper()
	var zombie *process
	c.insist(func() bool { zombie = c.pause(b); return zombie != nil })
	if zombie == nil {
		return false
	}
	heir := c.start("")
	if c.random.IntN(3) == 0 { // one more start between
		heir.awaitCompleted(c.T, 1)
		heir.kill(c.T)
		all.kills.Add(1)
		heir = c.start("")
	}
	heir.awaitCompleted(c.T, 1+c.random.IntN(5))
	zombie.signal(syscall.SIGCONT)
	c.oneEnds(zombie, heir, b)
	all.zombies.Add(1)
	return true
}

// pause starts a process and returns it when it is paused, nil if it does not
// come to that.
func (c *campaign) pause(b blow) *process {
	c.Helper()
	point := ""
	if b.label != "" {
		point = fmt.Sprintf("%s,%d,stop", b.label, b.count)
	}
	p := c.start(point)
	if point == "" {
		<-time.After(c.life())
		p.signal(syscall.SIGSTOP)
	}
	for completed := 0; ; {
		switch e := p.next(c.T); e.kind {
		case "paused":
			return p
		case "completed":
			if completed++; completed == 1 && b.nudge != 0 {
				p.signal(b.nudge)
			}
			if completed == tries && point != "" {
				p.end()
				return nil
			}
		case "exited":
			c.want(p, e, exitStopped)
			return nil
		}
	}
}

// oneEnds waits until one of two processes has ended, fenced, and kills the
// other once it has completed checkpoints alone. A paused one that had as good
// as stopped may end so.
func (c *campaign) oneEnds(paused, heir *process, b blow) {
	c.Helper()
	deadline := time.After(patience)
	for {
		var e event
		p, other := paused, heir
		select {
		case e = <-paused.events:
		case e = <-heir.events:
			p, other = heir, paused
		case <-deadline:
			c.Fatalf("paused at %v: none of two processes ended\n%s", b, paused.tail())
		}
		if e.kind != "exited" {
			continue
		}
		p.exited = true
		if p == paused && b.nudge != 0 {
			c.want(p, e, exitFenced, exitStopped)
		} else {
			c.want(p, e, exitFenced)
		}
		if !other.awaitCompleted(c.T, 2) {
			c.Fatalf("paused at %v: both processes have ended\n%s", b, paused.tail())
		}
		c.want(other, other.kill(c.T), -1)
		all.kills.Add(1)
		return
	}
}

// The comparison must find what a sink that promises less does. The job dies
// when all of an interval is written and its checkpoint is not yet complete.
func TestAtLeastOnceIsNotEnough(t *testing.T) {
	needKillPoints(t)
	eachSeed(t, func(t *testing.T, seed uint64) {
		c := newCampaign(t, seed, 20_000)
		c.atLeastOnce = true
		for range 3 {
			if !c.killAt("metadata.store,3", 0) {
				t.Fatal("the job did not come to its third checkpoint")
			}
		}
		c.finish(0)
		found := map[string]int{}
		for _, f := range c.faults() {
			found[f.kind]++
		}
		if found["duplicated"] == 0 {
			t.Errorf("a sink that delivers at least once was killed 3 times, and no duplicate was found: %v", found)
		}
		if found["lost"] > 0 {
			t.Errorf("%d records are lost", found["lost"])
		}
	})
}
