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
		if missing := all.missing(killpoint.Labels()); len(missing) > 0 {
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

// zombiePoints are where a process is paused, and overtaken by another start.
var zombiePoints = []string{
	"start.begin,1", "ledger.append.claim,1", "start.claimed,1", "start.listed,1", "start.chosen,1", "ledger.append.restored,1",
	"start.recorded,1", "resolve.committed,1", "sweep.list,1", "sweep.listed,1", "sweep.reread,2", "tasks.make,1", "tasks.start,1", "transaction.begun,1",
	"transaction.begun,3", "precommit.flush,2", "precommit.flushed,3", "precommit.done,2", "snapshot.written,3", "metadata.store,1", "metadata.store,3",
	"file.torn.metadata,2", "file.synced.metadata,2", "file.placed.metadata,2", "metadata.stored,2", "metadata.reread,2", "complete.begin,3",
	"complete.notified,2", "commit.begin,2", "commit.send,2", "commit.sent,2", "commit.end,2", "complete.reusable,3", "delete.begin,2", "delete.half,1",
}

// A paused process that goes on after another has taken its place changes
// nothing, and one of the two ends fenced.
func TestPausedProcessesAreOvertaken(t *testing.T) {
	needKillPoints(t)
	eachSeed(t, func(t *testing.T, seed uint64) {
		c := newCampaign(t, seed, 60_000)
		c.shared = true
		points := append([]string{"", "", "", ""}, zombiePoints...)
		c.random.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		for _, point := range points {
			c.overtake(point)
		}
		c.conclude()
	})
}

// overtake pauses a process at a point, "" for a random moment, starts another
// one, and lets the first go on.
func (c *campaign) overtake(point string) {
	c.Helper()
	if point != "" {
		point += ",stop"
	}
	zombie := c.start(point)
	if point == "" {
		<-time.After(time.Duration(c.random.Int64N(int64(longest))))
		zombie.signal(syscall.SIGSTOP)
	}
	for completed := 0; ; {
		e := zombie.next(c.T)
		if e.kind == "paused" {
			break
		}
		if e.kind == "completed" {
			completed++
		}
		if e.kind == "exited" || completed == tries && point != "" {
			c.Logf("not reached: pause at %s", point)
			zombie.end()
			return
		}
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
	c.oneFenced(zombie, heir, point)
	all.zombies.Add(1)
}

// oneFenced waits until one of two processes has ended fenced, and kills the
// other once it has completed checkpoints alone.
func (c *campaign) oneFenced(a, b *process, point string) {
	c.Helper()
	deadline := time.After(patience)
	for {
		var e event
		p, other := a, b
		select {
		case e = <-a.events:
		case e = <-b.events:
			p, other = b, a
		case <-deadline:
			c.Fatalf("paused at %q: none of two processes ended\n%s", point, a.tail())
		}
		if e.kind != "exited" {
			continue
		}
		p.exited = true
		c.want(p, e, exitFenced)
		if !other.awaitCompleted(c.T, 2) {
			c.Fatalf("paused at %q: both processes have ended\n%s", point, a.tail())
		}
		c.want(other, other.kill(c.T), -1)
		all.kills.Add(1)
		return
	}
}

// The comparison must find what a sink that promises less does.
func TestAtLeastOnceIsNotEnough(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		c := newCampaign(t, seed, 20_000)
		c.atLeastOnce = true
		for range 5 {
			p := c.start("")
			p.awaitCompleted(t, 2)
			<-time.After(60 * time.Millisecond) // into the next interval
			c.want(p, p.kill(t), -1)
		}
		c.finish(0)
		found := map[string]int{}
		for _, f := range c.faults() {
			found[f.kind]++
		}
		if found["duplicated"] == 0 {
			t.Errorf("a sink that delivers at least once was killed 5 times, and no duplicate was found: %v", found)
		}
		if found["lost"] > 0 {
			t.Errorf("%d records are lost", found["lost"])
		}
	})
}
