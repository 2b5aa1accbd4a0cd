package checkpoint

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what comes of each line of a script into testdata instead of comparing")

// say writes what comes of a line.
type say func(format string, args ...any)

// runScripts runs the scripts below a directory of testdata. What comes of each
// line stands below it, indented; -rewrite renews that. A script is run by what
// begin returns for it, line by line.
func runScripts(t *testing.T, dir string, begin func(*testing.T, say) func(words []string)) {
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
			got := runScript(t, string(want), begin)
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

func runScript(t *testing.T, script string, begin func(*testing.T, say) func(words []string)) string {
	var out strings.Builder
	run := begin(t, func(format string, args ...any) {
		fmt.Fprintln(&out, "  "+strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n    "))
	})
	for line := range strings.SplitSeq(strings.TrimRight(script, "\n"), "\n") {
		if strings.HasPrefix(line, " ") {
			continue // what came of it last time
		}
		fmt.Fprintln(&out, line)
		if line != "" && !strings.HasPrefix(line, "#") {
			run(strings.Fields(line))
		}
	}
	return out.String()
}
