package streamtest

import (
	"fmt"
	"math/rand/v2"
)

// Crash says where a start of a job crashes: its subtasks end where they stand,
// with everything that lies behind the last completed checkpoint. The job then
// starts again from there, in the next start of the run. Each start of a run
// takes the next crash, and what follows the last one runs to the end.
type Crash struct {
	record     int64
	checkpoint int
	random     bool
	seed       uint64
	// then is the parallelism after it, where it is set.
	then    int
	thenSet bool
}

// AtRecord crashes when the sources of the start have emitted n records.
// Checkpoints are taken on the way: see CheckpointEvery.
func AtRecord(n int) Crash { return Crash{record: int64(n)} }

// AfterCheckpoint crashes when the start has completed n checkpoints, before the
// sources emit another record.
func AfterCheckpoint(n int) Crash { return Crash{checkpoint: n} }

// AtRandom crashes at one of the records that are left for the start, or after a
// checkpoint, drawn by the seed. If none are left it does not crash. The start
// that follows has a parallelism from 1 to 4 drawn as well, unless Then says
// otherwise. The log of the test tells what was drawn.
func AtRandom(seed uint64) Crash { return Crash{random: true, seed: seed} }

// Then gives the start after the crash, and those that follow, a parallelism.
// Without it the parallelism stays.
func (c Crash) Then(parallelism int) Crash {
	c.then, c.thenSet = parallelism, true
	return c
}

func (c Crash) forRun(s *script) { s.crashes = append(s.crashes, c) }

func (c Crash) String() string {
	switch {
	case c.checkpoint > 0:
		return fmt.Sprintf("the crash after checkpoint %d", c.checkpoint)
	case c.random && c.record == 0:
		return fmt.Sprintf("the crash at random, of seed %d,", c.seed)
	}
	return fmt.Sprintf("the crash at record %d", c.record)
}

// check tells what is wrong with a crash.
func (c Crash) check() error {
	switch {
	case c.thenSet && c.then < 1:
		return fmt.Errorf("Then(%d): an operator has 1 subtask or more", c.then)
	case !c.random && c.record < 1 && c.checkpoint < 1:
		return fmt.Errorf("%v cannot be: records and checkpoints count from 1", c)
	}
	return nil
}

// draw settles a random crash, for a start that has so many records left and
// takes a checkpoint every so many.
func (c Crash) draw(left, every int64) Crash {
	if !c.random || left < 1 {
		return c
	}
	random := rand.New(rand.NewPCG(c.seed, 0))
	if checkpoints := min(left/every, 3); random.IntN(4) == 0 && checkpoints > 0 {
		c.checkpoint = 1 + int(random.Int64N(checkpoints))
	} else {
		c.record = 1 + random.Int64N(left)
	}
	if !c.thenSet {
		c.then = 1 + random.IntN(4)
	}
	return c
}

// script is how a run goes.
type script struct {
	// parallelism is that of the next start, 0 for that of the job's code.
	parallelism int
	every       int64
	crashes     []Crash
	refusals
}

type runOption func(*script)

func (o runOption) forRun(s *script) { o(s) }

// CheckpointEvery takes a checkpoint whenever the sources of a start have
// emitted n further records. The default is an eighth of all records.
func CheckpointEvery(n int) RunOption {
	return runOption(func(s *script) {
		if s.every = int64(n); n < 1 {
			s.refuse("CheckpointEvery(%d): give a number of records above 0", n)
		}
	})
}

func scriptOf(opts []RunOption) (script, error) {
	var s script
	for i, o := range opts {
		if o == nil {
			s.refuse("option %d is nil", i+1)
			continue
		}
		o.forRun(&s)
	}
	for _, c := range s.crashes {
		if err := c.check(); err != nil {
			s.refuse("%w", err)
		}
	}
	return s, s.err()
}
