package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// The JSON form of a plan. Fields are only ever added.
type (
	planJSON struct {
		Job    string      `json:"job"`
		Stages []stageJSON `json:"stages"`
	}
	stageJSON struct {
		ID             string     `json:"id"`
		Parallelism    int        `json:"parallelism"`
		MaxParallelism int        `json:"max_parallelism"`
		Operators      []nodeJSON `json:"operators"`
	}
	nodeJSON struct {
		ID       string            `json:"id"`
		Name     string            `json:"name"`
		Kind     string            `json:"kind"`
		Role     Role              `json:"role"`
		Stateful bool              `json:"stateful,omitempty"`
		Keyed    bool              `json:"keyed,omitempty"`
		Site     string            `json:"site,omitempty"`
		Options  map[string]string `json:"options,omitempty"`
		Inputs   []edgeJSON        `json:"inputs,omitempty"`
	}
	edgeJSON struct {
		From      string    `json:"from"`
		Tag       string    `json:"tag,omitempty"`
		Partition Partition `json:"partition"`
		// Second edges lead to the second input of an operator that has two.
		Second bool `json:"second,omitempty"`
		// Chained edges are direct calls within a stage.
		Chained bool `json:"chained"`
	}
)

// MarshalJSON is the form that WriteJSON writes.
func (p *Plan) MarshalJSON() ([]byte, error) {
	out := planJSON{Job: p.Job, Stages: []stageJSON{}}
	for _, s := range p.Stages {
		sj := stageJSON{ID: s.ID, Parallelism: s.Parallelism, MaxParallelism: s.MaxParallelism}
		for i, n := range s.Nodes {
			nj := nodeJSON{ID: n.ID, Name: n.Label(), Kind: kind(n), Role: n.Role, Stateful: n.Stateful, Keyed: n.Keyed, Site: n.Site, Options: n.Options}
			for port, e := range n.Inputs {
				ej := edgeJSON{From: e.From.ID, Tag: e.Tag, Partition: e.Partition, Second: e.Second, Chained: i > 0}
				if i == 0 {
					ej.Partition = s.Inputs[port].Partition
				}
				nj.Inputs = append(nj.Inputs, ej)
			}
			sj.Operators = append(sj.Operators, nj)
		}
		out.Stages = append(out.Stages, sj)
	}
	return encode(out, "")
}

// encode leaves "<" and ">" readable, which json.Marshal does not.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return b.Bytes(), err
}

// WriteJSON writes the plan as indented JSON, for programs.
func (p *Plan) WriteJSON(w io.Writer) error {
	data, err := encode(p, "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// WriteText writes the plan for a terminal: stage by stage, each a tree of
// its operators and the edges that leave it.
func (p *Plan) WriteText(w io.Writer) error {
	var b bytes.Buffer
	operators := 0
	for _, s := range p.Stages {
		operators += len(s.Nodes)
	}
	fmt.Fprintf(&b, "job %s: %s in %s\n", p.Job, count(operators, "operator"), count(len(p.Stages), "stage"))
	for _, s := range p.Stages {
		fmt.Fprintf(&b, "\nstage %s, %s, max parallelism %d\n", s.ID, count(s.Parallelism, "subtask"), s.MaxParallelism)
		for _, e := range s.Inputs {
			fmt.Fprintf(&b, "   %s← %s (%s)\n", prefix(e.Edge.Tag), e.Producer.ID, e.Partition)
		}
		fmt.Fprintf(&b, "   %s\n", describe(s.Head()))
		writeTree(&b, s, s.Head(), "   ")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// writeTree writes what n feeds, chained operators first.
func writeTree(b *bytes.Buffer, s *Stage, n *Node, indent string) {
	type branch struct {
		text string
		node *Node
	}
	var branches []branch
	for _, c := range s.Nodes[1:] {
		if e := c.Inputs[0]; e.From == n {
			branches = append(branches, branch{prefix(e.Tag) + describe(c), c})
		}
	}
	for _, e := range s.Outputs {
		if e.Producer == n {
			branches = append(branches, branch{text: fmt.Sprintf("%s→ %s (%s)", prefix(e.Edge.Tag), e.Consumer.ID, e.Partition)})
		}
	}
	for i, br := range branches {
		mark, next := "├─ ", "│  "
		if i == len(branches)-1 {
			mark, next = "└─ ", "   "
		}
		fmt.Fprintf(b, "%s%s%s\n", indent, mark, br.text)
		if br.node != nil {
			writeTree(b, s, br.node, indent+next)
		}
	}
}

func describe(n *Node) string {
	parts := []string{kind(n)}
	if n.Label() != n.ID {
		parts = append(parts, fmt.Sprintf("%q", n.Label()))
	}
	for _, k := range slices.Sorted(maps.Keys(n.Options)) {
		parts = append(parts, k+"="+n.Options[k])
	}
	text := n.ID + " (" + strings.Join(parts, ", ") + ")"
	if n.Site != "" {
		text += "  " + n.Site
	}
	return text
}

// prefix shows the tag of a side output.
func prefix(tag string) string {
	if tag == "" {
		return ""
	}
	return "[" + tag + "] "
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// WriteMermaid writes the plan as a Mermaid flow chart, one box per stage.
func (p *Plan) WriteMermaid(w io.Writer) error {
	var b bytes.Buffer
	ids := map[*Node]string{}
	b.WriteString("flowchart LR\n")
	for i, s := range p.Stages {
		fmt.Fprintf(&b, "  subgraph s%d [\"%s × %d\"]\n", i, mermaid(s.ID), s.Parallelism)
		for _, n := range s.Nodes {
			ids[n] = fmt.Sprintf("n%d", len(ids))
			open, end := mermaidShape(n.Role)
			fmt.Fprintf(&b, "    %s%s\"%s<br/>%s\"%s\n", ids[n], open, mermaid(n.Label()), mermaid(kind(n)), end)
		}
		b.WriteString("  end\n")
	}
	for _, s := range p.Stages {
		for _, n := range s.Nodes[1:] {
			writeMermaidEdge(&b, ids[n.Inputs[0].From], ids[n], n.Inputs[0].Tag)
		}
		for _, e := range s.Inputs {
			writeMermaidEdge(&b, ids[e.Producer], ids[e.Consumer], prefix(e.Edge.Tag)+string(e.Partition))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func writeMermaidEdge(b *bytes.Buffer, from, to, label string) {
	if label != "" {
		label = "|\"" + mermaid(label) + "\"|"
	}
	fmt.Fprintf(b, "  %s -->%s %s\n", from, label, to)
}

func mermaidShape(r Role) (open, end string) {
	switch r {
	case Source:
		return "([", "])"
	case Sink:
		return "[(", ")]"
	}
	return "[", "]"
}

// mermaid escapes text for a quoted label.
func mermaid(s string) string {
	return strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", " ").Replace(s)
}
