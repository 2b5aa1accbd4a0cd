// Command snapshots measures what checkpoints of a large state cost, and how
// soon a job goes on from one:
//
//	go run ./snapshots -backend lsm -memory 2000000000 -keys 100000000
//	go run ./snapshots -backend heap -keys 10000000 -value-bytes 8 -changed 1 -restore "" -crash
//
// It writes each key once and takes a checkpoint. Then, for each percentage, it
// updates that part of the keys over and over, and takes checkpoints between
// which each of them has changed. Then it restores the last checkpoint at each
// parallelism. With -crash a process of its own is killed and started again.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weirstream/weir/runner/embedded"
)

type flags struct {
	backend          string
	memory, keys     int64
	valueBytes       int
	parallelism      int
	changed, restore []int
	moving           bool
	crash            bool
	dir, localDir    string
	json             bool
	// role is that of a child process, "" for the command itself.
	role string
	log  *slog.Logger
}

func main() {
	f := flags{log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	changed := flag.String("changed", "1,10,100", "percentages of the keys that change from one checkpoint to the next")
	restore := flag.String("restore", "3,1", "parallelisms to restore at, one after the other")
	flag.StringVar(&f.backend, "backend", "lsm", "where state lives: heap or lsm")
	flag.Int64Var(&f.memory, "memory", 0, "memory of the backend, in bytes (default: the backend's)")
	flag.Int64Var(&f.keys, "keys", 10_000_000, "number of keys")
	flag.IntVar(&f.valueBytes, "value-bytes", 100, "size of the values: 8 or 100")
	flag.IntVar(&f.parallelism, "parallelism", 2, "subtasks per operator at first")
	flag.BoolVar(&f.moving, "moving", false, "change other keys before each checkpoint, instead of the same; those changed during the one before count, too")
	flag.BoolVar(&f.crash, "crash", false, "kill a process with that state and start it again")
	flag.StringVar(&f.dir, "checkpoint-dir", "", "where checkpoints go (default: a temporary directory)")
	flag.StringVar(&f.localDir, "local-dir", "", "local directory of the lsm backend (default: the backend's)")
	flag.BoolVar(&f.json, "json", false, "print one JSON object a line")
	flag.StringVar(&f.role, "role", "", "used by -crash for its child processes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := f.complete(*changed, *restore, flag.Args())
	if err == nil {
		err = run(ctx, f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "snapshots:", err)
		os.Exit(1)
	}
}

// complete checks the flags and reads the lists.
func (f *flags) complete(changed, restore string, extra []string) (err error) {
	if f.changed, err = numbers(changed, 100); err != nil {
		return fmt.Errorf("-changed: %w", err)
	}
	if f.restore, err = numbers(restore, 128); err != nil {
		return fmt.Errorf("-restore: %w", err)
	}
	switch {
	case len(extra) > 0:
		return fmt.Errorf("unknown arguments %q: everything is a flag", extra)
	case f.keys < 100 || f.parallelism < 1:
		return errors.New("-keys must be at least 100, -parallelism at least 1")
	case f.valueBytes != 8 && f.valueBytes != 100:
		return fmt.Errorf("-value-bytes %d: it is 8 or 100", f.valueBytes)
	case f.backend != string(embedded.Heap) && f.backend != string(embedded.LSM):
		return fmt.Errorf("-backend %q: it is heap or lsm", f.backend)
	}
	return nil
}

func numbers(list string, most int) (out []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > most {
			return nil, fmt.Errorf("%q: it is a list of numbers from 1 to %d", list, most)
		}
		out = append(out, n)
	}
	return out, nil
}

// measurement is a line of the result.
type measurement struct {
	// What was done: fill, checkpoint, restore or crash.
	What string `json:"what"`
	// Changed is the percentage of keys that changed since the checkpoint before.
	Changed int `json:"changed_percent,omitempty"`
	// Parallelism is that of a restore.
	Parallelism int     `json:"parallelism,omitempty"`
	Seconds     float64 `json:"seconds"`
	// Written is what a checkpoint wrote to its directory.
	Written int64 `json:"written_bytes,omitempty"`
	// PerSecond are updates a second, before the checkpoint and during it.
	PerSecond float64 `json:"updates_per_second,omitempty"`
	During    float64 `json:"updates_per_second_during,omitempty"`
	PeakRSS   int64   `json:"peak_rss_bytes,omitempty"`
}

func (m measurement) String() string {
	s := m.What
	if m.Changed > 0 {
		s += fmt.Sprintf(", %d %% changed", m.Changed)
	}
	if m.Parallelism > 0 {
		s += fmt.Sprintf(" at parallelism %d", m.Parallelism)
	}
	s += fmt.Sprintf(": %.3f s", m.Seconds)
	if m.Written > 0 {
		s += fmt.Sprintf(", %.1f MB written", float64(m.Written)/1e6)
	}
	if m.PerSecond > 0 {
		s += fmt.Sprintf(", %.0f updates/s", m.PerSecond)
	}
	if m.During > 0 {
		s += fmt.Sprintf(", %.0f during it", m.During)
	}
	return s + fmt.Sprintf(", peak RSS %d MB", m.PeakRSS>>20)
}

func (f *flags) show(m measurement) {
	m.PeakRSS = peakRSS()
	if f.json {
		b, _ := json.Marshal(m) // numbers and texts only
		fmt.Println(string(b))
		return
	}
	fmt.Println(m)
}

func run(ctx context.Context, f flags) error {
	if f.dir == "" {
		tmp, err := os.MkdirTemp("", "weir-snapshots-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		f.dir = tmp
	} else if entries, err := os.ReadDir(f.dir); f.role == "" && err == nil && len(entries) > 0 {
		return fmt.Errorf("-checkpoint-dir %s is not empty: a job of an earlier run would go on", f.dir)
	}
	switch {
	case f.role != "":
		return child(ctx, f)
	case f.crash:
		return crash(ctx, f)
	}
	return measure(ctx, f)
}

// measure runs the job at one parallelism after the other.
func measure(ctx context.Context, f flags) error {
	c := newControl(f.keys)
	r, err := start(ctx, f, c, f.parallelism)
	if err != nil {
		return err
	}
	begin := time.Now()
	err = r.await(c, f.keys)
	if err == nil {
		f.show(measurement{What: "fill", Seconds: time.Since(begin).Seconds(), PerSecond: float64(f.keys) / time.Since(begin).Seconds()})
		err = r.checkpoints(ctx, f, c)
	}
	if err = errors.Join(err, r.stop()); err != nil {
		return err
	}
	for _, p := range f.restore {
		begin := time.Now()
		if r, err = start(ctx, f, c, p); err != nil {
			return err
		}
		if err = r.awaitFirst(); err == nil {
			f.show(measurement{What: "restore", Parallelism: p, Seconds: time.Since(begin).Seconds()})
			_, err = r.job.Checkpoint(ctx)
		}
		if err = errors.Join(err, r.stop()); err != nil {
			return err
		}
	}
	return nil
}

func peakRSS() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss << 10
}
