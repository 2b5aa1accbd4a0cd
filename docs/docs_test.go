// Package docs checks the documentation: its links resolve and its programs
// compile and print what they say.
package docs

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns the text of every page, those of the root included, by its
// path from this directory.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../*.md")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, p := range paths {
		found[p] = strings.ReplaceAll(read(t, p), "\r\n", "\n")
	}
	return found
}

var (
	fenced = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	quoted = regexp.MustCompile("`[^`\n]*`")
	link   = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	title  = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

func TestLinksResolve(t *testing.T) {
	all := pages(t)
	for page, text := range all {
		prose := quoted.ReplaceAllString(fenced.ReplaceAllString(text, ""), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			if err := resolve(all, page, m[1]); err != nil {
				t.Errorf("%s: link to %s: %v", page, m[1], err)
			}
		}
	}
}

// resolve tells what is wrong with a link of a page.
func resolve(all map[string]string, page, target string) error {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "" {
		return err
	}
	path := page
	if u.Path != "" {
		path = filepath.Join(filepath.Dir(page), filepath.FromSlash(u.Path))
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	if u.Fragment != "" && !slices.Contains(anchors(all[path]), u.Fragment) {
		return fmt.Errorf("%s has no heading of that name", path)
	}
	return nil
}

// anchors are the fragments by which headings are named.
func anchors(text string) []string {
	var names []string
	for _, m := range title.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(m[1])))
	}
	return names
}

func TestEveryPageIsInTheIndex(t *testing.T) {
	all := pages(t)
	for page := range all {
		name := filepath.ToSlash(page)
		if !strings.Contains(name, "/") && name != "README.md" && !strings.Contains(all["README.md"], "]("+name+")") {
			t.Errorf("README.md does not link to %s", name)
		}
	}
}

var clause = regexp.MustCompile(`(?m)^package (\w+)$`)

// programs returns the Go files of the pages by path, each in a directory of
// its own; a test joins the program before it.
func programs(all map[string]string) map[string]string {
	files := map[string]string{}
	for page, text := range all {
		base := strings.NewReplacer("-", "", "/", "", ".md", "", ".", "").Replace(filepath.ToSlash(page))
		dir, last := "", ""
		for i, m := range fenced.FindAllStringSubmatch(text, -1) {
			name := clause.FindStringSubmatch(m[2])
			if m[1] != "go" || name == nil {
				continue
			}
			test := strings.Contains(m[2], "\nfunc Test") || strings.Contains(m[2], "\nfunc Example")
			if !test || name[1] != last {
				dir, last = fmt.Sprintf("%s%d", base, i), name[1]
			}
			file := "program.go"
			if test {
				file = "program_test.go"
			}
			files[filepath.Join(dir, file)] = m[2]
		}
	}
	return files
}

// TestPrograms vets the programs and runs their tests in a module of its own,
// as a user's are: what is internal here is out of reach.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range programs(pages(t)) {
		write(name, text)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/weirstream/weir"
	gomod := read(t, "../go.mod")
	gomod = strings.Replace(gomod, "module "+module, "module example.com/programs", 1)
	write("go.mod", fmt.Sprintf("%s\nrequire %s v0.0.0\nreplace %s => %q\n", gomod, module, module, root))
	write("go.sum", read(t, "../go.sum"))
	for _, command := range []string{"vet", "test"} {
		cmd := exec.Command("go", command, "./...")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", command, err, out)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	row     = regexp.MustCompile("(?m)^\\| (`.*?) \\| ")
	concat  = regexp.MustCompile("\" \\+\n\t+\"")
	verb    = regexp.MustCompile("%[a-zA-Z]")
	pieces  = regexp.MustCompile(`…|: `)
	message = regexp.MustCompile("`([^`]+)`")
)

// TestMessagesExist holds the messages that tables of errors quote to the
// program: what lies between two ellipses, or colons, must be in its text.
func TestMessagesExist(t *testing.T) {
	program := source(t)
	all := pages(t)
	_, ofCheckpoints, _ := strings.Cut(all["checkpoints.md"], "## Errors")
	rows := row.FindAllStringSubmatch(all["errors.md"]+ofCheckpoints, -1)
	if len(rows) < 40 {
		t.Errorf("only %d messages were found", len(rows))
	}
	for _, r := range rows {
		for _, m := range message.FindAllStringSubmatch(r[1], -1) {
			for _, part := range pieces.Split(m[1], -1) {
				if part = strings.Trim(part, `": `); !strings.Contains(program, part) {
					t.Errorf("no text of the program has %q, which is quoted as `%s`", part, m[1])
				}
			}
		}
	}
}

// source returns the text of the program, with strings that are put together
// of several lines in one and without what is filled in.
func source(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		all.WriteString(read(t, path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(verb.ReplaceAllString(concat.ReplaceAllString(all.String(), ""), ""), `\"`, `"`)
}

func TestProgramsAreFormatted(t *testing.T) {
	for page, text := range pages(t) {
		for _, m := range fenced.FindAllStringSubmatch(text, -1) {
			if m[1] != "go" || !clause.MatchString(m[2]) {
				continue
			}
			cmd := exec.Command("gofmt", "-d")
			cmd.Stdin = strings.NewReader(m[2])
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s: %v\n%s", page, err, out)
			}
		}
	}
}
