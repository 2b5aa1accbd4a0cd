// Package layout holds the architecture: which package may import which, what
// a user of stream pulls in, and who alone imports a heavy dependency.
package layout

import (
	_ "embed"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weirstream/weir"

//go:embed levels.txt
var levels string

// list runs go list and returns its lines.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// level returns the line of levels.txt that a package stands on, 0 if none.
func level(pkg string) int {
	for i, line := range strings.Split(levels, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, p := range strings.Fields(line) {
			if base, ok := strings.CutSuffix(p, "/..."); p == pkg || ok && strings.HasPrefix(pkg, base+"/") {
				return i + 1
			}
		}
	}
	return 0
}

func TestImportsPointDown(t *testing.T) {
	for _, line := range list(t, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module+"/")
		at := level(pkg)
		if at == 0 {
			t.Errorf("package %s stands on no line of levels.txt: give it one", pkg)
			continue
		}
		for _, imp := range fields[1:] {
			dep, ok := strings.CutPrefix(imp, module+"/")
			if ok && level(dep) >= at {
				t.Errorf("%s imports %s, which is not below it in levels.txt", pkg, dep)
			}
		}
	}
}

// streamModules are the modules that a program which imports only stream
// compiles in.
var streamModules = []string{
	"github.com/goccy/go-json",
	"github.com/klauspost/compress",
	"github.com/klauspost/cpuid/v2",
	"github.com/twmb/avro",
	"github.com/zeebo/xxh3",
	"golang.org/x/sys",
}

func TestModulesOfAStreamUser(t *testing.T) {
	got := list(t, "-deps", "-f", `{{with .Module}}{{.Path}}{{end}}`, "./stream")
	slices.Sort(got)
	got = slices.DeleteFunc(slices.Compact(got), func(m string) bool { return m == "" || m == module })
	for _, m := range got {
		if !slices.Contains(streamModules, m) {
			t.Errorf("a user of stream now pulls in %s: keep it out, or add it to streamModules knowingly", m)
		}
	}
}

// heavy names the only packages that may import a dependency, tests,
// examples and bench aside.
var heavy = map[string][]string{
	"github.com/twmb/franz-go":            {"connector/kafka", "connector/kafka/registry"},
	"github.com/twmb/avro":                {"codec", "connector/file/avro", "connector/kafka/registry"},
	"github.com/goccy/go-yaml":            {"internal/config"},
	"github.com/zeebo/xxh3":               {"internal/keygroup", "agg"},
	"github.com/klauspost/compress":       {"internal/snapshot", "connector/file"},
	"github.com/parquet-go/parquet-go":    {"connector/file/parquet", "cmd/weir/internal/command"},
	"github.com/prometheus/client_golang": {"runner", "runner/embedded", "internal/checkpoint"},
	"golang.org/x/term":                   {"runner"},
	"github.com/cockroachdb/pebble":       {"internal/backend/lsm"},
}

func TestHeavyDependenciesHaveOneImporter(t *testing.T) {
	for _, line := range list(t, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module+"/")
		if strings.HasPrefix(pkg, "examples/") || pkg == "internal/killmatrix" {
			continue
		}
		for _, imp := range fields[1:] {
			for dep, owners := range heavy {
				if (imp == dep || strings.HasPrefix(imp, dep+"/")) && !slices.Contains(owners, pkg) {
					t.Errorf("%s imports %s; only %v may", pkg, imp, owners)
				}
			}
		}
	}
}
