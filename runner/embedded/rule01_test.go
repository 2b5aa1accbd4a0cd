package embedded_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

// TestRule01KilledAtEveryStep kills a process at each of its steps in turn,
// before and after the effect, and starts the job again.
func TestRule01KilledAtEveryStep(t *testing.T) {
	var seen []string
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			c, blobs := newCrashJob(3), mem.New()
			first := killedAt(n, after)
			err := c.run(t, blobs, first, 2)
			if !first.stood() && err != nil {
				t.Fatalf("a run that nobody kills: %v", err)
			}
			c.finish(t, blobs, 3, first.String())
			if !first.stood() {
				seen = first.names
				break
			}
		}
	}
	wantEveryStep(t, seen)
}

// TestRule01PausedAtEveryStep pauses a process at each of its steps, has another
// one run the job to its end, and lets the first one go on.
func TestRule01PausedAtEveryStep(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			c, blobs := newCrashJob(3), mem.New()
			zombie := pausedAt(n, after)
			ended := c.launch(t, blobs, zombie, 2)
			stands := wait(zombie, ended)
			c.finish(t, blobs, 3, zombie.String())
			close(zombie.goOn)
			<-ended
			c.checkOutput(t, "after the zombie, which stood at "+zombie.String())
			if !stands {
				break
			}
		}
	}
}

// TestRule01TwoZombies pauses a process at a step, pauses or kills another one
// at one of its own, and lets them go on in either order, sometimes while a
// third one runs.
func TestRule01TwoZombies(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 5))
		c, blobs := newCrashJob(3), mem.New()
		first := pausedAt(1+r.IntN(120), r.IntN(2) == 0)
		firstEnded := c.launch(t, blobs, first, 1+r.IntN(3))
		wait(first, firstEnded)
		if r.IntN(2) == 0 {
			c.openAll()
		}
		second := pausedAt(1+r.IntN(80), r.IntN(2) == 0)
		killed := r.IntN(2) == 0
		if killed {
			second = killedAt(1+r.IntN(80), r.IntN(2) == 0)
		}
		secondEnded := c.launch(t, blobs, second, 1+r.IntN(3))
		wait(second, secondEnded)
		when := fmt.Sprintf("seed %d, zombies at %v and %v", seed, first, second)

		zombies := []func(){
			func() { close(first.goOn); <-firstEnded },
			func() {
				if !killed {
					close(second.goOn)
				}
				<-secondEnded
			},
		}
		c.openAll()
		var third chan error
		if r.IntN(2) == 0 { // all three at once
			third = c.launch(t, blobs, unlimited(), 2)
		}
		for _, i := range r.Perm(2) {
			zombies[i]()
		}
		if third != nil {
			<-third
		}
		if err := c.run(t, blobs, unlimited(), 2); err != nil && !errors.Is(err, coord.ErrFinished) {
			t.Fatalf("%s: the last start: %v", when, err)
		}
		c.checkOutput(t, when)
	}
}

// TestRule01KilledAgainAndAgain kills several processes in a row, each at a
// random step.
func TestRule01KilledAgainAndAgain(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		c, blobs := newCrashJob(3), mem.New()
		for range 1 + r.IntN(6) {
			s := killedAt(1+r.IntN(60), r.IntN(2) == 0)
			err := c.run(t, blobs, s, 1+r.IntN(3))
			if err != nil && !s.stood() && !errors.Is(err, coord.ErrFinished) {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		c.finish(t, blobs, 2, fmt.Sprintf("seed %d", seed))
	}
}

// launch runs the job in a process beside the test.
func (c *crashJob) launch(t *testing.T, blobs storage.Blobs, s *steps, parallelism int) chan error {
	s.contested = true
	ended := make(chan error, 2)
	go func() { ended <- c.run(t, blobs, s, parallelism) }()
	return ended
}

// wait waits until a process stands, or has ended before that.
func wait(s *steps, ended chan error) (stands bool) {
	select {
	case <-s.stands:
		return true
	case err := <-ended:
		ended <- err
		return false
	}
}

// finish runs the job to its end, undisturbed, and checks what is committed.
func (c *crashJob) finish(t *testing.T, blobs storage.Blobs, parallelism int, when string) {
	t.Helper()
	c.openAll()
	if err := c.run(t, blobs, unlimited(), parallelism); err != nil && !errors.Is(err, coord.ErrFinished) {
		t.Fatalf("%s: the start after it: %v", when, err)
	}
	c.check(t, when)
}

// wantEveryStep checks that the steps of a run are those that the rules speak
// of.
func wantEveryStep(t *testing.T, names []string) {
	t.Helper()
	for _, step := range []string{
		`list test/ledger/`, `create test/ledger/0000000001`, `list test/`, `create test/ledger/0000000002`, // claim, look, restored
		`list open transactions`, `abort open transactions`, `open a writer`,
		`flush`, `pre-commit`, `put test/chk-\d+/.*`, `create test/chk-\d+/_metadata`, `get test/ledger/0000000003`, // still the newest claim?
		`commit .*`, `delete test/chk-\d+/.*`, `create .*/_committed`, `create test/ledger/0000000003`, `create test/ledger/0000000004`, // stopping, stopped
	} {
		if !slices.ContainsFunc(names, regexp.MustCompile("^"+step+"$").MatchString) {
			t.Errorf("no run stood at a step like %q; there are %q", step, names)
		}
	}
}
