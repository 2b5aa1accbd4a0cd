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
	then       int
}

// AtRecord crashes when the sources of the start have emitted n records.
// Checkpoints are taken on the way: see CheckpointEvery.
func AtRecord(n int) Crash { return Crash{record: int64(n)} }

// AfterCheckpoint crashes when the start has completed n checkpoints, before the
// sources emit another record.
func AfterCheckpoint(n int) Crash { return Crash{checkpoint: n} }

// AtRandom crashes at a record, or after a checkpoint, drawn by the seed; not at
// all if the input ends before. The start that follows has a parallelism from 1
// to 4 drawn as well, unless Then says otherwise.
func AtRandom(seed uint64) Crash { return Crash{random: true, seed: seed} }

// Then gives the start after the crash, and those that follow, a parallelism.
// Without it the parallelism stays.
func (c Crash) Then(parallelism int) Crash {
	c.then = parallelism
	return c
}

func (c Crash) forRun(s *script) { s.crashes = append(s.crashes, c) }

func (c Crash) String() string {
	if c.checkpoint > 0 {
		return fmt.Sprintf("the crash after checkpoint %d", c.checkpoint)
	}
	return fmt.Sprintf("the crash at record %d", c.record)
}

// check tells what is wrong with a crash.
func (c Crash) check() error {
	switch {
	case c.then < 0:
		return fmt.Errorf("a job cannot start with parallelism %d", c.then)
	case !c.random && c.record < 1 && c.checkpoint < 1:
		return fmt.Errorf("%v cannot be: records and checkpoints count from 1", c)
	}
	return nil
}

// draw settles a random crash, for a job that reads so many records.
func (c Crash) draw(records int64) Crash {
	if !c.random {
		return c
	}
	random := rand.New(rand.NewPCG(c.seed, 0))
	if random.IntN(4) == 0 {
		c.checkpoint = 1 + random.IntN(3)
	} else {
		c.record = 1 + random.Int64N(max(records, 1))
	}
	if c.then == 0 {
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
}

type runOption func(*script)

func (o runOption) forRun(s *script) { o(s) }

// CheckpointEvery takes a checkpoint whenever the sources of a start have
// emitted n further records. The default is an eighth of all records.
func CheckpointEvery(n int) RunOption { return runOption(func(s *script) { s.every = int64(n) }) }

func scriptOf(opts []RunOption) (script, error) {
	var s script
	for _, o := range opts {
		o.forRun(&s)
	}
	if s.parallelism < 0 {
		return s, fmt.Errorf("a job cannot start with parallelism %d", s.parallelism)
	}
	if s.every < 0 {
		return s, fmt.Errorf("CheckpointEvery(%d): give a number of records above 0", s.every)
	}
	for _, c := range s.crashes {
		if err := c.check(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// settle draws what is random, for a job that reads so many records.
func (s *script) settle(records int64) {
	if s.every == 0 {
		s.every = max(records/8, 1)
	}
	for i, c := range s.crashes {
		s.crashes[i] = c.draw(records)
	}
}
