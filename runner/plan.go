package runner

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/graph"
)

// showGraph writes the plan and the effective options to standard output,
// warnings to standard error.
func (p *program) showGraph(inv *invocation) int {
	j, code := p.prepare(inv)
	if code != exitDone {
		return code
	}
	if j.unfit != nil {
		p.report("the job cannot run like this", j.unfit)
	}
	for _, w := range j.warnings() {
		fmt.Fprintf(p.stderr, "%s: warning: %s\n", p.name, w)
	}
	var err error
	switch inv.output {
	case "json":
		err = writePlanJSON(p.stdout, j)
	case "mermaid":
		err = j.plan.WriteMermaid(p.stdout)
	default:
		if err = j.plan.WriteText(p.stdout); err == nil {
			err = writeValues(p.stdout, j.values.Values())
		}
	}
	if err != nil {
		p.report("writing the graph", err)
		return exitFailed
	}
	return exitDone
}

func writeValues(w io.Writer, values []config.Value) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\noption\tvalue\tfrom\n")
	for _, v := range values {
		fmt.Fprintf(t, "%s\t%s\t%s\n", v.Key, v.Shown(), v.Origin)
	}
	return t.Flush()
}

// optionJSON is an option in the JSON form of the graph; Value is null if it
// is not set.
type optionJSON struct {
	Key   string       `json:"key"`
	Value *string      `json:"value"`
	Layer config.Layer `json:"layer"`
	Where string       `json:"where,omitempty"`
}

func writePlanJSON(w io.Writer, j *job) error {
	doc := struct {
		Plan    *graph.Plan  `json:"plan"`
		Options []optionJSON `json:"options"`
	}{Plan: j.plan}
	for _, v := range j.values.Values() {
		o := optionJSON{Key: v.Key, Layer: v.Origin.Layer, Where: v.Origin.Where}
		if v.Text != "" {
			o.Value = &v.Text
		}
		doc.Options = append(doc.Options, o)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}
