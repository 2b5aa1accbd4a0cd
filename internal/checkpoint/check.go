package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/weirstream/weir/internal/snapshot"
)

// checkLedger refuses to go on where snapshots show that the ledger is not the
// one of the job: there are some, but no start on record that can have made
// them, or one whose attempt the ledger does not know, for an older copy was
// put back. What the job was to go on from is lost with the records, and
// attempts would be counted twice. It comes before the claim, which would
// begin a new ledger.
func (s *start) checkLedger(ctx context.Context) error {
	h := s.ledger.history()
	lost := len(h.restored) == 0
	switch {
	case h.claimed < s.After: // newClaim refuses
		return nil
	case lost && s.req != (RestoreRequest{}):
		return nil
	case s.req.Fresh && h.carriedOut(s.req, nil) == 0:
		return nil // a lineage of its own
	}
	unknown, err := s.unknownTo(ctx, h)
	if err != nil || len(unknown) == 0 {
		return err
	}
	// Who wrote them may have begun after the ledger was read.
	if err := s.ledger.load(ctx); err != nil {
		return err
	}
	h = s.ledger.history()
	if lost {
		if len(h.restored) > 0 {
			return nil
		}
		return refuse("the ledger %s in %s is missing or names no start, but there are snapshots: %s. Restore the ledger, which costs nothing; %s",
			s.ledger.dir, s.Blobs, list(refsOf(unknown)), withoutLedger)
	}
	for _, u := range unknown {
		if r := u.ref; h.misses(u.meta) {
			return refuse("the ledger %s in %s knows nothing of attempt %d, which wrote %s: records at its end are missing, as where an older copy was put back. "+
				"Restore the ledger as it was, which costs nothing; or delete it, and then %s", s.ledger.dir, s.Blobs, r.Attempt, r, strings.TrimPrefix(withoutLedger, "or "))
		}
	}
	return nil
}

// withoutLedger is what can be done where the ledger is lost.
const withoutLedger = "or begin from one of them with -s PATH (and --rewind, unless it is the last), as a copy of the job: its committables must be known to be committed (weir kafka-transactions commit " +
	"commits and marks those of Kafka sinks), and what was committed after it is published again; or begin from nothing with --fresh, " +
	"which publishes everything again and leaves what they hold uncommitted unpublished"

func refsOf(fs []found) (refs []Ref) {
	for _, f := range fs {
		refs = append(refs, f.ref)
	}
	return refs
}

// unknownTo lists the snapshots in the job's directory of which a ledger that
// is whole would know more. Where it knows of no start they are not read.
func (s *start) unknownTo(ctx context.Context, h *history) ([]found, error) {
	dirs, err := directories(ctx, s.Blobs, s.Job)
	if err != nil {
		return nil, err
	}
	var unknown []found
	for _, id := range sortedKeys(dirs) {
		if !has(dirs[id], snapshot.MetadataName) {
			continue
		}
		dir := snapshot.CheckpointDir(s.Job, id)
		if len(h.restored) == 0 {
			unknown = append(unknown, found{ref: Ref{ID: id, Path: dir}})
			continue
		}
		m, err := snapshot.Load(ctx, s.Blobs, dir)
		switch {
		case err == nil && h.misses(m):
			unknown = append(unknown, found{ref: refOf(m, dir), meta: m})
		case err != nil && !corrupt(err) && !errors.Is(err, snapshot.ErrNewer):
			return nil, err
		}
	}
	return unknown, nil
}

// misses reports whether the snapshot's attempt was on record in this ledger, or
// is of its newest lineage, and yet the ledger lacks the record that the attempt
// wrote before any snapshot. What is older than a start with --fresh counts no
// more: that one has begun anew in spite of it.
func (h *history) misses(m *snapshot.Metadata) bool {
	_, ok := h.restored[m.Attempt]
	if m.Lineage == "" || ok && h.owns(refOf(m, "")) {
		return false
	}
	return m.Lineage == h.lineage() || m.Ledger == h.id() && m.ID >= h.anew
}

// refuseLedger is the refusal where the ledger cannot be read to its end. What
// fails for another reason may pass.
func (s *start) refuseLedger(err error) error {
	if !Fatal(err) {
		return err
	}
	return fmt.Errorf("%w: %w. Restore it from a backup, which costs nothing; another checkpoint directory begins from nothing: all input is read again and all output published "+
		"a second time, and what the snapshots in this one hold uncommitted is never published", ErrRefused, err)
}
