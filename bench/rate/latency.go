package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/kafka"
	"github.com/weirstream/weir/stream"
)

const (
	// warmUp is left out of the latencies.
	warmUp = 3 * time.Second
	// silence is how long nothing must come, beyond the time between
	// checkpoints, before nothing more is expected.
	silence = 10 * time.Second
	// enoughForP999 are the samples from which the slowest thousandth is told.
	enoughForP999 = 1000
)

type latencyResult struct {
	Job      string  `json:"job"`
	Delivery string  `json:"delivery"`
	Rate     int64   `json:"rate"`
	Produced float64 `json:"produced_per_second"`
	Samples  int     `json:"samples"`
	// Windows is how many windows the samples are of.
	Windows int     `json:"windows,omitempty"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	P999    float64 `json:"p999_ms,omitempty"` // 0: too few samples
	Max     float64 `json:"max_ms"`
	// Warnings were printed: the run was disturbed.
	Warnings int64 `json:"warnings,omitempty"`
}

// latency runs the job on a topic that is being written, at a rate, and
// measures from the time when a record was due to the time when its result is
// there: at-least-once when it is acknowledged, exactly-once when a consumer
// that reads committed records has it. That of a window counts from the record
// that lets the watermark of the last partition pass its end.
func (k *kafkaJob) latency(ctx context.Context) error {
	l := &latencies{passed: map[int64]time.Time{}, ended: map[int64]bool{}, windows: k.job == "kafka-window", window: k.kafka.window.Milliseconds()}
	if k.kafka.delivery == "at-least-once" {
		k.sink = append(k.sink, kafka.Client(kgo.WithHooks(acknowledged{l})))
	}
	profiled, err := profile(k.cpuProfile)
	if err != nil {
		return err
	}
	defer profiled()
	run, stop := k.trouble.bound(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	part := func(f func(context.Context) error) {
		wg.Go(func() {
			if err := f(run); err != nil && run.Err() == nil {
				stop(err)
			}
		})
	}
	part(k.live(l))
	if k.kafka.delivery == "exactly-once" {
		part(func(ctx context.Context) error { return consume(ctx, k.kafka.servers, k.out, l) })
	}
	var produced float64
	part(func(ctx context.Context) (err error) {
		if produced, err = k.feed(ctx, l); err == nil {
			l.awaitQuiet(ctx, k.records, k.interval+silence)
			if err = l.complete(k.records); err == nil {
				stop(errDone)
			}
		}
		return err
	})
	wg.Wait()
	if err := context.Cause(run); !errors.Is(err, errDone) {
		return err
	}
	return l.show(latencyResult{Job: k.job, Delivery: k.kafka.delivery, Rate: k.kafka.rate, Produced: produced, Warnings: k.trouble.warnings.Load()}, k.json)
}

var errDone = errors.New("done")

// live is the job itself.
func (k *kafkaJob) live(l *latencies) func(context.Context) error {
	return func(ctx context.Context) error {
		j := stream.NewJob("rate-" + k.job)
		k.stamped = !l.windows
		if err := k.build(j); err != nil {
			return err
		}
		job, _, cleanup, err := prepare(k.flags, j)
		if err != nil {
			return err
		}
		defer cleanup()
		return job.Run(ctx)
	}
}

// feed writes the records when they are due, each stamped with that time, in
// microseconds, and returns how many a second it managed.
func (k *kafkaJob) feed(ctx context.Context, l *latencies) (float64, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.kafka.servers), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.RecordDeliveryTimeout(patience), kgo.WithHooks(k.trouble))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	promise, failed := firstFailure()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	l.begin(start)
	due := func(i int64) time.Time { return start.Add(time.Duration(float64(i) / float64(k.kafka.rate) * 1e9)) }
	for i := int64(0); i < k.records; {
		select {
		case now := <-tick.C:
			for ; i < k.records && !due(i).After(now); i++ {
				at := due(i)
				l.pass(at, due(i+partitions-1))
				key := userKey(i, k.keys)
				cl.Produce(ctx, &kgo.Record{
					Topic: k.in, Partition: int32(i % partitions), Key: []byte(key),
					Value: visitJSON(key, at.UnixMilli(), at.UnixMicro(), i),
				}, promise)
			}
		case err := <-failed:
			return 0, err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	err = cl.Flush(ctx)
	return float64(k.records) / time.Since(start).Seconds(), err
}

// consume reads what is committed.
func consume(ctx context.Context, servers, topic string, l *latencies) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(servers), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		now := time.Now()
		if err := fetches.Err(); err != nil {
			return err
		}
		var failed error
		fetches.EachRecord(func(r *kgo.Record) {
			if err := l.arrive(r.Value, now); err != nil {
				failed = err
			}
		})
		if failed != nil {
			return failed
		}
	}
}

// acknowledged is told of every record that the sink's client is done with.
type acknowledged struct{ l *latencies }

func (a acknowledged) OnProduceRecordUnbuffered(r *kgo.Record, err error) {
	if err == nil {
		_ = a.l.arrive(r.Value, time.Now()) // what the job wrote itself
	}
}

// latencies collects what was measured.
type latencies struct {
	windows bool
	window  int64 // milliseconds

	mu     sync.Mutex
	from   time.Time // earlier ones are warm-up
	end    int64     // of the next window that ends, milliseconds
	passed map[int64]time.Time
	ended  map[int64]bool // windows that are measured
	last   time.Time      // something came
	came   int64          // results, those of the warm-up included
	all    []time.Duration
}

var rows = codec.JSON[Row]()

func (l *latencies) begin(start time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from = start.Add(warmUp)
	l.end = (start.UnixMilli()/l.window + 1) * l.window
}

// pass notes the windows that a record due at a time lets end, once the other
// partitions have their next one, which is due at last.
func (l *latencies) pass(at, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at.UnixMilli()-disorder.Milliseconds() >= l.end {
		l.passed[l.end] = last
		l.end += l.window
	}
}

// arrive measures a row.
func (l *latencies) arrive(value []byte, now time.Time) error {
	r, err := rows.Decode(value)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = now
	l.came++
	since := time.UnixMicro(r.Sum)
	if l.windows {
		var ok bool
		if since, ok = l.passed[r.End]; !ok {
			return fmt.Errorf("window %d ended before its time", r.End)
		}
	}
	if !since.Before(l.from) {
		l.all = append(l.all, now.Sub(since))
		if l.windows {
			l.ended[r.End] = true
		}
	}
	return nil
}

// isComplete says whether every one of n records has its result; how many
// results windows have is not known.
func (l *latencies) isComplete(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.windows && l.came >= n
}

// complete fails if results are missing: those would have been the slowest.
func (l *latencies) complete(n int64) error {
	if l.windows || l.isComplete(n) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("only %d results of %d records came", l.came, n)
}

// awaitQuiet waits until all results of n records came, or nothing for a time.
func (l *latencies) awaitQuiet(ctx context.Context, n int64, quiet time.Duration) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	since := time.Now()
	for {
		select {
		case now := <-tick.C:
			l.mu.Lock()
			if l.last.After(since) {
				since = l.last
			}
			l.mu.Unlock()
			if now.Sub(since) > quiet || l.isComplete(n) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (l *latencies) show(r latencyResult, asJSON bool) error {
	r, err := l.sum(r)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	fmt.Println(r)
	return nil
}

// sum fills in what was measured.
func (l *latencies) sum(r latencyResult) (latencyResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return r, errors.New("no result came after the warm-up: more records are needed")
	}
	slices.Sort(l.all)
	at := func(q float64) float64 {
		return float64(l.all[min(len(l.all)-1, int(q*float64(len(l.all))))].Microseconds()) / 1e3
	}
	r.Samples, r.Windows, r.P50, r.P99, r.Max = len(l.all), len(l.ended), at(0.5), at(0.99), at(1)
	if r.Samples >= enoughForP999 {
		r.P999 = at(0.999)
	}
	return r, nil
}

func (r latencyResult) String() string {
	s := fmt.Sprintf("%s, %s, %d records/s (%.0f written): latency p50 %.1f ms, p99 %.1f ms", r.Job, r.Delivery, r.Rate, r.Produced, r.P50, r.P99)
	if r.Samples >= enoughForP999 {
		s += fmt.Sprintf(", p99.9 %.1f ms", r.P999)
	}
	s += fmt.Sprintf(", max %.1f ms, of %d results", r.Max, r.Samples)
	if r.Windows > 0 {
		s += fmt.Sprintf(" of %d windows", r.Windows)
	}
	if w := warned(r.Warnings); w != "" {
		s += "\n  " + w
	}
	return s
}
