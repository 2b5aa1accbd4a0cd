package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/weirstream/weir/internal/storage"
)

// refusedName is the file in a job's directory that says why starts were
// refused: for people who look later. Nothing depends on it, and it may be
// lost.
const refusedName = "refused"

// refusalsKept is how many refusals it keeps, the newest ones; beside them the
// newest one for what is lost, if that is older.
const refusalsKept = 20

// refusedStarts is its content, oldest first. Version 1 was a single one, without
// lineage.
type refusedStarts struct {
	Version  int            `json:"version"`
	Refusals []refusedStart `json:"refusals"`
}

// refusedStart is a start that was refused.
type refusedStart struct {
	Attempt int64  `json:"attempt"`
	Lineage string `json:"lineage,omitempty"`
	// Time is in ms since the epoch.
	Time int64  `json:"time"`
	Why  string `json:"why"`
	// Losses is the snapshot that holds what is lost, nil if that is not why;
	// Unknown tells that the outcome of some is unknown, which may change.
	Losses  *Ref `json:"losses,omitempty"`
	Unknown bool `json:"unknown,omitempty"`
}

// noteRefusal leaves word of a refusal that came after the claim, or of what
// does not fit and will not by itself.
func (s *start) noteRefusal(ctx context.Context, err error) {
	if !Fatal(err) || errors.Is(err, ErrFinished) || fenced(err) || s.claim.Attempt == 0 {
		return
	}
	n := refusedStart{Attempt: s.claim.Attempt, Lineage: s.claim.Lineage, Time: s.Now(), Why: whyRefused(err)}
	var loss *LossError
	if errors.As(err, &loss) {
		n.Losses = &loss.Snapshot
		n.Unknown = slices.ContainsFunc(loss.Losses, func(l Loss) bool { return l.Outcome == Unknown })
	}
	before, failed := readRefusals(ctx, s.Blobs, s.Job)
	if failed == nil {
		failed = s.Blobs.Put(ctx, path.Join(s.Job, refusedName), func(w io.Writer) error {
			_, err := w.Write(encodeRefusals(append(before, n)))
			return err
		})
	}
	if failed != nil {
		s.Logger.Warn("that the start was refused could not be noted for weir checkpoints", "error", failed)
	}
}

// encodeRefusals drops what is too old to be kept.
func encodeRefusals(all []refusedStart) []byte {
	old := max(0, len(all)-refusalsKept)
	kept := all[old:]
	forLosses := func(n refusedStart) bool { return n.Losses != nil }
	if !slices.ContainsFunc(kept, forLosses) {
		for _, n := range slices.Backward(all[:old]) {
			if forLosses(n) {
				kept = slices.Insert(slices.Clone(kept), 0, n)
				break
			}
		}
	}
	data, err := json.MarshalIndent(refusedStarts{Version: 2, Refusals: kept}, "", "  ")
	if err != nil {
		return nil // strings and numbers do not fail
	}
	return append(data, '\n')
}

// readRefusals returns nothing if there is no file, or none that can be read.
func readRefusals(ctx context.Context, blobs storage.Blobs, job string) ([]refusedStart, error) {
	data, err := blobs.Get(ctx, path.Join(job, refusedName))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read why starts were refused: %w", err)
	}
	return parseRefusals(data), nil
}

func parseRefusals(data []byte) []refusedStart {
	var all struct {
		refusedStarts
		refusedStart
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil
	}
	switch all.Version {
	case 1:
		return []refusedStart{all.refusedStart}
	case 2:
		return all.Refusals
	}
	return nil
}

// addRefusals puts the notes where they belong: each counts for its attempt, and
// the newest one for what is lost for the start that goes on from the same
// snapshot, as long as that holds something uncommitted. Those of attempts of
// another ledger, which was lost since, count for nothing.
func (t *Timeline) addRefusals(all []refusedStart) {
	refused := map[int64]bool{}
	var loss *refusedStart
	for i := range all {
		n := all[i]
		i := slices.IndexFunc(t.Attempts, func(a TimelineAttempt) bool {
			return a.Attempt == n.Attempt && (a.Lineage == n.Lineage || n.Lineage == "") && a.Claimed.UnixMilli() <= n.Time
		})
		if i < 0 {
			continue
		}
		at := timeOf(n.Time)
		a := &t.Attempts[i]
		a.End, a.Ended, a.Refused = "refused", &at, n.Why
		refused[n.Attempt] = true
		if n.Losses != nil && t.Next.From != nil && n.Losses.same(*t.Next.From) {
			loss = &n
		}
	}
	open := slices.ContainsFunc(t.Snapshots, func(s TimelineSnapshot) bool { return s.Next && len(s.Open) > 0 })
	passed := func(a TimelineAttempt) bool { return a.Attempt > loss.Attempt && a.Chose && !refused[a.Attempt] }
	if loss != nil && open && !(loss.Unknown && slices.ContainsFunc(t.Attempts, passed)) {
		t.Next.Last, t.Next.Why = loss.Attempt, loss.Why
	}
}
