package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the table in the documentation")

const page = "../../docs/configuration.md"

func TestDocumentation(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "-rewrite -->\n", "<!-- end of options -->"
	head, rest, ok1 := strings.Cut(string(data), begin)
	got, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks the marks around the table of options", page)
	}
	want := table()
	if *rewrite {
		if err := os.WriteFile(page, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s is not what the table of options says; accept it with: go test ./internal/config -run TestDocumentation -rewrite", page)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("| key, flag, environment | values | default | meaning |\n|---|---|---|---|\n")
	for _, o := range Options() {
		names := "`" + o.Key + "`"
		if o.Flag != "" {
			names += "<br>`--" + o.Flag + "`"
		}
		if o.Short != "" {
			names += ", `-" + o.Short + "`"
		}
		names += "<br>`" + Env(o.Key) + "`"
		for _, old := range o.Old {
			names += "<br>old: `" + old + "`"
		}
		def := o.DefaultText
		if o.Default != "" {
			def = "`" + o.Default + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", names, strings.Replace(o.Kind.Allowed, " such as 500 ms, 10 s, 1 min or 1 h (a plain number is milliseconds)", "", 1), def, o.Help)
	}
	return b.String()
}
