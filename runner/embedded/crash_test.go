package embedded_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

var errDead = errors.New("the process is dead")

// crashJob counts two splits by key, with a gate in each of them per stage.
type crashJob struct {
	out    *collect.Sink[string]
	gates  []*jobtest.Gate
	splits [2][]jobtest.Item[string]
	want   []string
}

func newCrashJob(stages int) *crashJob {
	c := &crashJob{out: collect.NewExactlyOnce[string]()}
	keys := numbered("k", 7)
	for range stages {
		for i := range c.splits {
			g := jobtest.NewGate()
			c.gates = append(c.gates, g)
			c.splits[i] = script(c.splits[i], records(keys...), hold(g))
		}
	}
	for i := range c.splits {
		c.splits[i] = script(c.splits[i], records(keys...))
	}
	c.want = counted(1, 2*(stages+1), keys...)
	return c
}

// build makes the job, with its sink as a process sees it.
func (c *crashJob) build(out steppedSink) func(*stream.Job) {
	return func(j *stream.Job) {
		s := jobtest.Splits(j, "in", 0, c.splits[0], c.splits[1])
		stream.To(stream.Process(stream.KeyBy(s, itself), "count", newCounter), "out", out)
	}
}

// openAll lets the input run to its end.
func (c *crashJob) openAll() {
	for _, g := range c.gates {
		g.Open()
	}
}

// run runs the job in a process until that ends or dies.
func (c *crashJob) run(t *testing.T, blobs storage.Blobs, s *steps, parallelism int) error {
	return c.startWith(t, steppedBlobs{blobs, s}, steppedSink{c.out, s}, s.troubled, parallelism, func(*embedded.Job, context.CancelFunc) {})
}

// startWith runs the job, with a checkpoint, and every other time a savepoint,
// whenever the gates of a stage are reached. While troubled these may fail.
func (c *crashJob) startWith(t *testing.T, blobs storage.Blobs, out steppedSink, troubled func() bool, parallelism int, made func(*embedded.Job, context.CancelFunc)) error {
	dir := t.TempDir()
	o := embedded.Options{
		Parallelism: parallelism, MaxParallelism: 16, Storage: blobs, Restart: checkpoint.None{},
		Checkpoint: checkpoint.Options{Dir: "memory:", Interval: never, Retained: 1},
	}
	job := jobtest.Job(t, o, c.build(out))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made(job, cancel)
	var driven sync.WaitGroup
	driven.Go(func() {
		for i := 0; i < len(c.gates); i += 2 {
			for _, g := range c.gates[i : i+2] {
				select {
				case <-g.Reached():
				case <-ctx.Done():
					return
				}
			}
			// Refused by a job that is at its end, or dead.
			_, err := job.Checkpoint(ctx)
			if err == nil && i%4 == 2 {
				_, err = job.Savepoint(ctx, filepath.Join(dir, "savepoints"))
			}
			if err != nil && ctx.Err() == nil && !troubled() && !tooLate(err) {
				t.Errorf("a snapshot of a living job: %v", err)
			}
			c.gates[i].Open()
			c.gates[i+1].Open()
		}
	})
	err := job.Run(ctx)
	cancel()
	driven.Wait()
	return err
}

func tooLate(err error) bool {
	return errors.Is(err, coord.ErrStopping) || errors.Is(err, coord.ErrEnded) || errors.Is(err, embedded.ErrNotRunning) ||
		strings.Contains(err.Error(), "a later checkpoint was written first")
}

func (c *crashJob) check(t *testing.T, when string) {
	t.Helper()
	c.checkOutput(t, when)
	if n := c.out.Prepared(); n != 0 {
		t.Errorf("%s: %d transactions are left open", when, n)
	}
}

func (c *crashJob) checkOutput(t *testing.T, when string) {
	t.Helper()
	got := slices.Sorted(slices.Values(c.out.Values()))
	if !slices.Equal(got, slices.Sorted(slices.Values(c.want))) {
		t.Fatalf("%s:\n got %v\nwant %v", when, got, c.want)
	}
}
