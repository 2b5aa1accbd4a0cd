package killpoint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// calls finds the labels of all calls in the repository's code: of Reach as
// they are, of the others as what stands before the kind.
func calls(t *testing.T) (plain, kinded map[string]string) {
	t.Helper()
	plain, kinded = map[string]string{}, map[string]string{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "testdata" || e.Name() == "killpoint" || strings.HasPrefix(e.Name(), ".") && path != root):
			return fs.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := f.X.(*ast.Ident); !ok || x.Name != "killpoint" || len(call.Args) == 0 {
				return true
			}
			label, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: the label of killpoint.%s is not a literal", path, f.Sel.Name)
				return true
			}
			name, err := strconv.Unquote(label.Value)
			if err != nil {
				t.Fatal(err)
			}
			into := kinded
			if f.Sel.Name == "Reach" {
				into = plain
			}
			if at, ok := into[name]; ok {
				t.Errorf("label %s stands in %s and in %s", name, at, path)
			}
			into[name] = path
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return plain, kinded
}

func TestLabelsAreThoseOfTheCode(t *testing.T) {
	inCode, kindedInCode := calls(t)
	if len(inCode) < 30 || len(kindedInCode) < 5 {
		t.Fatalf("only %d and %d labels found in the code", len(inCode), len(kindedInCode))
	}
	for label, path := range inCode {
		if !slices.Contains(plain, label) {
			t.Errorf("label %s of %s is not in the list", label, path)
		}
	}
	for _, label := range plain {
		if _, ok := inCode[label]; !ok {
			t.Errorf("label %s is nowhere in the code", label)
		}
	}
	for label, path := range kindedInCode {
		if _, ok := kinded()[label]; !ok {
			t.Errorf("label %s of %s is not in the list of those with a kind", label, path)
		}
	}
	for label := range kinded() {
		if _, ok := kindedInCode[label]; !ok {
			t.Errorf("label %s, with a kind, is nowhere in the code", label)
		}
	}
	all := Labels()
	if len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("a label is in the list twice: %v", all)
	}
}

func TestKindOfAFile(t *testing.T) {
	for path, want := range map[string]string{
		"/c/job/ledger/0000000001":    "ledger",
		"/c/job/chk-7/_metadata":      "metadata",
		"/c/job/chk-7/_committed":     "mark",
		"/c/job/chk-7/count-0-a1.wsn": "data",
		"ledger":                      "data",
	} {
		if got := kindOf(path); got != want {
			t.Errorf("%s is taken for %s, not %s", path, got, want)
		}
	}
}

// probe builds a program that comes to four kill points.
func probe(t *testing.T, tags string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds programs")
	}
	program := filepath.Join(t.TempDir(), "probe")
	out, err := exec.Command("go", "build", "-tags", tags, "-o", program, "./testdata/probe").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// Not even the labels are in a program built without the tag.
func TestCompiledToNothingWithoutTheTag(t *testing.T) {
	for _, tags := range []string{"", "killpoints"} {
		data, err := os.ReadFile(probe(t, tags))
		if err != nil {
			t.Fatal(err)
		}
		for _, label := range []string{"start.begin", "ledger.append", "file.synced", "file.torn"} {
			if there := bytes.Contains(data, []byte(label)); there != (tags != "") {
				t.Errorf("tags %q: label %s in the program: %v", tags, label, there)
			}
		}
	}
}

func BenchmarkReach(b *testing.B) {
	for b.Loop() {
		Reach("start.begin")
		ReachFile("file.synced", "job/chk-1/_metadata")
	}
}
