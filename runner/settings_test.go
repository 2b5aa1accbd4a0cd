package runner

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/stream"
)

// What the code sets comes back unchanged from the table.
func TestCodeOptionsSurvive(t *testing.T) {
	all := checkpoint.Options{
		Interval: 1500 * time.Millisecond, Mode: checkpoint.AtLeastOnce, Timeout: time.Hour, MinPause: 20 * time.Millisecond, MaxConcurrent: 1,
		TolerableFailures: checkpoint.Unlimited, Retained: 8, Retention: checkpoint.DeleteAtEnd, Dir: "/d", SavepointDir: "/s",
	}
	none := checkpoint.Options{}
	none.EnsureDefaults()
	for _, tc := range []struct{ set, want checkpoint.Options }{{all, all}, {checkpoint.Options{}, none}} {
		j, err := prepare("j", func(j *stream.Job) { j.Checkpoints(tc.set); buildPipe(j) }, settings{})
		if err != nil {
			t.Fatal(err)
		}
		if got := j.checkpoints(); got != tc.want {
			t.Errorf("got  %+v\nwant %+v", got, tc.want)
		}
	}
	strategies := []checkpoint.Restart{
		checkpoint.None{},
		checkpoint.FixedDelay{Attempts: 3, Delay: 5 * time.Second},
		checkpoint.FixedDelay{Attempts: checkpoint.Unlimited, Delay: time.Millisecond},
		checkpoint.FailureRate{Max: 2, Interval: time.Hour, Delay: 3 * time.Second},
		checkpoint.ExponentialDelay{Initial: 2 * time.Second, Max: time.Hour, Multiplier: 3.5, Jitter: 0.25, ResetAfter: 2 * time.Hour, Attempts: 9},
		checkpoint.ExponentialDelay{Jitter: -1},
		checkpoint.ExponentialDelay{},
	}
	for _, s := range strategies {
		// The file must not reach into a strategy that the code has chosen.
		j, err := prepare("j", func(j *stream.Job) { j.Restarts(s); buildPipe(j) },
			settings{environ: []string{"WEIR_RESTART_STRATEGY_FIXED_DELAY_DELAY=9 h", "WEIR_RESTART_STRATEGY_EXPONENTIAL_DELAY_MAX_BACKOFF=9 h", "WEIR_RESTART_STRATEGY_TYPE=failure-rate"}})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := j.restarts(), checkpoint.DefaultRestart(s, true); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestDefaultRestartDependsOnCheckpoints(t *testing.T) {
	j, err := prepare("j", buildPipe, settings{})
	if err != nil || j.restarts() != (checkpoint.None{}) {
		t.Errorf("without checkpoints: %v, %v", j.restarts(), err)
	}
	j, err = prepare("j", func(j *stream.Job) {
		j.Checkpoints(checkpoint.Options{Interval: time.Second, Dir: checkpoint.Memory})
		buildPipe(j)
	}, settings{})
	if err != nil || j.restarts() != checkpoint.DefaultRestart(nil, true) {
		t.Errorf("with checkpoints: %v, %v", j.restarts(), err)
	}
}

func TestWrongCodeOptions(t *testing.T) {
	_, err := prepare("j", func(j *stream.Job) {
		j.Parallelism(-1)
		j.Checkpoints(checkpoint.Options{Mode: "sometimes"})
		buildPipe(j)
	}, settings{})
	want := "code: parallelism.default = \"-1\": allowed is a whole number from 1 to 32768\n" +
		"code: execution.checkpointing.mode = \"sometimes\": allowed is one of EXACTLY_ONCE, AT_LEAST_ONCE"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestConstantsAgree(t *testing.T) {
	if config.MemoryDir != checkpoint.Memory {
		t.Error("the directories in memory differ")
	}
}

// The mode may come from code, file, environment or a flag; a batch job that
// has a directory for checkpoints takes them.
func TestRuntimeMode(t *testing.T) {
	flag := func(value string) settings {
		return settings{flags: []config.Entry{{Key: config.RuntimeMode, Text: value}, {Key: config.CheckpointDir, Text: "/d"}}}
	}
	for _, tc := range []struct {
		code     stream.RuntimeMode
		s        settings
		batch    bool
		interval time.Duration
	}{
		{"", settings{}, false, 0},
		{"", flag("batch"), true, time.Minute},
		{stream.Batch, flag("streaming"), false, 0},
		{stream.Automatic, settings{}, true, 0},
		{"", settings{environ: []string{"WEIR_EXECUTION_RUNTIME_MODE=automatic"}}, true, 0},
	} {
		j, err := prepare("j", func(j *stream.Job) { j.RuntimeMode(tc.code); buildPipe(j) }, tc.s)
		if err != nil {
			t.Fatal(err)
		}
		if j.unfit != nil || j.batch != tc.batch || j.checkpoints().Interval != tc.interval {
			t.Errorf("code %q, %+v: batch %t, interval %v, %v", tc.code, tc.s, j.batch, j.checkpoints().Interval, j.unfit)
		}
		if w := j.warnings(); len(w) > 0 {
			t.Errorf("code %q, %+v: warnings %q", tc.code, tc.s, w)
		}
	}
	j, err := prepare("j", func(j *stream.Job) {
		stream.To(stream.From(j, "ticks", datagen.Source(-1, func(i int64) int64 { return i })), "out", collect.New[int64]())
	}, flag("BATCH"))
	if err != nil {
		t.Fatal(err)
	}
	if j.unfit == nil || !strings.Contains(j.unfit.Error(), `source "ticks" never ends`) || !strings.Contains(j.unfit.Error(), "AUTOMATIC") {
		t.Errorf("an endless source in batch mode: %v", j.unfit)
	}
}
