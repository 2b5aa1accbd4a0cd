package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// TestBadConfigKey: a key that does not exist names file, line and the one
// that was meant, and nothing runs.
func TestBadConfigKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := "parallelism.default: 2\nexecution.checkpointing.intervall: 1 s\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run", "--config", file}, {"graph", "--config", file}, {"run", "-D", "execution.checkpointing.intervall=1 s"}} {
		maker, made := fake(finish)
		h := newHarness(buildPipe, maker)
		if code := h.run(args); code != exitUsage {
			t.Errorf("%v: exit code %d, want %d", args, code, exitUsage)
		}
		wanted := []string{`unknown key "execution.checkpointing.intervall"`, `did you mean "execution.checkpointing.interval"?`}
		if args[1] == "--config" {
			wanted = append(wanted, file+":2")
		}
		for _, w := range wanted {
			if !strings.Contains(h.err.String(), w) {
				t.Errorf("%v: stderr lacks %q:\n%s", args, w, h.err.String())
			}
		}
		if made() != nil {
			t.Errorf("%v: an engine was made", args)
		}
	}
}

type echo struct{}

func (echo) Process(ctx *stream.Ctx[stream.NoKey, int], n int) error {
	ctx.Emit(n)
	return nil
}

// TestBadBuildPanics: a panic while the job is built is its error, with the
// stack, in a program and in a service.
func TestBadBuildPanics(t *testing.T) {
	build := func(j *stream.Job) {
		s := stream.ProcessUnkeyed(stream.FromSlice(j, "numbers", []int{1}), "echo", func(*state.Registry) echo { panic("no table") })
		stream.To(s, "out", collect.New[int]())
	}
	for _, command := range []string{"run", "graph"} {
		maker, made := fake(finish)
		h := newHarness(build, maker)
		if code := h.run([]string{command}); code != exitFailed || !strings.Contains(h.err.String(), "panic: no table") || !strings.Contains(h.err.String(), "bad_test.go") {
			t.Errorf("%s: exit code %d: %s", command, code, h.err.String())
		}
		if made() != nil {
			t.Errorf("%s: an engine was made", command)
		}
	}
	if err := Run(t.Context(), "service", build); err == nil || !strings.Contains(err.Error(), "panic: no table") {
		t.Errorf("in a service: %v", err)
	}
}
