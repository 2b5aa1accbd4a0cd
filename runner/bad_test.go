package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
