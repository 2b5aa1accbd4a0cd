package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/runner/embedded"
)

// checkRestore tells on standard output whether the job restores the snapshot of
// -s.
func (p *program) checkRestore(inv *invocation) int {
	j, code := p.prepare(inv)
	if code != exitDone {
		return code
	}
	if j.text(config.RestorePath) == "" {
		return p.misuse("check", "check needs a snapshot: %s check -s PATH", p.name)
	}
	o := j.engineOptions()
	o.Schemes = p.opts.schemes
	c, err := embedded.CheckRestore(context.Background(), j.graph, o)
	if err != nil {
		p.report("the snapshot cannot be checked", err)
		return exitFailed
	}
	if inv.output == "json" {
		err = writeCheckJSON(p.stdout, p.name, c)
	} else {
		writeCheck(p.stdout, p.name, c)
	}
	switch {
	case err != nil:
		p.report("writing the answer", err)
		return exitFailed
	case len(c.Refusals) > 0:
		return exitFailed
	}
	return exitDone
}

func writeCheck(w io.Writer, name string, c *embedded.RestoreCheck) {
	does := "restores"
	if len(c.Refusals) > 0 {
		does = "does not restore"
	}
	fmt.Fprintf(w, "%s %s %s (%s %d of job %s)\n", name, does, c.Path, c.Kind, c.ID, c.Job)
	for _, r := range c.Refusals {
		fmt.Fprintf(w, "  refused: %s\n", strings.ReplaceAll(r, "\n", "\n    "))
	}
	for _, n := range c.Notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
}

func writeCheckJSON(w io.Writer, name string, c *embedded.RestoreCheck) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Program  string   `json:"program"`
		Snapshot string   `json:"snapshot"`
		Job      string   `json:"job"`
		Kind     string   `json:"kind"`
		ID       int64    `json:"id"`
		Restores bool     `json:"restores"`
		Refusals []string `json:"refusals"`
		Notes    []string `json:"notes"`
	}{name, c.Path, c.Job, string(c.Kind), c.ID, len(c.Refusals) == 0, append([]string{}, c.Refusals...), append([]string{}, c.Notes...)})
}
