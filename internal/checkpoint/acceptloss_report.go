package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// lossReport says what a start has lost, and what can be done.
type lossReport struct {
	// where is the job and its directory.
	where     string
	snapshot  Ref
	losses    []Loss
	committed []string
	// before is the snapshot to go back to, nil if there is none that can be
	// used; exact tells that going back there repeats nothing.
	before *Ref
	exact  bool
	// flags make a start begin from before.
	flags string
	// input is what was read between before and the snapshot.
	input []string
	// asked is the snapshot of --accept-loss, 0 for none.
	asked int64
}

func (a *Attempt) report(ctx context.Context, losses []Loss) lossReport {
	r := lossReport{where: fmt.Sprintf("job %s in %s", a.begun.Job, a.begun.Blobs), snapshot: a.from.ref, losses: losses, asked: a.begun.AcceptLoss}
	lost := map[lossKey]bool{}
	oldest := losses[0].Checkpoint
	unknown := false
	for _, l := range losses {
		lost[l.key()] = true
		oldest = min(oldest, l.Checkpoint)
		unknown = unknown || l.Outcome == Unknown
	}
	for _, op := range sortedKeys(a.open) {
		for _, c := range a.open[op] {
			if lost[keyOf(op, c)] {
				continue
			}
			text := fmt.Sprintf("sink %s, subtask %d, checkpoint %d", op, c.Subtask, c.Checkpoint)
			if name := a.begun.inWords(op, c); name != "" {
				text += ": " + name
			}
			r.committed = append(r.committed, text)
		}
	}
	v := a.view()
	before := a.begun.before(ctx, v, a.from.found, oldest)
	if before == nil {
		r.input = inputBetween(a.begun.Describer, nil, a.Restored)
		return r
	}
	r.before = &before.ref
	r.exact = !unknown && v.undone(a.from.found, before.ref, lost)
	r.flags = a.begun.restoreFlags(v.history, before.ref, true)
	r.input = inputBetween(a.begun.Describer, before.meta, a.Restored)
	return r
}

// before finds the newest snapshot, whole but for checksums, from which s
// descends, that is older than the checkpoint, and that -s takes.
func (s *start) before(ctx context.Context, v *view, from *found, checkpoint int64) *found {
	for i := len(v.found) - 1; i >= 0; i-- {
		f := &v.found[i]
		if f.meta == nil || f.ref.ID >= checkpoint || !v.owns(from.ref) || !v.descends(from.ref.Attempt, from.ref.ID, f.ref) {
			continue
		}
		if _, err := v.explicit(f, true); err != nil {
			continue
		}
		if complete(ctx, s.Blobs, f.ref.Path, f.meta) == nil {
			return f
		}
	}
	return nil
}

// undone reports whether nothing was published between before and s: every
// committable that s, or a snapshot between the two, lists since then is lost.
// It takes knowing all of them.
func (v *view) undone(s *found, before Ref, lost map[lossKey]bool) bool {
	if v.hidesSome(s.ref, before) {
		return false
	}
	between := []*found{s}
	for i := range v.found {
		if f := &v.found[i]; f.meta != nil && f.ref.ID > before.ID && v.descends(s.ref.Attempt, s.ref.ID, f.ref) {
			between = append(between, f)
		}
	}
	for _, f := range between {
		for _, op := range f.meta.Operators {
			for _, c := range op.Committables {
				if c.Checkpoint > before.ID && !lost[keyOf(op.ID, c)] {
					return false
				}
			}
		}
		// One that was deleted since had its commits resolved before.
		if slices.ContainsFunc(f.meta.Deletes, func(dir string) bool { return checkpointID(dir) > before.ID }) {
			return false
		}
	}
	return true
}

// hidesSome reports whether between before and s there may be a snapshot whose
// committables are not known: one that cannot be read, or that an attempt was
// restored from and that does not lie in the job's directory.
func (v *view) hidesSome(s, before Ref) bool {
	if slices.ContainsFunc(v.found, func(f found) bool { return f.meta == nil && f.ref.ID > before.ID }) {
		return true
	}
	for attempt := s.Attempt; attempt > before.Attempt; {
		from := v.restored[attempt].Snapshot
		switch {
		case from == nil || from.same(before):
			return false
		case from.Attempt >= attempt || !slices.ContainsFunc(v.found, func(f found) bool { return f.meta != nil && f.ref.same(*from) }):
			return true
		}
		attempt = from.Attempt
	}
	return false
}

func (r lossReport) text() string {
	var b strings.Builder
	lost, unknown := r.counts()
	fmt.Fprintf(&b, "%s: snapshot %s holds transactions that cannot be committed any more: %d lost, %d of unknown outcome, %d committed", r.where, r.snapshot, lost, unknown, len(r.committed))
	for _, l := range r.losses {
		fmt.Fprintf(&b, "\n%s: sink %s, subtask %d, checkpoint %d: %s", l.Outcome, l.Operator, l.Subtask, l.Checkpoint, l.Reason)
	}
	for _, c := range r.committed {
		fmt.Fprintf(&b, "\ncommitted: %s", c)
	}
	fmt.Fprintf(&b, "\ninput behind them, and behind what was committed with them: %s", r.inputText())
	if unknown > 0 {
		b.WriteString("\nbefore you choose: look whether the output of this input is there")
	}
	fmt.Fprintf(&b, "\nto go back: %s", r.goingBack())
	fmt.Fprintf(&b, "\nto go on without it: the same command with --accept-loss %d: %s. It is recorded in the ledger, and counts for this snapshot only", r.snapshot.ID, r.cost())
	if r.asked != 0 {
		fmt.Fprintf(&b, "\n--accept-loss %d was for another snapshot: new losses need a new decision", r.asked)
	}
	return b.String()
}

func (r lossReport) counts() (lost, unknown int) {
	for _, l := range r.losses {
		if l.Outcome == Lost {
			lost++
		} else {
			unknown++
		}
	}
	return lost, unknown
}

func (r lossReport) goingBack() string {
	switch {
	case r.before == nil:
		return "no earlier snapshot is left from which this one stems and that -s takes; another directory begins from nothing: all input is read again, and all output written again"
	case r.exact:
		return fmt.Sprintf("the same command with %s: exact. Everything written since that snapshot is lost, so nothing is published twice; "+
			"the warning about repeated output does not apply", r.flags)
	}
	return fmt.Sprintf("the same command with %s: nothing is missing then, but what was committed since that snapshot is published twice", r.flags)
}

func (r lossReport) inputText() string {
	since := "the beginning"
	if r.before != nil {
		since = r.before.String()
	}
	if len(r.input) == 0 {
		return fmt.Sprintf("what was read between %s and %s", since, r.snapshot)
	}
	return fmt.Sprintf("read between %s and %s: %s", since, r.snapshot, strings.Join(r.input, "; "))
}

// cost is what it costs to go on.
func (r lossReport) cost() string {
	lost, unknown := r.counts()
	var parts []string
	if lost > 0 {
		parts = append(parts, fmt.Sprintf("the output in %s is missing for good", counted(lost, "lost transaction")))
	}
	if unknown > 0 {
		parts = append(parts, fmt.Sprintf("that in %d of unknown outcome is missing for good if they were not committed", unknown))
	}
	return strings.Join(parts, ", ")
}

// note is the cost as the ledger keeps it.
func (r lossReport) note() string { return r.cost() + ": " + r.inputText() }

// counted is like "2 transactions".
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
