package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// scenario is one run: it feeds the job, has it fail and crash, and reads
// what it wrote.
type scenario struct {
	options  *options
	broker   *broker
	traffic  *traffic
	want     *reference
	producer *producer
	child    *child
	say      func(format string, args ...any)
}

// run goes through the acts.
func (s *scenario) run(ctx context.Context) (*output, error) {
	for _, act := range []func(context.Context) error{
		s.firstCheckpoint, s.failure, s.crash, s.remainder, s.results, s.late, s.suspend,
	} {
		if err := act(ctx); err != nil {
			return nil, err
		}
	}
	return s.readAll(ctx)
}

// produce writes a part of the clicks, given in percent of all.
func (s *scenario) produce(ctx context.Context, from, to int) error {
	n := len(s.traffic.clicks)
	cs := s.traffic.clicks[n*from/100 : n*to/100]
	if err := s.producer.produce(ctx, cs); err != nil {
		return err
	}
	s.say("producer   %s clicks more, %d %% of the input", thousands(len(cs)), to)
	return nil
}

// firstCheckpoint starts the job and lets it come to something to recover from.
func (s *scenario) firstCheckpoint(ctx context.Context) error {
	if err := s.child.start(); err != nil {
		return err
	}
	s.say("job        started as process %d, parallelism %d", s.child.process.Process.Pid, s.options.parallelism)
	if err := s.produce(ctx, 0, 25); err != nil {
		return err
	}
	return s.child.await(ctx, func(h *history) bool { return h.checkpoints > 0 && h.now > 0 })
}

// failure lets the job run into the marked record. It recovers in its process.
func (s *scenario) failure(ctx context.Context) error {
	if err := s.produce(ctx, 25, 50); err != nil {
		return err
	}
	return s.child.await(ctx, func(h *history) bool { return h.failures > 0 && h.sinceFailure > 0 })
}

// crash kills the job while clicks are pouring in, after a random part of two
// checkpoint intervals, and starts the same command again.
func (s *scenario) crash(ctx context.Context) error {
	produced := make(chan error, 1)
	go func() { produced <- s.produce(ctx, 50, 90) }()
	random := rand.New(rand.NewPCG(s.options.seed, 1))
	select {
	case <-time.After(time.Duration(random.Int64N(int64(2 * checkpointInterval)))):
	case <-ctx.Done():
		<-produced
		return context.Cause(ctx)
	}
	if err := s.child.kill(); err != nil {
		return err
	}
	h := s.child.now()
	s.say("kill       SIGKILL to process %d, %s records read, last checkpoint %d", s.child.process.Process.Pid, thousands(int(h.now)), h.last)
	if err := s.child.start(); err != nil {
		return err
	}
	s.say("job        the same command again, as process %d", s.child.process.Process.Pid)
	return <-produced
}

// remainder produces what was held back so that the crash falls within the
// input, and the records that close the windows.
func (s *scenario) remainder(ctx context.Context) error {
	if err := s.produce(ctx, 90, 100); err != nil {
		return err
	}
	return s.producer.produce(ctx, s.traffic.closing)
}

// results waits until there is a result for every page and window.
func (s *scenario) results(ctx context.Context) error {
	if err := s.awaitOutput(ctx, func(o *output) bool { return s.complete(o.results) }); err != nil {
		return err
	}
	s.say("results    there is one for each of %s pages and windows", thousands(len(s.want.windows)))
	return nil
}

// complete reports whether results has all that is wanted, at least once.
func (s *scenario) complete(results []result) bool {
	if len(results) < len(s.want.windows) {
		return false
	}
	seen := make(map[pageWindow]bool, len(results))
	for _, r := range results {
		key := pageWindow{r.Page, r.Start}
		if _, ok := s.want.windows[key]; ok {
			seen[key] = true
		}
	}
	return len(seen) == len(s.want.windows)
}

// late produces records whose windows are all closed, and waits for them.
func (s *scenario) late(ctx context.Context) error {
	if err := s.producer.produce(ctx, s.traffic.late); err != nil {
		return err
	}
	s.say("producer   %d records that are late for all their windows", len(s.traffic.late))
	return s.awaitOutput(ctx, func(o *output) bool { return len(o.late) >= len(s.want.late) })
}

// awaitOutput reads committed output until there is enough.
func (s *scenario) awaitOutput(ctx context.Context, enough func(*output) bool) error {
	c, err := s.broker.consumer()
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.until(ctx, enough); err != nil {
		return fmt.Errorf("waiting for output, %d results and %d late records so far: %w", len(c.read.results), len(c.read.late), err)
	}
	return nil
}

func (s *scenario) suspend(ctx context.Context) error {
	if err := s.child.suspend(ctx); err != nil {
		return err
	}
	s.say("job        suspended with a final snapshot")
	return nil
}

// readAll reads the output topics once more, from end to end.
func (s *scenario) readAll(ctx context.Context) (*output, error) {
	c, err := s.broker.consumer()
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.toEnd(ctx); err != nil {
		return nil, fmt.Errorf("checking the output: %w", err)
	}
	return &c.read, nil
}
