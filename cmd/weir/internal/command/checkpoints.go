package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirstream/weir/internal/checkpoint"
)

const checkpointsUsage = `Usage: weir checkpoints DIR [flags]

Show who started a job, from what, and how that ended; which snapshots there
are, which of them are void and why; and how to begin from each, with what it
costs. DIR is a job's directory, or the checkpoint directory with all of its
jobs. Nothing is written, and the job may run meanwhile.
`

func (p *Program) checkpoints(ctx context.Context, args []string) error {
	f := newFlags(checkpointsUsage)
	var job string
	var verify bool
	f.text(&job, "job", "NAME", "Show this job only.")
	f.boolean(&verify, "verify", "Read all data files and compare their checksums, not only their sizes.")
	operands, proceed, err := f.parse(p.Stdout, args)
	if err != nil || !proceed {
		return err
	}
	if len(operands) != 1 {
		return misuse("checkpoints needs one directory: weir checkpoints DIR")
	}
	dir, err := openDirectory(ctx, operands[0], job)
	if err != nil {
		return err
	}
	lines, err := dir.look(ctx, verify)
	if err != nil {
		return err
	}
	if f.output == "json" {
		err = p.writeJSON(struct {
			Jobs []*checkpoint.Timeline `json:"jobs"`
		}{lines})
	} else {
		for i, t := range lines {
			if i > 0 {
				fmt.Fprintln(p.Stdout)
			}
			writeTimeline(p.Stdout, t)
		}
	}
	if damaged := damagedOf(lines); err == nil && verify && len(damaged) > 0 {
		err = fmt.Errorf("damaged: %s", strings.Join(damaged, ", "))
	}
	return err
}

func damagedOf(lines []*checkpoint.Timeline) (paths []string) {
	for _, t := range lines {
		for _, s := range t.Snapshots {
			if s.Damage != "" {
				paths = append(paths, s.Path)
			}
		}
	}
	return paths
}

func writeTimeline(w io.Writer, t *checkpoint.Timeline) {
	sinks := "none in a snapshot"
	if len(t.ExactlyOnceSinks) > 0 {
		sinks = strings.Join(t.ExactlyOnceSinks, ", ")
	}
	fmt.Fprintf(w, "Job %s in %s, lineage %s\nExactly-once sinks: %s\nThe same command %s\n", t.Job, t.Directory, orDash(t.Lineage), sinks, nextStart(t.Next))

	fmt.Fprintln(w, "\nAttempts")
	attempts := table{head: []string{"attempt", "claimed", "by", "asked for", "began from", "ended"}}
	lineage := ""
	for _, a := range t.Attempts {
		var notes []string
		if a.Chose && a.Lineage != lineage {
			notes, lineage = []string{"begins lineage " + a.Lineage}, a.Lineage
		}
		if a.Refused != "" {
			notes = append(notes, "refused: "+a.Refused)
		}
		end := a.End
		if a.Ended != nil {
			end += ", " + stamp(*a.Ended)
		}
		attempts.add(notes, fmt.Sprint(a.Attempt), stamp(a.Claimed), fmt.Sprintf("%s, pid %d", a.Host, a.PID), orDash(a.Asked), beganFrom(a), end)
	}
	attempts.write(w)

	fmt.Fprintln(w, "\nSnapshots")
	snapshots := table{head: []string{"id", "kind", "completed", "attempt", "size", "committables", "state", "begin from it by"}}
	for _, s := range t.Snapshots {
		snapshots.add(snapshotNotes(s), fmt.Sprint(s.ID), orDash(string(s.Kind)), stamp(s.Completed), fmt.Sprint(s.Attempt), size(s.Bytes), committables(s), state(s), how(s))
	}
	snapshots.write(w)
	for _, u := range t.Unfinished {
		fmt.Fprintf(w, "  %s: no snapshot, for it has no _metadata (yet): %d files, %s\n", u.Path, u.Files, size(u.Bytes))
	}
	writeLosses(w, t.Losses)
}

func writeLosses(w io.Writer, losses []checkpoint.AcceptedLoss) {
	if len(losses) == 0 {
		return
	}
	fmt.Fprintln(w, "\nAccepted losses")
	for _, l := range losses {
		fmt.Fprintf(w, "  %s, attempt %d, by pid %d on %s, for %s:\n      %s\n", stamp(l.Time), l.Attempt, l.PID, l.Host, l.Snapshot, l.Note)
		for _, one := range l.Losses {
			fmt.Fprintf(w, "      %s: sink %s, subtask %d, checkpoint %d: %s\n", one.Outcome, one.Operator, one.Subtask, one.Checkpoint, one.Reason)
		}
	}
}

func nextStart(n checkpoint.NextStart) string {
	switch n.Does {
	case checkpoint.GoesOn:
		if n.Last != 0 {
			return fmt.Sprintf("goes on from %s, at which attempt %d was refused (below): it takes a decision.", n.From, n.Last)
		}
		return fmt.Sprintf("goes on from %s.", n.From)
	case checkpoint.IsRefused, checkpoint.WasCanceled:
		return "is refused: " + n.Why
	case checkpoint.CannotBeTold:
		return fmt.Sprintf("goes on from %s, if it can: that cannot be looked at: %s", n.From, n.Why)
	case checkpoint.HasFinished:
		return "has nothing left to do: " + n.Why
	}
	return string(n.Does) + "."
}

func beganFrom(a checkpoint.TimelineAttempt) string {
	switch {
	case !a.Chose:
		return "-"
	case a.From == nil:
		return "nothing"
	}
	return a.From.Path
}

func committables(s checkpoint.TimelineSnapshot) string {
	switch {
	case s.Committables == 0 && s.Damage != "" && s.Kind == "":
		return "-"
	case s.Committables == 0:
		return "none"
	case len(s.Open) == 0:
		return fmt.Sprintf("%d, settled", s.Committables)
	}
	return fmt.Sprintf("%d, %d open", s.Committables, len(s.Open))
}

func state(s checkpoint.TimelineSnapshot) string {
	switch {
	case s.Damage != "":
		return "damaged"
	case !s.Alive:
		return "void"
	case s.Committed:
		return "alive, _committed"
	}
	return "alive"
}

func how(s checkpoint.TimelineSnapshot) string {
	switch {
	case s.Next:
		return "the same command"
	case s.Restore != "":
		return s.Restore
	}
	return "-"
}

func snapshotNotes(s checkpoint.TimelineSnapshot) (notes []string) {
	note := func(what, text string) {
		if text != "" {
			notes = append(notes, what+": "+text)
		}
	}
	if s.External {
		note("elsewhere", s.Path)
	}
	note("void", s.Void)
	note("damaged", s.Damage)
	if s.Damage == "" {
		note("cannot be begun from", s.Refused)
	}
	note("costs", s.Cost)
	if len(s.Deletes) > 0 {
		note("its completion deletes", strings.Join(s.Deletes, ", "))
	}
	return notes
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
