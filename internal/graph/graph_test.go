package graph

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -rewrite accepts it); got:\n%s", path, got)
	}
}

func in(from *Node, p Partition) []Edge { return []Edge{{From: from, Partition: p}} }

// latency is a job with chains, a side output, a union and a change of
// parallelism.
func latency() *Graph {
	clicks := &Node{ID: "clicks", Kind: "kafka source", Role: Source, Site: "main.go:10", Options: map[string]string{"topic": "clicks", "start": "earliest"}}
	extra := &Node{ID: "extra", Kind: "generator", Role: Source, Parallelism: 1, Site: "main.go:11"}
	parse := &Node{ID: "parse", Name: "parse clicks", Kind: "map", Role: Operator, Inputs: in(clicks, Forward), Site: "main.go:12"}
	drop := &Node{ID: "drop", Kind: "filter", Role: Operator, Inputs: in(parse, Forward), Site: "main.go:13"}
	dedupe := &Node{ID: "dedupe", Kind: "process", Role: Operator, Stateful: true, Keyed: true, Site: "main.go:14",
		Inputs: []Edge{{From: drop, Partition: Hash}, {From: extra, Partition: Hash}}}
	p99 := &Node{ID: "p99", Kind: "aggregate", Role: Operator, Stateful: true, Keyed: true, Inputs: in(dedupe, Hash), Site: "main.go:15"}
	rows := &Node{ID: "rows", Kind: "kafka sink", Role: Sink, Inputs: in(p99, Forward), Site: "main.go:16"}
	late := &Node{ID: "late", Kind: "print", Role: Sink, Parallelism: 1, Site: "main.go:17", Inputs: []Edge{{From: p99, Tag: "late", Partition: Forward}}}
	return &Graph{Job: "page-latency", Nodes: []*Node{clicks, extra, parse, drop, dedupe, p99, rows, late}}
}

func TestPlanCutsStages(t *testing.T) {
	p, err := latency().Plan(2, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range p.Stages {
		line := s.ID + ":"
		for _, n := range s.Nodes {
			line += " " + n.ID
		}
		for _, e := range s.Inputs {
			line += " <" + string(e.Partition) + "-" + e.Producer.ID
			if e.To != s || e.From.Nodes == nil || e.Consumer != s.Head() || e.Consumer.Inputs[e.Port].From != e.Producer {
				t.Errorf("edge into %s is inconsistent: %+v", s.ID, e)
			}
		}
		for _, e := range s.Outputs {
			line += " >" + e.Consumer.ID
			if e.From != s {
				t.Errorf("output of %s claims stage %s", s.ID, e.From.ID)
			}
		}
		got = append(got, line)
	}
	want := []string{
		"clicks: clicks parse drop >dedupe",
		"extra: extra >dedupe",
		"dedupe: dedupe <hash-drop <hash-extra >p99",
		"p99: p99 rows <hash-dedupe >late",
		"late: late <rebalance-p99",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

func TestPlanParallelism(t *testing.T) {
	g := latency()
	g.Nodes[6].Parallelism = 200 // rows
	p, err := g.Plan(3, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]int{"clicks": {3, 128}, "extra": {1, 128}, "dedupe": {3, 128}, "p99": {3, 128}, "rows": {200, 512}, "late": {1, 128}}
	for _, s := range p.Stages {
		if w := want[s.ID]; s.Parallelism != w[0] || s.MaxParallelism != w[1] {
			t.Errorf("%s: parallelism %d of %d, want %v", s.ID, s.Parallelism, s.MaxParallelism, w)
		}
	}
	if _, err := g.Plan(3, 100); err == nil || !strings.Contains(err.Error(), `"rows": parallelism 200 is above the max parallelism 100`) {
		t.Errorf("parallelism above the maximum: %v", err)
	}
	if _, err := latency().Plan(0, 0); err == nil {
		t.Error("parallelism 0 was accepted")
	}
}

// A forward edge from a side output chains like one from the main output,
// and a union of two forward edges of one producer does not.
func TestPlanTagsAndUnions(t *testing.T) {
	src := &Node{ID: "src", Role: Source}
	side := &Node{ID: "side", Role: Sink, Inputs: []Edge{{From: src, Tag: "bad", Partition: Forward}}}
	both := &Node{ID: "both", Role: Sink, Inputs: []Edge{{From: src, Partition: Forward}, {From: src, Tag: "bad", Partition: Forward}}}
	p, err := (&Graph{Job: "j", Nodes: []*Node{src, side, both}}).Plan(2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Stages) != 2 || len(p.Stages[0].Nodes) != 2 || p.Stages[0].Nodes[1] != side {
		t.Fatalf("stages: %+v", p.Stages)
	}
	if in := p.Stages[1].Inputs; len(in) != 2 || in[0].Partition != Forward || in[1].Edge.Tag != "bad" || in[1].Port != 1 {
		t.Errorf("inputs of the union: %+v", in)
	}
}

func TestWrite(t *testing.T) {
	p, err := latency().Plan(2, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.Stages[0].Nodes[1].Name = `parse "<clicks>"`
	for name, write := range map[string]func(*bytes.Buffer) error{
		"plan.txt":  func(b *bytes.Buffer) error { return p.WriteText(b) },
		"plan.json": func(b *bytes.Buffer) error { return p.WriteJSON(b) },
		"plan.mmd":  func(b *bytes.Buffer) error { return p.WriteMermaid(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
	}
}

func TestValidate(t *testing.T) {
	if err := latency().Validate(); err != nil {
		t.Fatalf("a valid graph: %v", err)
	}
	src := func() *Node { return &Node{ID: "src", Kind: "generator", Role: Source, Site: "a.go:1"} }
	sink := func(from *Node) *Node {
		return &Node{ID: "out", Kind: "print", Role: Sink, Inputs: in(from, Forward), Site: "a.go:9"}
	}
	tests := []struct {
		name  string
		build func() *Graph
		want  []string
	}{
		{"empty", func() *Graph { return &Graph{Job: "j"} }, []string{"no source", "no sink"}},
		{"job name", func() *Graph { s := src(); return &Graph{Job: "a/b", Nodes: []*Node{s, sink(s)}} }, []string{`job name "a/b" contains '/'`}},
		{"stateful without id", func() *Graph {
			s := src()
			p := &Node{Kind: "process", Role: Operator, Stateful: true, Inputs: in(s, Hash), Site: "a.go:5"}
			return &Graph{Job: "j", Nodes: []*Node{s, p, sink(p)}}
		}, []string{`a.go:5: process "": it has no id`}},
		{"characters", func() *Graph {
			s := src()
			s.ID = "sørce"
			return &Graph{Job: "j", Nodes: []*Node{s, sink(s)}}
		}, []string{`a.go:1: generator "sørce": its id "sørce" contains 'ø'`}},
		{"parallelism", func() *Graph {
			s := src()
			s.Parallelism = -2
			return &Graph{Job: "j", Nodes: []*Node{s, sink(s)}}
		}, []string{"a.go:1", "parallelism -2"}},
		{"foreign stream and no input", func() *Graph {
			s, other := src(), &Node{ID: "other", Kind: "map", Role: Operator, Site: "b.go:3"}
			return &Graph{Job: "j", Nodes: []*Node{s, sink(other), {ID: "alone", Kind: "map", Role: Operator, Site: "a.go:4"}}}
		}, []string{`a.go:9: print "out": input 0 is map "other" (b.go:3), which was not created before it`, `a.go:4: map "alone": it has no input`}},
		{"several at once", func() *Graph {
			s := src()
			s.Inputs = in(nil, "sideways")
			return &Graph{Job: "", Nodes: []*Node{s}}
		}, []string{"job name is empty", "a source cannot have inputs", "has no producer", `unknown partition "sideways"`, "no sink"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.build().Validate()
			if err == nil {
				t.Fatal("accepted")
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q:\n%v", w, err)
				}
			}
		})
	}
}

func TestC12DuplicateOperatorIDs(t *testing.T) {
	s := &Node{ID: "src", Role: Source, Site: "a.go:1"}
	a := &Node{ID: "out", Name: "rows", Kind: "print", Role: Sink, Inputs: in(s, Forward), Site: "a.go:2"}
	b := &Node{ID: "out", Name: "rows", Kind: "print", Role: Sink, Inputs: in(s, Forward), Site: "a.go:3"}
	g := &Graph{Job: "j", Nodes: []*Node{s, a, b}}
	want := `a.go:3: print "rows": duplicate operator id "out", first used at a.go:2`
	if err := g.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	b.ID = "out-2"
	if err := g.Validate(); err != nil {
		t.Errorf("equal names with different ids: %v", err)
	}
}

func TestCheckID(t *testing.T) {
	for id, ok := range map[string]bool{
		"a": true, "A-1_b.c": true, "-x": true, strings.Repeat("x", 128): true,
		"": false, ".": false, "..": false, ".hidden": false, "a b": false, "a\x00": false, "a/b": false, "é": false,
		strings.Repeat("x", 129): false,
	} {
		if err := CheckID(id); (err == nil) != ok {
			t.Errorf("CheckID(%.20q) = %v, want ok=%v", id, err, ok)
		}
	}
}

func TestWarnings(t *testing.T) {
	if w := latency().Warnings(); len(w) != 0 {
		t.Errorf("complete job warns: %q", w)
	}
	g := latency()
	g.Nodes = g.Nodes[:7]
	g.Nodes = append(g.Nodes[:6:6], &Node{ID: "x", Kind: "map", Role: Operator, Inputs: in(g.Nodes[5], Forward), Site: "m.go:7"})
	if w := g.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], `m.go:7: nothing consumes the output of map "x"`) {
		t.Errorf("warnings: %q", w)
	}
}
