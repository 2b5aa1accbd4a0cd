// Package script runs tests that are written as scripts: lines that a test
// carries out, with what came of each below it.
package script

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what comes of each line of a script into testdata instead of comparing")

// Say writes what comes of a line.
type Say func(format string, args ...any)

// Run runs the scripts in a directory of testdata, each as a subtest. What comes
// of a line stands below it, indented; -rewrite renews that. Lines that are
// empty or begin with # are for the reader. A script is run by what begin
// returns for it, which is given the words of each line.
func Run(t *testing.T, dir string, begin func(*testing.T, Say) func(words []string)) {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join("testdata", dir, "*.txt"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, string(want), begin)
			if *rewrite {
				if err := os.WriteFile(script, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("%s differs, got:\n%s", script, got)
			}
		})
	}
}

func run(t *testing.T, script string, begin func(*testing.T, Say) func(words []string)) string {
	var out strings.Builder
	step := begin(t, func(format string, args ...any) {
		fmt.Fprintln(&out, "  "+strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n    "))
	})
	for line := range strings.SplitSeq(strings.TrimRight(script, "\n"), "\n") {
		if strings.HasPrefix(line, " ") {
			continue // what came of it last time
		}
		fmt.Fprintln(&out, line)
		if line != "" && !strings.HasPrefix(line, "#") {
			step(strings.Fields(line))
		}
	}
	return out.String()
}
