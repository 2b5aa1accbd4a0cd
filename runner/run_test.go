package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/checkpoint"
)

func TestRunStopsWhenContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("service stops")
	maker, _ := fake(func(ctx context.Context, _ *fakeEngine) error {
		cancel(why)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if err := run(ctx, "j", buildPipe, options{}, maker); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestRunReturnsTheJobsError(t *testing.T) {
	boom := errors.New("boom")
	maker, _ := fake(func(context.Context, *fakeEngine) error { return boom })
	if err := run(t.Context(), "j", buildPipe, options{}, maker); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	maker, _ = fake(func(context.Context, *fakeEngine) error { return checkpoint.ErrFinished })
	if err := run(t.Context(), "j", buildPipe, options{}, maker); err != nil {
		t.Errorf("a job that finished before: %v", err)
	}
	if err := run(t.Context(), "no name", buildPipe, options{}, maker); err == nil || !strings.Contains(err.Error(), `job name "no name" contains ' '`) {
		t.Errorf("got %v", err)
	}
}

func TestRunOptions(t *testing.T) {
	t.Setenv("WEIR_PARALLELISM_DEFAULT", "11") // of the process: not read
	file := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(file, []byte("pipeline.max-parallelism: 33\nexecution.checkpointing.dir: /f"), 0o600); err != nil {
		t.Fatal(err)
	}
	maker, made := fake(finish)
	o := collectOptions([]Option{
		WithConfigFile(file), WithParallelism(5), WithRestore("/snap"), WithRewindAgain(2),
		WithOption("execution.checkpointing.interval", "2 s"), WithEnvironment([]string{"WEIR_EXECUTION_CHECKPOINTING_DIR=/e"}),
	})
	if err := run(t.Context(), "j", buildPipe, o, maker); err != nil {
		t.Fatal(err)
	}
	got := made().opts
	if got.Parallelism != 5 || got.MaxParallelism != 33 || got.RestorePath != "/snap" || !got.Rewind || got.Fresh || got.Nth != 2 || got.Checkpoint.Dir != "/e" || got.Checkpoint.Interval.Seconds() != 2 {
		t.Errorf("engine options %+v", got)
	}
	if err := run(t.Context(), "j", buildPipe, collectOptions([]Option{WithFresh()}), maker); err != nil || !made().opts.Fresh || made().opts.Nth != 1 {
		t.Errorf("%v: engine options %+v", err, made().opts)
	}
	if err := run(t.Context(), "j", buildPipe, collectOptions([]Option{WithRewind()}), maker); err == nil || !strings.Contains(err.Error(), "add -s PATH") {
		t.Errorf("got %v", err)
	}
	err := run(t.Context(), "j", buildPipe, collectOptions([]Option{WithOption("paralelism.default", "2")}), maker)
	if err == nil || !strings.Contains(err.Error(), `code runner.WithOption: unknown key "paralelism.default": did you mean "parallelism.default"?`) {
		t.Errorf("got %v", err)
	}
}

func TestAllowNonRestoredState(t *testing.T) {
	for _, args := range [][]string{{"run", "-n", "-p", "2"}, {"run", "--allow-non-restored-state", "-p", "2"}, {"run", "-Dexecution.savepoint.ignore-unclaimed-state=true", "-p", "2"}, {"run", "-n=true", "-p", "2"}} {
		maker, made := fake(finish)
		h := newHarness(buildPipe, maker)
		if code := h.run(args); code != exitDone || !made().opts.AllowNonRestoredState || made().opts.Parallelism != 2 {
			t.Errorf("%v: exit code %d, engine options %+v: %s", args, code, made().opts, h.err.String())
		}
	}
	maker, made := fake(finish)
	o := collectOptions([]Option{WithAllowNonRestoredState()})
	if err := run(t.Context(), "j", buildPipe, o, maker); err != nil || !made().opts.AllowNonRestoredState {
		t.Errorf("%v: engine options %+v", err, made().opts)
	}
	if h := newHarness(buildPipe, maker); h.run([]string{"run", "-n=maybe"}) != exitUsage {
		t.Errorf("-n=maybe is taken: %s", h.err.String())
	}
}
