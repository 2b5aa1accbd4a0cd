// Command idlesplits runs a job whose source has many splits of which nothing
// comes, and says what each costs in memory and all of them in CPU time:
//
//	go run ./idlesplits -splits 10000 -duration 20s
//
// The splits are held by the SplitReader kit, each with a watermark generator of
// its own, and have brought one record; after a second they are idle.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
)

func main() {
	splits := flag.Int("splits", 10_000, "number of splits")
	duration := flag.Duration("duration", 20*time.Second, "how long to measure")
	flag.Parse()
	none, err := measure(0, *duration)
	if err == nil {
		var all cost
		if all, err = measure(*splits, *duration); err == nil {
			fmt.Printf("%d splits: %d bytes each, %.4f %% of a core in all (a job without splits: %.4f %%)\n",
				*splits, (all.heap-none.heap)/int64(max(1, *splits)), all.cpu*100, none.cpu*100)
			return
		}
	}
	fmt.Fprintln(os.Stderr, "idlesplits:", err)
	os.Exit(1)
}

// cost is what a job takes once its splits are idle.
type cost struct {
	heap int64
	cpu  float64 // share of a core
}

func measure(splits int, d time.Duration) (cost, error) {
	job := stream.NewJob("idlesplits")
	job.Parallelism(1)
	at := func(i int) time.Time { return time.UnixMilli(int64(i)) }
	in := stream.From(job, "splits", &source{splits: splits}, watermark.Bounded(time.Second, at).Idle(time.Second))
	stream.To(in, "out", connector.Discard[int]())
	g, err := job.Build()
	if err != nil {
		return cost{}, err
	}
	e, err := embedded.New(g, embedded.Options{Parallelism: 1, Restart: checkpoint.None{}})
	if err != nil {
		return cost{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	for e.Status().RecordsIn < int64(splits) {
		select {
		case err := <-done:
			return cost{}, err
		case <-time.After(10 * time.Millisecond):
		}
	}
	time.Sleep(3 * time.Second) // the splits fall idle
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	begin, used := time.Now(), cpuTime()
	time.Sleep(d)
	c := cost{int64(m.HeapAlloc), (cpuTime() - used).Seconds() / time.Since(begin).Seconds()}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		return c, err
	}
	return c, nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
