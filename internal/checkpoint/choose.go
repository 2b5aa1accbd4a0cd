package checkpoint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/internal/snapshot"
)

var (
	// ErrFinished says that the job's input has ended and everything is
	// committed: there is nothing left to do.
	ErrFinished = errors.New("already finished")
	// ErrRefused marks the refusals of a start. They repeat until the user
	// decides otherwise: restarting does not help.
	ErrRefused = errors.New("start refused")
)

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// found is a snapshot that a start has seen.
type found struct {
	// ref of one that cannot be read has only ID and Path.
	ref  Ref
	meta *snapshot.Metadata
	// err is why meta is nil.
	err error
	// committed tells that the mark stands beside it.
	committed bool
}

// view is all that the choice of a snapshot depends on.
type view struct {
	*history
	// found are the snapshots in the job's directory, ascending by id.
	found []found
	// opts tell how to name things.
	opts *StartOptions
	// exactlyOnce tells that the job has exactly-once sinks.
	exactlyOnce bool
}

// ended returns ErrFinished if nothing is left to do for the newest attempt.
func (v *view) ended() error {
	r, ok := v.final[v.running]
	switch {
	case !ok || r.Kind != StoppedRecord:
		return nil
	case r.Outcome == Finished:
		return fmt.Errorf("%w: attempt %d committed its last output; --fresh begins anew", ErrFinished, r.Attempt)
	case r.Outcome == Canceled:
		return refuse("attempt %d was cancelled and its checkpoints were deleted, as its retention says; --fresh begins anew: all input is read again, and all output published a second time", r.Attempt)
	}
	return nil
}

// candidate is a snapshot to go on from.
type candidate struct {
	ref Ref
	// named: a record of the ledger names it, so its absence is an error.
	named bool
	// found is nil if it lies elsewhere or is missing.
	found *found
	// elsewhere is where a record says that it lies as well, nil if nowhere:
	// where what is found is damaged.
	elsewhere *Ref
}

// continuation lists what the job may go on from, best first; none if it has
// not begun yet. All but the first are for when those before are corrupt.
func (v *view) continuation() []candidate {
	var all []candidate
	for i := range v.found {
		f := &v.found[i]
		if f.meta == nil || f.meta.Kind != snapshot.Savepoint && v.alive(f.ref) {
			all = append(all, candidate{ref: f.ref, found: f})
		}
	}
	name := func(ref *Ref, rule rules) {
		if ref == nil || v.without.off(rule) {
			return
		}
		for i := range all {
			if f := all[i].found; all[i].ref.same(*ref) || f != nil && f.meta == nil && f.ref.Path == ref.Path {
				all[i].named = true
				if ref.External {
					all[i].elsewhere = ref
				}
				return
			}
		}
		all = append(all, candidate{ref: *ref, named: true})
	}
	name(v.final[v.running].Snapshot, followFinal)
	name(v.restored[v.running].Snapshot, followRestored)
	// Ids grow over all attempts, also past that of a snapshot from elsewhere.
	// What a record names goes before what cannot be read and has the same id.
	slices.SortStableFunc(all, func(a, b candidate) int {
		if by := cmp.Compare(b.ref.ID, a.ref.ID); by != 0 || a.named == b.named {
			return by
		} else if a.named {
			return -1
		}
		return 1
	})
	return all
}

// live lists the references of all live snapshots known, ascending by id.
func (v *view) live() []Ref {
	var refs []Ref
	add := func(r Ref) {
		if v.alive(r) && !slices.ContainsFunc(refs, r.same) {
			refs = append(refs, r)
		}
	}
	for _, f := range v.found {
		if f.meta != nil {
			add(f.ref)
		}
	}
	for _, r := range v.finals() {
		add(r)
	}
	if from := v.restored[v.running].Snapshot; from != nil {
		add(*from)
	}
	slices.SortFunc(refs, func(a, b Ref) int { return cmp.Compare(a.ID, b.ID) })
	return refs
}

// explicit decides whether s may be begun from because a user says so (-s).
// The warning says what going back costs.
func (v *view) explicit(s *found, rewind bool) (warning string, err error) {
	for _, f := range v.found {
		if f.meta != nil && v.owns(f.ref) && slices.Contains(f.meta.Deletes, s.ref.Path) && !v.without.off(refuseDeleted) {
			return "", refuse("%s is being deleted by the completion of %s, and may lack files", s.ref, f.ref)
		}
	}
	open := v.unproven(s)
	switch {
	case !v.owns(s.ref) && len(open) > 0 && !v.without.off(refuseUnmarked):
		return "", v.refuseUnmarked(s, open)
	case v.owns(s.ref) && !v.alive(s.ref) && len(open) > 0 && !v.without.off(refuseVoid):
		return "", refuse("%s is void: %s. It holds %s that may have been aborted: their output would be missing for good", s.ref, v.whyVoid(s), v.opts.describe(open))
	case !v.exactlyOnce:
		return "", nil
	}
	behind := v.behind(s)
	if len(behind) == 0 || v.without.off(askBeforeRewind) {
		return "", nil
	}
	cost := fmt.Sprintf("%s lies behind %s: what was committed since is written again, and exactly-once sinks publish it twice", s.ref, list(behind))
	if !rewind {
		return "", refuse("%s. Add --rewind to accept the duplicates", cost)
	}
	return cost, nil
}

// behind lists what s lies behind: live snapshots that are neither s nor what s
// descends from, and later ones of which nobody knows whether they are live.
func (v *view) behind(s *found) []Ref {
	refs := slices.DeleteFunc(v.live(), func(r Ref) bool {
		return r.same(s.ref) || v.owns(s.ref) && v.descends(s.ref.Attempt, s.ref.ID, r)
	})
	for _, f := range v.found {
		unknown := f.meta == nil || v.running == 0
		if unknown && (f.ref.ID > s.ref.ID || !v.owns(s.ref) && s.ref.External) && !f.ref.same(s.ref) {
			refs = append(refs, f.ref)
		}
	}
	slices.SortFunc(refs, func(a, b Ref) int { return cmp.Compare(a.ID, b.ID) })
	return refs
}

// unproven returns the committables of s, by operator, that nothing here
// proves to be committed: neither the mark, nor the ledger, nor a snapshot
// that descends from s and no longer lists them. Those that were given up are
// not among them.
func (v *view) unproven(s *found) map[string][]snapshot.Committable {
	if s.committed || v.owns(s.ref) && v.provesCommitted(s.ref) {
		return nil
	}
	open := map[string][]snapshot.Committable{}
	for _, op := range s.meta.Operators {
		for _, c := range op.Committables {
			if !v.accepted[keyOf(op.ID, c)] && !v.dropped(s.ref, op.ID, c) {
				open[op.ID] = append(open[op.ID], c)
			}
		}
	}
	return open
}

// gaveUp reports whether a loss in s was accepted.
func (v *view) gaveUp(s *found) bool {
	return slices.ContainsFunc(s.meta.Operators, func(op snapshot.Operator) bool {
		return slices.ContainsFunc(op.Committables, func(c snapshot.Committable) bool { return v.accepted[keyOf(op.ID, c)] })
	})
}

// dropped reports whether a descendant of s no longer lists the committable.
func (v *view) dropped(s Ref, op string, c snapshot.Committable) bool {
	if v.without.off(proveByLedger) {
		return false
	}
	return slices.ContainsFunc(v.found, func(f found) bool {
		later := v.descends(f.ref.Attempt, f.ref.ID, s) || v.without.off(proveByDescent) && f.ref.ID > s.ID
		return f.meta != nil && v.owns(f.ref) && later && !lists(f.meta, op, c)
	})
}

func lists(m *snapshot.Metadata, op string, c snapshot.Committable) bool {
	for _, o := range m.Operators {
		if o.ID == op && slices.ContainsFunc(o.Committables, func(d snapshot.Committable) bool {
			return d.Checkpoint == c.Checkpoint && d.Subtask == c.Subtask && bytes.Equal(d.Data, c.Data)
		}) {
			return true
		}
	}
	return false
}

func list(refs []Ref) string {
	if len(refs) == 0 {
		return "none"
	}
	parts := make([]string, len(refs))
	for i, r := range refs {
		parts[i] = r.String()
	}
	return strings.Join(parts, ", ")
}
