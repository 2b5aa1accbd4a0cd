package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/weirstream/weir/internal/snapshot"
)

// What a start that is refused says: what stands in the way, by name, the
// choices, and what each costs.

// freshCost is what --fresh costs where it may lose something.
const freshCost = "--fresh begins from nothing: all input is read again and all output published a second time, and what that snapshot holds uncommitted is never published"

// anew is the choice to begin from nothing where the newest snapshot is there
// and cannot be used: --fresh, if that would not be refused as well.
func (s *start) anew(ctx context.Context) string {
	look := *s
	look.Logger = slog.New(slog.DiscardHandler)
	if _, err := look.beginAnew(ctx); err != nil {
		return s.withoutAll()
	}
	return "or --fresh, which begins from nothing: all input is read again, and all output written a second time"
}

// withoutAll is the choice that always works.
func (s *start) withoutAll() string {
	return fmt.Sprintf("or delete the job's directory %s, which begins from nothing: all input is read again and all output published a second time, "+
		"and what that snapshot holds uncommitted is never published", s.userPath(Ref{Path: s.Job}))
}

// refuseGone is the refusal where what the ledger names is gone.
func (s *start) refuseGone(r Ref, err error) error {
	return refuse("the ledger names %s to go on from, and it is gone: %v. Choices: put it back, which costs nothing; %s. %s", r, err, s.goingBack(r), freshCost)
}

// refuseUnusable is the refusal where the newest snapshot cannot be used.
func (s *start) refuseUnusable(ctx context.Context, r Ref, err error) error {
	return refuse("the newest snapshot %s cannot be used: %v. Choices: repair it, or restore its files from a backup, which costs nothing; %s; %s", r, err, s.goingBack(r), s.anew(ctx))
}

// refuseNewer is the refusal where a newer version of Weir wrote it.
func (s *start) refuseNewer(ctx context.Context, r Ref, err error) error {
	return refuse("the newest snapshot %s: %v. Choices: start that version of Weir, or one after it, which costs nothing; %s; %s", r, err, s.goingBack(r), s.anew(ctx))
}

// refuseAll is the refusal where no snapshot can be used.
func (s *start) refuseAll(ctx context.Context, tried []string) error {
	return refuse("none of the job's snapshots can be used: %s. Choices: repair one, or restore its files from a backup, which costs nothing; "+
		"%s", strings.Join(tried, "; "), s.anew(ctx))
}

// refuseUnmarked is the refusal of a snapshot of which nothing here proves that
// what it holds is committed: nor whether it ever will be.
func (v *view) refuseUnmarked(s *found, open map[string][]snapshot.Committable) error {
	const byHand = "commit them by hand: weir kafka-transactions commit does it for Kafka sinks, and puts the mark"
	if !s.ref.External {
		return refuse("%s was written by a start that the ledger here does not know, for the ledger was lost or is another one. It holds %s and has no %s mark: "+
			"whether they are published is not known here. Restore the ledger, which costs nothing; or %s", s.ref, v.opts.describe(open), CommittedName, byHand)
	}
	return refuse("%s was written by another job or into another directory, holds %s and has no %s mark: "+
		"whether they are published is not known here, and the job that wrote it may yet commit or abort them. "+
		"Take a savepoint that was reported as done, or the final snapshot of a stop, which costs nothing; "+
		"or, if that job is gone for good, %s", s.ref, v.opts.describe(open), CommittedName, byHand)
}

// instead says what a start does without -s, and what else -s takes than the
// snapshot that was refused, nil if its _metadata could not be read; damage is
// what is wrong with it, nil if it is whole.
func (s *start) instead(ctx context.Context, refused *found, damage error) string {
	var choices []string
	look := *s
	look.req, look.Logger = RestoreRequest{}, slog.New(slog.DiscardHandler)
	look.verify = func(_ context.Context, o origin) error { // data files were not read
		if refused != nil && o.ref.same(refused.ref) {
			return damage
		}
		return nil
	}
	switch from, err := look.plain(ctx); {
	case err == nil && from.found == nil:
		choices = append(choices, "Leave out -s to begin from nothing, which reads all input and writes all output again")
	case err == nil:
		choices = append(choices, "Leave out -s to go on from "+s.userPath(from.ref))
	case errors.Is(err, ErrFinished):
		choices = append(choices, "Without -s nothing is left to do: "+err.Error())
	case errors.Is(err, ErrRefused):
		choices = append(choices, "Without -s the start is refused as well: "+whyRefused(err))
	}
	var takes []string
	for i := range s.view.found {
		f := &s.view.found[i]
		if f.meta == nil || refused != nil && f.ref.same(refused.ref) || complete(ctx, s.Blobs, f.ref.Path, f.meta) != nil {
			continue
		}
		if flags, _, err := s.view.wayTo(f); err == nil {
			takes = append(takes, flags)
		}
	}
	if len(takes) > 0 {
		choices = append(choices, "These can be begun from: "+strings.Join(takes, "; "))
	}
	return strings.Join(choices, ". ")
}

// plain is what the start would begin from without flags.
func (s *start) plain(ctx context.Context) (origin, error) {
	if err := s.checkLedger(ctx); err != nil {
		return origin{}, err
	}
	return s.goOn(ctx)
}

// goingBack offers the newest live snapshot before r that can be read.
func (s *start) goingBack(r Ref) string {
	for _, f := range slices.Backward(s.view.found) {
		if f.meta == nil || f.ref.same(r) || f.ref.Path == r.Path || f.ref.ID > r.ID || !s.view.alive(f.ref) {
			continue
		}
		if _, err := s.view.explicit(&f, true); err != nil {
			continue
		}
		return fmt.Sprintf("or go back to %s with %s, which would publish again, in exactly-once sinks, what was committed since", f.ref, s.restoreFlags(s.view.history, f.ref, true))
	}
	return "no older snapshot is left to go back to"
}

// byHand says how to commit what the newest snapshot holds without a start.
func (o *StartOptions) byHand() string {
	return fmt.Sprintf("weir kafka-transactions commit --checkpoint-dir %s --job %s commits what Kafka sinks have there, and marks the snapshot", o.Blobs, o.Job)
}

// committablesShown is how many committables of a sink a message names.
const committablesShown = 5

// describe is like "3 committables of sink rows (name, name, name)".
func (o *StartOptions) describe(open map[string][]snapshot.Committable) string {
	var parts []string
	for _, op := range sortedKeys(open) {
		part := counted(len(open[op]), "committable") + " of sink " + op
		var names []string
		for _, c := range open[op] {
			if name := o.inWords(op, c); name != "" {
				names = append(names, name)
			}
		}
		if more := len(names) - committablesShown; more > 0 {
			names = append(names[:committablesShown], fmt.Sprintf("and %d more", more))
		}
		if len(names) > 0 {
			part += " (" + strings.Join(names, ", ") + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " and ")
}
