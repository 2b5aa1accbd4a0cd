package killmatrix

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// How a victim ends by itself.
const (
	exitFinished = 0
	exitFailed   = 1
	exitStopped  = 10 // by a signal, with a last snapshot
	exitFenced   = 11 // by another start
	exitCanceled = 12
)

// What a victim is told by signals.
const (
	suspendSignal   = syscall.SIGTERM
	cancelSignal    = syscall.SIGINT
	failSignal      = syscall.SIGHUP
	savepointSignal = syscall.SIGUSR1
	stopSignal      = syscall.SIGUSR2 // with savepoint
)

// TestMain lets the test binary be the victim, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "victim" {
		v := new(victim)
		os.Exit(v.main(os.Args[2:]))
	}
	code := m.Run()
	if account := all.String(); account != "" {
		fmt.Fprintln(os.Stdout, account)
	}
	os.Exit(code)
}

// victim is the job as a process. It says on its standard output what happens
// to it, a word a line.
type victim struct {
	job
	dir         string
	shared      bool
	parallelism int
	interval    time.Duration
	// local is the directory of state on local disk, "" for state in memory.
	local string
}

var onDisk = flag.Bool("lsm", false, "keep the state of the jobs on local disk, with next to no memory")

func (v *victim) main(args []string) int {
	f := flag.NewFlagSet("victim", flag.ExitOnError)
	v.define(f)
	f.StringVar(&v.dir, "dir", "", "checkpoint directory")
	f.BoolVar(&v.shared, "shared", false, "do without the directory's lock, as on a storage without locks")
	f.IntVar(&v.parallelism, "parallelism", 1, "parallelism")
	f.StringVar(&v.local, "local", "", "directory for state on local disk, instead of in memory")
	f.DurationVar(&v.interval, "interval", 100*time.Millisecond, "checkpoint interval")
	if err := f.Parse(args); err != nil {
		return exitFailed
	}
	j, err := v.make()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	v.listen(ctx, j, cancel)
	err = j.Run(ctx)
	switch {
	case err == nil && j.Status().State == "suspended":
		return exitStopped
	case err == nil, errors.Is(err, coord.ErrFinished):
		return exitFinished
	case errors.Is(err, coord.ErrFenced):
		return exitFenced
	case errors.Is(err, errCanceled):
		return exitCanceled
	}
	fmt.Fprintln(os.Stderr, "failed:", err)
	return exitFailed
}

var errCanceled = errors.New("cancelled by a signal")

func (v *victim) make() (*embedded.Job, error) {
	s := stream.NewJob("killmatrix")
	v.build(s)
	g, err := s.Build()
	if err != nil {
		return nil, err
	}
	o := embedded.Options{
		Parallelism: v.parallelism,
		Checkpoint:  checkpoint.Options{Interval: v.interval, Dir: v.dir, SavepointDir: v.dir + "-savepoints"},
		Restart:     checkpoint.FixedDelay{Attempts: checkpoint.Unlimited, Delay: 100 * time.Millisecond},
		Logger:      slog.New(slog.NewTextHandler(os.Stderr, nil)).With("pid", os.Getpid()),
		OnEvent: func(e embedded.Event) {
			switch e.Kind {
			case embedded.Started, embedded.Failed:
				fmt.Fprintln(os.Stdout, e.Kind)
			case embedded.CheckpointCompleted:
				fmt.Fprintln(os.Stdout, "completed", runtime.NumGoroutine())
			}
		},
	}
	if v.local != "" {
		// Few key groups, so that most keys are on disk.
		o.StateBackend, o.LSMDir, o.LSMMemory, o.MaxParallelism = embedded.LSM, v.local, 1000, 4
	}
	if v.shared {
		o.Storage = file.New(v.dir)
	}
	return embedded.New(g, o)
}

// listen does what signals say until ctx ends.
func (v *victim) listen(ctx context.Context, j *embedded.Job, cancel context.CancelCauseFunc) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, suspendSignal, cancelSignal, failSignal, savepointSignal, stopSignal)
	take := func(what func(context.Context, string) (string, error)) {
		path, err := what(ctx, "")
		fmt.Fprintln(os.Stderr, "savepoint:", path, err)
	}
	go func() {
		for s := range signals {
			switch s {
			case suspendSignal:
				j.Suspend()
			case cancelSignal:
				cancel(errCanceled)
			case failSignal:
				v.fail.Store(true)
			case savepointSignal:
				go take(j.Savepoint)
			case stopSignal:
				go take(j.StopWithSavepoint)
			}
		}
	}()
}
