package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/weirstream/weir/savepoint"
)

const verifyUsage = `Usage: weir verify PATH... [flags]

Read snapshots whole and compare all checksums; check that their files are of the
right structure, that every state is there as _metadata lists it, with as many
entries as it says, and that each key lies once, in its key group, in order. All
damage is listed, and the exit code is 1 if there is any. Values are not decoded.
PATH is the directory of a savepoint or checkpoint, or its _metadata.
`

func (p *Program) verify(ctx context.Context, args []string) error {
	f := newFlags(verifyUsage)
	operands, proceed, err := f.parse(p.Stdout, args)
	if err != nil || !proceed {
		return err
	}
	if len(operands) == 0 {
		return misuse("verify needs a snapshot: weir verify PATH")
	}
	var reports []*savepoint.Report
	var bad []string
	for _, path := range operands {
		r, err := savepoint.Verify(ctx, path, p.progress())
		if err != nil {
			return err
		}
		reports = append(reports, r)
		if len(r.Damage) > 0 {
			bad = append(bad, r.Path)
		}
		if f.output == "text" {
			p.writeReport(r)
		}
	}
	if f.output == "json" {
		if err := p.writeJSON(struct {
			Snapshots []*savepoint.Report `json:"snapshots"`
		}{reports}); err != nil {
			return err
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("damaged: %s", strings.Join(bad, ", "))
	}
	return nil
}

func (p *Program) writeReport(r *savepoint.Report) {
	state := "intact"
	if n := len(r.Damage); n > 0 {
		state = fmt.Sprintf("damaged, in %d places", n)
	}
	fmt.Fprintf(p.Stdout, "%s: %s. %d data files, %s, %d entries\n", r.Path, state, r.Files, size(r.Bytes), r.Entries)
	for _, d := range r.Damage {
		fmt.Fprintf(p.Stdout, "  %s\n", d)
	}
	for _, u := range r.Unread {
		fmt.Fprintf(p.Stdout, "  only checksums were compared: %s\n", u)
	}
}

// progress shows on a terminal how far it is, nil where there is none.
func (p *Program) progress() func(done, total int64) {
	if !p.Interactive {
		return nil
	}
	shown := int64(-1)
	return func(done, total int64) {
		if percent := done * 100 / max(total, 1); percent != shown {
			shown = percent
			end := ""
			if percent == 100 {
				end = "\r      \r"
			}
			fmt.Fprintf(p.Stderr, "\r%3d %%%s", percent, end)
		}
	}
}

const diffUsage = `Usage: weir diff PATH PATH [flags]

Compare two snapshots: their operators, the states of each and their types, and
every entry of every state; where sources read, and what sinks have not
committed. Ids, times, watermarks and parallelism are not compared. Both are read
once, side by side. Exit code 0: equal, 1: different, 2: they cannot be compared,
or wrong usage.
`

func (p *Program) diff(ctx context.Context, args []string) error {
	f := newFlags(diffUsage)
	limit := 10
	f.IntVar(&limit, "limit", limit, "")
	f.rows = append(f.rows, "  --limit N\n        Show at most N entries of each state that differ; 0 for all. Default 10.\n")
	var o savepoint.DiffOptions
	f.boolean(&o.IgnoreAccess, "ignore-access", "Leave out the times of last access of states with a time to live.")
	operands, proceed, err := f.parse(p.Stdout, args)
	switch {
	case err != nil || !proceed:
		return err
	case len(operands) != 2:
		return misuse("diff needs two snapshots: weir diff PATH PATH")
	case limit < 0:
		return misuse("--limit %d: it must not be negative", limit)
	}
	c := comparison{limit: limit, show: p.showDifference}
	if f.output == "json" {
		out := newJSONLines(p.Stdout)
		c.show = func(d savepoint.Difference) error { return out(d) }
	}
	if err := c.run(ctx, operands[0], operands[1], o); err != nil {
		return exitError{exitUsage, err}
	}
	return c.report(p, f.output)
}

// comparison counts what differs and shows the first of it.
type comparison struct {
	limit  int
	show   func(savepoint.Difference) error
	counts []*counted
}

// counted are the differences of one kind in a state.
type counted struct {
	Operator string `json:"operator"`
	State    string `json:"state,omitempty"`
	What     string `json:"what"`
	Added    int64  `json:"added"`
	Removed  int64  `json:"removed"`
	Changed  int64  `json:"changed"`
}

func (c *comparison) run(ctx context.Context, before, after string, o savepoint.DiffOptions) error {
	a, err := savepoint.Open(ctx, before, decoders()...)
	if err != nil {
		return err
	}
	b, err := savepoint.Open(ctx, after, decoders()...)
	if err != nil {
		return err
	}
	return savepoint.Diff(ctx, a, b, o, c.add)
}

func (c *comparison) add(d savepoint.Difference) error {
	var of *counted
	// Those of a state come together.
	if n := len(c.counts); n > 0 && c.counts[n-1].Operator == d.Operator && c.counts[n-1].State == d.State && c.counts[n-1].What == d.What {
		of = c.counts[n-1]
	} else {
		of = &counted{Operator: d.Operator, State: d.State, What: d.What}
		c.counts = append(c.counts, of)
	}
	switch {
	case d.Before == nil:
		of.Added++
	case d.After == nil:
		of.Removed++
	default:
		of.Changed++
	}
	if c.limit > 0 && of.Added+of.Removed+of.Changed > int64(c.limit) {
		return nil
	}
	return c.show(d)
}

func (p *Program) showDifference(d savepoint.Difference) error {
	name := d.Operator
	if d.State != "" {
		name += "/" + d.State
	}
	if d.Key != nil {
		name += " " + cell(d.Key)
	}
	_, err := fmt.Fprintf(p.Stdout, "%s %s\n", d.What, name)
	if err == nil && d.Before != nil {
		_, err = fmt.Fprintf(p.Stdout, "  - %s\n", cell(d.Before))
	}
	if err == nil && d.After != nil {
		_, err = fmt.Fprintf(p.Stdout, "  + %s\n", cell(d.After))
	}
	return err
}

// report sums up; the error says that they differ.
func (c *comparison) report(p *Program, output string) error {
	if output == "json" {
		if err := newJSONLines(p.Stdout)(struct {
			Differences []*counted `json:"differences"`
		}{append([]*counted{}, c.counts...)}); err != nil {
			return exitError{exitUsage, err}
		}
	} else {
		for i, of := range c.counts {
			if i == 0 {
				fmt.Fprintln(p.Stdout)
			}
			name := of.Operator
			if of.State != "" {
				name += "/" + of.State
			}
			fmt.Fprintf(p.Stdout, "%s, %s: %d added, %d removed, %d changed\n", name, of.What, of.Added, of.Removed, of.Changed)
		}
	}
	if len(c.counts) > 0 {
		return exitError{exitFailed, errQuiet}
	}
	return nil
}

// errQuiet says nothing: the exit code is the answer.
var errQuiet = errors.New("different")

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }
