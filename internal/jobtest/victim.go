package jobtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/connector/twophase"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// A process that is to be killed is told by its environment where to work.
const (
	victimDir = "WEIR_VICTIM_DIR"
	victimOut = "WEIR_VICTIM_OUT"
)

const (
	victimRecords = 12000
	victimKeys    = 50
	victimRate    = 4000 // records a second
)

// Victim is the test, to be called TestVictim, that Killed runs in processes of
// its own. In the ordinary run it does nothing.
func Victim(t *testing.T, s storage.Scheme) {
	dir, out := os.Getenv(victimDir), os.Getenv(victimOut)
	if dir == "" {
		return
	}
	build := func(j *stream.Job) {
		numbers := stream.From(j, "numbers", datagen.Source(victimRecords, func(i int64) string { return fmt.Sprint("k", i%victimKeys) }, datagen.Rate(victimRate)))
		stream.To(stream.Process(stream.KeyBy(numbers, func(k string) string { return k }), "count", func(r *state.Registry) *tally {
			return &tally{n: state.ValueIn[int64](r, "n"), load: state.ValueIn[string](r, "load")}
		}), "out", twophase.Sink[string, string](files{out}))
	}
	o := embedded.Options{Parallelism: 2, Schemes: []storage.Scheme{s}, Checkpoint: checkpoint.Options{
		Dir: dir, Interval: 50 * time.Millisecond, Retained: 2, TolerableFailures: checkpoint.Unlimited,
	}}
	if err := Job(t, o, build).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Killed kills processes of TestVictim, with their checkpoints at the URL dir,
// at random moments, and lets the last one come to its end: the output must be
// there exactly once.
func Killed(t *testing.T, dir string, times int) {
	out := t.TempDir()
	for _, sub := range []string{"open", "ready", "done"} {
		if err := os.Mkdir(filepath.Join(out, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	killed := 0
	for {
		cmd := exec.Command(os.Args[0], "-test.run=^TestVictim$", "-test.count=1")
		cmd.Env = append(os.Environ(), victimDir+"="+dir, victimOut+"="+out)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		var end <-chan time.Time
		if killed < times {
			end = time.After(100*time.Millisecond + rand.N(600*time.Millisecond))
		}
		select {
		case <-end:
			_ = cmd.Process.Kill() // it may have ended just now
			if err := <-ended; err != nil {
				killed++
				continue
			}
		case err := <-ended:
			if err != nil {
				t.Fatalf("the job failed: %v\n%s", err, said.String())
			}
		}
		break
	}
	if killed < times/2 {
		t.Errorf("only %d processes were killed before the job had finished", killed)
	}
	wantOnce(t, out)
}

func wantOnce(t *testing.T, out string) {
	t.Helper()
	var got, want []string
	names, err := filepath.Glob(filepath.Join(out, "done", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Fields(string(data))...)
	}
	for i := range victimRecords {
		want = append(want, fmt.Sprintf("k%d=%d", i%victimKeys, i/victimKeys+1))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d records came out, %d different ones, want %d, each once", len(got), len(slices.Compact(got)), len(want))
	}
}

// files are a sink with transactions: a file each, which is moved on.
type files struct{ dir string }

func (f files) HandleCodec() codec.Codec[string] { return codec.JSON[string]() }

func (f files) NewParticipant(connector.SinkContext) (twophase.Participant[string, string], error) {
	return &participant{files: f}, nil
}

func (f files) NewCoordinator(connector.CommitterContext) (twophase.Coordinator[string], error) {
	return coordinator{f}, nil
}

func (f files) at(stage, txn string) string { return filepath.Join(f.dir, stage, txn) }

type participant struct {
	files
	f *os.File
	w *bufio.Writer
}

func (p *participant) Begin(_ context.Context, name twophase.Name) (txn string, err error) {
	p.f, err = os.Create(p.at("open", name.String()))
	p.w = bufio.NewWriter(p.f)
	return name.String(), err
}

func (p *participant) Write(_ string, vals []string, _ []int64) error {
	for _, v := range vals {
		fmt.Fprintln(p.w, v) // Flush tells
	}
	return nil
}

func (p *participant) Flush(context.Context, string) error { return p.w.Flush() }

func (p *participant) PreCommit(_ context.Context, txn string) (string, bool, error) {
	return txn, true, errors.Join(p.f.Close(), os.Rename(p.at("open", txn), p.at("ready", txn)))
}

func (p *participant) Abort(_ context.Context, txn string) error {
	return errors.Join(p.f.Close(), os.Remove(p.at("open", txn)))
}

func (p *participant) Close() error { return nil }

type coordinator struct{ files }

func (c coordinator) Commit(_ context.Context, txn string) error {
	err := os.Rename(c.at("ready", txn), c.at("done", txn))
	if _, done := os.Stat(c.at("done", txn)); done == nil {
		return nil
	}
	return err
}

func (c coordinator) RecoverAndCommit(ctx context.Context, txn string) error {
	if err := c.Commit(ctx, txn); err != nil {
		return errors.Join(connector.ErrTransactionLost, err)
	}
	return nil
}

func (c coordinator) Open(_ context.Context, lineages []string) (open []twophase.Open[string], err error) {
	for _, stage := range []string{"open", "ready"} {
		entries, err := os.ReadDir(filepath.Join(c.dir, stage))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name, err := twophase.ParseName(e.Name())
			if err != nil {
				return nil, err
			}
			if slices.Contains(lineages, name.Lineage) {
				open = append(open, twophase.Open[string]{Name: name, Txn: e.Name()})
			}
		}
	}
	return open, nil
}

func (c coordinator) RecoverAndAbort(_ context.Context, txn string) error {
	return errors.Join(os.RemoveAll(c.at("open", txn)), os.RemoveAll(c.at("ready", txn)))
}

func (c coordinator) Close() error { return nil }
