package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/location"
)

// A job's directory holds its ledger, and with it the lineage that goes into
// the ids of transactions. Copied to another name beside it, and started there,
// it is the same lineage twice: the two end each other's transactions. Renamed,
// it is the same job, which may go on.

// checkCopy refuses to start where the directory was written under another
// job's name, and that job's directory still claims a lineage of this one. No
// flags help: every start ends what earlier attempts of its ledger left open.
// It comes before the claim.
func (s *start) checkCopy(ctx context.Context) error {
	h := s.ledger.history()
	var err error
	if s.formerNames, err = s.otherNames(ctx, h); err != nil {
		return err
	}
	for _, name := range s.formerNames {
		lineages, err := Lineages(ctx, s.Blobs, name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(lineages, h.claims.lineage) {
			continue
		}
		here, there := location.Join(s.Blobs.String(), s.Job), location.Join(s.Blobs.String(), name)
		return refuse("%s was written by job %s, whose directory %s is there as well: one is a copy of the other with its ledger, and jobs started in both end each other's transactions. "+
			"Choices: if this is job %s under another name, move %s out of %s, which costs nothing; "+
			"or, if job %s is to be a job of its own, delete %s, which drops what it has done since it was copied, and start it with -s and a snapshot in %s whose output is committed, as the final one of a stop",
			here, name, there, name, there, s.Blobs, s.Job, here, there)
	}
	return nil
}

// lineage reports whether a claim is of the lineage.
func (c claims) lineage(l string) bool {
	for _, r := range c {
		if r.Lineage == l {
			return true
		}
	}
	return false
}

// otherNames are the names of other jobs under which the directory was written,
// as claims have them and, where claims are older than that, snapshots.
func (s *start) otherNames(ctx context.Context, h *history) ([]string, error) {
	names := map[string]bool{}
	all := true
	for _, c := range h.claims {
		names[c.Job] = true
		all = all && c.Job != ""
	}
	if !all {
		dirs, err := directories(ctx, s.Blobs, s.Job)
		if err != nil {
			return nil, err
		}
		for id := range dirs {
			m, err := snapshot.Load(ctx, s.Blobs, snapshot.CheckpointDir(s.Job, id))
			switch {
			case err == nil && h.claims.lineage(m.Lineage):
				names[m.Job] = true
			case err != nil && !corrupt(err) && !errors.Is(err, snapshot.ErrNewer):
				return nil, err
			}
		}
	}
	delete(names, "")
	delete(names, s.Job)
	return sortedKeys(names), nil
}

// writtenAs is the name of the job under which the directory was last written,
// "" if nothing tells.
func (v *view) writtenAs() string {
	if c := v.claims[v.claimed]; c.Job != "" {
		return c.Job
	}
	for _, f := range slices.Backward(v.found) {
		if f.meta != nil && v.claims.lineage(f.meta.Lineage) {
			return f.meta.Job
		}
	}
	return ""
}

// Lineages lists those that the ledger of a job's directory claims, none if
// there is no ledger. One that is damaged counts up to its damage.
func Lineages(ctx context.Context, blobs storage.Blobs, job string) ([]string, error) {
	l := newLedger(blobs, job)
	if err := l.load(ctx); err != nil && !Fatal(err) {
		return nil, fmt.Errorf("whether %s shares its lineage: %w", job, err)
	}
	var lineages []string
	for _, c := range l.history().claims {
		if !slices.Contains(lineages, c.Lineage) {
			lineages = append(lineages, c.Lineage)
		}
	}
	slices.Sort(lineages)
	return lineages, nil
}

// moved returns the claim of the newest attempt that began, if it had the
// storage under another name: the directory was moved, or is a copy.
func (h *history) moved(storage string) (before Record, moved bool) {
	before, ok := h.claims[h.running]
	return before, ok && !sameStorage(before.Storage, storage) && !h.without.off(lineageByPlace)
}

// warnIfMoved tells of a directory that was moved, renamed or copied with its
// ledger. Only where no other job can have this lineage does it carry that on.
func (s *start) warnIfMoved() {
	h := s.ledger.history()
	c, ok := h.claims[h.running]
	if !ok {
		return
	}
	job := c.Job
	switch {
	case job != "":
	case len(s.formerNames) > 0:
		job = s.formerNames[0]
	default:
		job = s.Job
	}
	before, now := location.Join(c.Storage, job), location.Join(s.claim.Storage, s.Job)
	switch _, moved := h.moved(s.claim.Storage); {
	case moved:
		s.Logger.Warn("the job's directory was written under another name. If it was copied, and the job goes on there as well, both publish the same output. "+
			"What attempts there left open is left alone: if the directory was moved, that may hold up readers until its timeout, or until it is aborted by hand (weir kafka-transactions)",
			"before", before, "now", now, "attempt", c.Attempt, "lineage before", c.Lineage, "lineage now", s.claim.Lineage)
	case job != s.Job:
		s.Logger.Warn("the job's directory was written under another name; if this is a copy and the job still runs there, stop one of the two: "+
			"they share a lineage and end each other's transactions", "before", before, "now", now, "attempt", c.Attempt)
	}
}
