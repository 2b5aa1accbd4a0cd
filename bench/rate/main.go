// Command rate measures a job, run through the public API on the embedded
// runner:
//
//	go run ./rate -job keyed -records 40000000 -keys 1000000 -parallelism 2 -json
//	go run ./rate -job kafka-load -records 5000000 -keys 10000 -bootstrap-servers localhost:9092
//	go run ./rate -job kafka-copy -records 5000000 -keys 10000 -bootstrap-servers localhost:9092
//	go run ./rate -job kafka-copy -rate 100000 -records 3000000 -bootstrap-servers localhost:9092
//
// The rate of a synthetic job is steady: the first third of the records,
// warm-up, is left out. That of a Kafka job is the whole job's. With -rate a
// Kafka job is measured for latency instead.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

type flags struct {
	job, dist, dir, cpuProfile string
	backend                    string
	records, keys, memory      int64
	parallelism, valueBytes    int
	fill                       bool
	interval                   time.Duration
	batch, json                bool
	kafka                      kafkaFlags
	// given are the names of the flags on the command line.
	given   []string
	trouble *trouble
}

func main() {
	f := flags{trouble: newTrouble(os.Stderr)}
	flag.StringVar(&f.job, "job", "keyed", "source, chain, keyed, keyed-string, dedupe, mapstate, timers, tumbling, sliding, kafka-load, kafka-read, kafka-copy or kafka-window")
	flag.Int64Var(&f.records, "records", 40_000_000, "number of records")
	flag.Int64Var(&f.keys, "keys", 1_000_000, "number of keys")
	flag.IntVar(&f.parallelism, "parallelism", 2, "subtasks per operator")
	flag.StringVar(&f.dist, "dist", "uniform", "uniform; hot: 90 % of the records on 1 % of the keys; or fixed: all of them")
	flag.BoolVar(&f.fill, "fill", false, "first write each key once: -records are the updates behind that, and the rate is theirs")
	flag.IntVar(&f.valueBytes, "value-bytes", 8, "size of the value in the state of keyed: 8 or 100")
	flag.DurationVar(&f.interval, "checkpoint-interval", 0, "time between checkpoints; 0 is none, and with Kafka jobs 1s, or 970ms with -rate")
	flag.StringVar(&f.dir, "checkpoint-dir", "", "where checkpoints go (default: a temporary directory)")
	flag.StringVar(&f.backend, "backend", "heap", "where state lives: heap or lsm")
	flag.Int64Var(&f.memory, "memory", 0, "memory of the lsm backend, in bytes (default: 40 % of what there is)")
	flag.BoolVar(&f.batch, "batch", false, "run in batch mode")
	flag.StringVar(&f.cpuProfile, "cpuprofile", "", "write a CPU profile to this file")
	flag.BoolVar(&f.json, "json", false, "print one JSON object as the last line")
	f.kafka.declare()
	flag.Parse()
	ctx, stop := untilSignal(context.Background())
	defer stop()
	flag.Visit(func(g *flag.Flag) { f.given = append(f.given, g.Name) })
	err := f.validate(flag.Args())
	if err == nil {
		err = run(ctx, f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rate:", err)
		os.Exit(1)
	}
}

// untilSignal returns a context that ends with SIGINT or SIGTERM, so that what
// the run made is removed; a second one ends the process.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

type checkpointResult struct {
	ID           int64   `json:"id"`
	DurationMS   float64 `json:"duration_ms"`
	CPUMS        float64 `json:"cpu_ms"`
	BarrierMaxUS float64 `json:"barrier_max_us"`
	Bytes        int64   `json:"bytes"`
}

type result struct {
	Job              string             `json:"job"`
	Records          int64              `json:"records"`
	RecordsPerSecond float64            `json:"records_per_second"`
	CPUPerRecord     float64            `json:"cpu_us_per_record"`
	PeakRSS          int64              `json:"peak_rss_bytes"`
	AllocsPerRecord  float64            `json:"allocs_per_record"`
	Checkpoints      []checkpointResult `json:"checkpoints"`
	BatchGapP999US   float64            `json:"batch_gap_p999_us"`
	// FillPerSecond is the rate at which keys were written first, with -fill.
	FillPerSecond float64 `json:"fill_per_second,omitempty"`
	// Warnings were printed: the run was disturbed.
	Warnings int64 `json:"warnings,omitempty"`

	begin time.Time
}

func run(ctx context.Context, f flags) error {
	if strings.HasPrefix(f.job, "kafka-") {
		return runKafka(ctx, f)
	}
	w := &workload{job: f.job, n: f.records, keys: f.keys, parallelism: f.parallelism, hot: dists[f.dist], fill: f.fill, valueBytes: f.valueBytes}
	j := stream.NewJob("rate-" + f.job)
	if err := w.build(j); err != nil {
		return err
	}
	r, end, err := measure(ctx, f, j, w.share()*int64(f.parallelism))
	if err != nil {
		return err
	}
	filled := w.filled() * int64(f.parallelism)
	r.RecordsPerSecond = 2 * float64(r.Records-filled) / 3 / end.Sub(time.Unix(0, w.steadyFrom.Load())).Seconds()
	if filled > 0 {
		r.FillPerSecond = float64(filled) / time.Unix(0, w.filledAt.Load()).Sub(r.begin).Seconds()
	}
	return show(r, f.json)
}

// measure runs a job that reads n records and returns what it cost; the rate
// is that of the whole job.
func measure(ctx context.Context, f flags, j *stream.Job, n int64) (result, time.Time, error) {
	job, checkpoints, cleanup, err := prepare(f, j)
	if err != nil {
		return result{}, time.Time{}, err
	}
	defer cleanup()
	stop, err := profile(f.cpuProfile)
	if err != nil {
		return result{}, time.Time{}, err
	}
	defer stop()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, begin := cpuTime(), time.Now()
	ctx, giveUp := f.trouble.bound(ctx)
	defer giveUp(nil)
	if err := job.Run(ctx); err != nil {
		return result{}, time.Time{}, cmp.Or(context.Cause(ctx), err)
	}
	end := time.Now()
	cpu = cpuTime() - cpu
	runtime.ReadMemStats(&after)
	if err := readAll(job.Status().RecordsIn, n); err != nil {
		return result{}, time.Time{}, err
	}
	return result{
		Job: f.job, Records: n, begin: begin,
		RecordsPerSecond: float64(n) / end.Sub(begin).Seconds(),
		CPUPerRecord:     float64(cpu.Nanoseconds()) / 1e3 / float64(n),
		PeakRSS:          peakRSS(),
		AllocsPerRecord:  float64(after.Mallocs-before.Mallocs) / float64(n),
		Checkpoints:      checkpoints(),
		BatchGapP999US:   float64(job.BatchGap(0.999).Nanoseconds()) / 1e3,
		Warnings:         f.trouble.warnings.Load(),
	}, end, nil
}

// readAll fails unless a job has read what the figures are divided by.
func readAll(read, n int64) error {
	if read != n {
		return fmt.Errorf("the job read %d records, not %d: its figures would mean nothing", read, n)
	}
	return nil
}

// unused fails if a directory holds checkpoints of an earlier run of the job,
// which would go on where that one ended.
func unused(dir, job string) error {
	if dir == "" {
		return nil
	}
	before := filepath.Join(dir, job)
	switch _, err := os.Stat(before); {
	case err == nil:
		return fmt.Errorf("%s holds checkpoints of an earlier run, from which this one would go on: remove it, or name another -checkpoint-dir", before)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look into -checkpoint-dir: %w", err)
	}
	return nil
}

// prepare makes what runs a job, a function that returns the checkpoints seen
// so far, and one that cleans up.
func prepare(f flags, j *stream.Job) (*embedded.Job, func() []checkpointResult, func(), error) {
	g, err := j.Build()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := unused(f.dir, g.Job); err != nil {
		return nil, nil, nil, err
	}
	o, checkpoints, cleanup, err := options(f)
	if err != nil {
		return nil, nil, nil, err
	}
	job, err := embedded.New(g, o)
	if err != nil {
		cleanup()
		return nil, nil, nil, err
	}
	return job, checkpoints, cleanup, nil
}

// profile starts a CPU profile into a file, if one is named, and returns what
// ends it.
func profile(file string) (func(), error) {
	if file == "" {
		return func() {}, nil
	}
	p, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(p); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return func() { pprof.StopCPUProfile(); p.Close() }, nil
}

// options returns the options of the run, a function that returns the
// checkpoints seen, and one that removes the temporary directory.
func options(f flags) (embedded.Options, func() []checkpointResult, func(), error) {
	var mu sync.Mutex
	seen := []checkpointResult{}
	o := embedded.Options{Parallelism: f.parallelism, Restart: checkpoint.None{}, StateBackend: embedded.Backend(f.backend), LSMMemory: f.memory, Logger: f.trouble.log}
	if f.batch {
		o.RuntimeMode = stream.Batch
	}
	o.OnEvent = func(e embedded.Event) {
		if e.Kind != embedded.CheckpointCompleted {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, checkpointResult{
			ID: e.Checkpoint, DurationMS: e.Duration.Seconds() * 1e3, CPUMS: e.Encoding.Seconds() * 1e3,
			BarrierMaxUS: float64(e.BarrierMax.Nanoseconds()) / 1e3, Bytes: e.Bytes,
		})
	}
	list := func() []checkpointResult { mu.Lock(); defer mu.Unlock(); return seen }
	cleanup := func() {}
	if f.interval > 0 {
		dir := f.dir
		if dir == "" {
			tmp, err := os.MkdirTemp("", "weir-rate-")
			if err != nil {
				return o, nil, nil, err
			}
			dir, cleanup = tmp, func() { os.RemoveAll(tmp) }
		}
		// Shorter than the transactions of Kafka jobs may take.
		o.Checkpoint = checkpoint.Options{Interval: f.interval, Dir: dir, Timeout: 5 * time.Minute}
	}
	return o, list, cleanup, nil
}

func show(r result, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	fmt.Printf("%s: %.2f M records/s, %.3f µs CPU per record, %.4f allocations per record, peak RSS %d MB, batch gap p99.9 %.0f µs\n",
		r.Job, r.RecordsPerSecond/1e6, r.CPUPerRecord, r.AllocsPerRecord, r.PeakRSS>>20, r.BatchGapP999US)
	if r.FillPerSecond > 0 {
		fmt.Printf("  filled with %.2f M keys/s\n", r.FillPerSecond/1e6)
	}
	for _, c := range r.Checkpoints {
		fmt.Printf("  checkpoint %d: %.0f ms, encoding %.0f ms, barrier at most %.0f µs, %d bytes\n", c.ID, c.DurationMS, c.CPUMS, c.BarrierMaxUS, c.Bytes)
	}
	if w := warned(r.Warnings); w != "" {
		fmt.Println(" ", w)
	}
	return nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func peakRSS() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss << 10
}
