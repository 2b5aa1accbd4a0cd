package checkpoint

import (
	"math"
	"slices"

	"github.com/weirstream/weir/connector"
)

// history is what the records of a ledger say, by attempt. It is pure.
type history struct {
	claims   claims
	restored map[int64]Record
	// final is the newest stopping or stopped record of each attempt.
	final map[int64]Record
	// accepted are the committables that were given up.
	accepted map[lossKey]bool
	// resolved are the snapshots of which some were: all others of theirs had
	// been committed before that.
	resolved []Ref
	// newest claim and newest attempt with a restored record, 0 for none.
	claimed, running int64
	// anew is the first id of the newest start with --fresh, 0 for none.
	anew int64

	without rules
}

// claims are those on record, by attempt.
type claims map[int64]Record

func newHistory(records []Record) *history {
	h := &history{claims: map[int64]Record{}, restored: map[int64]Record{}, final: map[int64]Record{}, accepted: map[lossKey]bool{}}
	for _, r := range records {
		switch r.Kind {
		case ClaimRecord:
			h.claims[r.Attempt] = r
			h.claimed = max(h.claimed, r.Attempt)
		case RestoredRecord:
			h.restored[r.Attempt] = r
			h.running = max(h.running, r.Attempt)
			h.anew = max(h.anew, r.NextID)
		case StoppingRecord, StoppedRecord:
			h.final[r.Attempt] = r
		case AcceptedLossRecord:
			h.resolved = append(h.resolved, *r.Snapshot)
			for _, l := range r.Losses {
				h.accepted[l.key()] = true
			}
		}
	}
	return h
}

// lineage returns the lineage that the next attempt carries on, "" if none; but
// for one elsewhere, see moved.
// A claim that chose no snapshot began nothing, and its lineage only counts
// while there is no other.
func (h *history) lineage() string {
	if c, ok := h.claims[h.running]; ok {
		return c.Lineage
	}
	return h.claims[h.claimed].Lineage
}

// id tells the ledger from those of other directories, but for copies of it, and
// from one that was begun here after it was lost: the lineage of the first
// claim, "" if there is none.
func (h *history) id() string { return h.claims[1].Lineage }

// former returns the lineages of earlier claims that are not the claim's own,
// with the last attempt of each; not those that were carried on under another
// name of the storage, where the job may still run.
func (h *history) former(claim Record) []connector.FormerLineage {
	last := map[string]int64{}
	for n, c := range h.claims {
		switch {
		case n >= claim.Attempt, c.Lineage == claim.Lineage:
		case h.without.off(leaveOthers):
			last[c.Lineage] = claim.Attempt - 1
		case sameStorage(c.Storage, claim.Storage):
			last[c.Lineage] = max(last[c.Lineage], n)
		}
	}
	var former []connector.FormerLineage
	for _, lineage := range sortedKeys(last) {
		former = append(former, connector.FormerLineage{Lineage: lineage, LastAttempt: last[lineage]})
	}
	return former
}

// owns reports whether an attempt of this ledger wrote the snapshot.
func (h *history) owns(r Ref) bool {
	c, ok := h.claims[r.Attempt]
	return ok && c.Lineage == r.Lineage
}

// descends reports whether the attempt, when it came to write a snapshot with
// the given id, had passed through the moment at which s was taken: s is an
// earlier one of its own, or lies on the chain of what it was restored from.
func (h *history) descends(attempt, id int64, s Ref) bool {
	for {
		if s.Attempt == attempt && h.owns(s) {
			return s.ID < id
		}
		from := h.restored[attempt].Snapshot
		switch {
		case from == nil:
			return false
		case from.same(s):
			return true
		case !h.owns(*from) || from.Attempt >= attempt:
			return false
		}
		// s.ID == from.ID of the same attempt is the case above.
		attempt, id = from.Attempt, from.ID
	}
}

// alive reports whether a start may go on from s by itself: s was written by
// the newest attempt that began, or is an ancestor of what that began from.
// All else is void.
func (h *history) alive(s Ref) bool {
	if h.without.off(voidByAttempt) {
		return h.owns(s)
	}
	return h.running != 0 && h.descends(h.running, math.MaxInt64, s)
}

// owned reports whether s is the engine's to delete: it is alive, and either of
// this ledger, and no snapshot that a user has ever chosen with -s, nor one that
// came before it; or claimed by a later -s. What was chosen is the user's
// whatever became of the start that obeyed: a restart before its first checkpoint
// goes on from the same snapshot by itself.
func (h *history) owned(s Ref) bool {
	if !h.alive(s) {
		return false
	}
	var named, claimed int64
	for attempt, r := range h.restored {
		c := r.Snapshot
		switch {
		case !r.Explicit || c == nil:
		case r.Claim:
			if c.same(s) {
				claimed = max(claimed, attempt)
			}
		case c.same(s) || h.owns(*c) && h.descends(c.Attempt, c.ID, s):
			named = max(named, attempt)
		}
	}
	return claimed > named || named == 0 && h.owns(s)
}

// finals returns the final snapshots that records name, newest first.
func (h *history) finals() []Ref {
	var refs []Ref
	for _, r := range h.final {
		if r.Snapshot != nil {
			refs = append(refs, *r.Snapshot)
		}
	}
	slices.SortFunc(refs, func(a, b Ref) int { return int(b.Attempt - a.Attempt) })
	return refs
}

// provesCommitted reports whether a record says that the commits of s have
// returned, but for what was given up.
func (h *history) provesCommitted(s Ref) bool {
	r, ok := h.final[s.Attempt]
	return slices.ContainsFunc(h.resolved, s.same) || ok && r.Kind == StoppedRecord && r.Snapshot != nil && r.Snapshot.same(s)
}

// largestID returns the largest snapshot id that the ledger speaks of.
func (h *history) largestID() int64 {
	var id int64
	for _, records := range []map[int64]Record{h.restored, h.final} {
		for _, r := range records {
			if r.Snapshot != nil {
				id = max(id, r.Snapshot.ID)
			}
		}
	}
	return id
}
