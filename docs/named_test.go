package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// namedTest is a test in a table, perhaps with the script that it runs.
	namedTest = regexp.MustCompile(`\bTest[A-Z0-9]\w*(/\w+)?`)
	packages  = regexp.MustCompile("`([a-z/]+)`")
	testFunc  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// TestNamedTestsExist checks that the tests which the tables name are there, in
// one of the packages named before them, if any is.
func TestNamedTestsExist(t *testing.T) {
	tests := testsByPackage(t)
	for _, page := range []string{"cases.md", "exactly-once.md", "kill-matrix.md"} {
		for line := range strings.Lines(read(t, page)) {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for clause := range strings.SplitSeq(line, ";") {
				for _, name := range namedTest.FindAllString(clause, -1) {
					if !named(tests, clause, name) {
						t.Errorf("%s names %s, which is in none of the packages in %q", page, name, strings.TrimSpace(clause))
					}
				}
			}
		}
	}
}

func named(tests map[string][]string, clause, name string) bool {
	name, script, _ := strings.Cut(name, "/")
	in := packages.FindAllStringSubmatch(clause, -1)
	for dir, have := range tests {
		if !slices.Contains(have, name) || in != nil && !slices.ContainsFunc(in, func(m []string) bool { return m[1] == dir }) {
			continue
		}
		scripts, err := filepath.Glob(filepath.Join("..", dir, "testdata", "*", script+".txt"))
		if script == "" || err == nil && len(scripts) > 0 {
			return true
		}
	}
	return false
}

func testsByPackage(t *testing.T) map[string][]string {
	t.Helper()
	tests := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		dir := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), ".."+string(filepath.Separator)))
		for _, m := range testFunc.FindAllStringSubmatch(string(data), -1) {
			tests[dir] = append(tests[dir], m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
