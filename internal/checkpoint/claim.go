package checkpoint

import (
	"context"
	"slices"

	"github.com/weirstream/weir/internal/snapshot"
)

// owned lists the checkpoints that are the engine's to delete, and where those
// lie that a user gave it from elsewhere; the restored record counts.
func (s *start) owned(ctx context.Context) (ids []int64, elsewhere map[int64]target) {
	h := s.ledger.history()
	here := func(ref Ref) bool {
		return slices.ContainsFunc(s.view.found, func(f found) bool { return f.meta != nil && f.ref.same(ref) })
	}
	for _, f := range s.view.found {
		if f.meta != nil && f.meta.Kind != snapshot.Savepoint && h.owned(f.ref) {
			ids = append(ids, f.ref.ID)
		}
	}
	elsewhere = map[int64]target{}
	for _, r := range h.restored {
		ref := r.Snapshot
		if !r.Claim || ref == nil || !ref.External || here(*ref) || !h.owned(*ref) || slices.Contains(ids, ref.ID) {
			continue
		}
		if t, ok := s.claimedAt(ctx, *ref); ok {
			ids, elsewhere[ref.ID] = append(ids, ref.ID), t
		}
	}
	slices.Sort(ids)
	return ids, elsewhere
}

// claimedAt finds a snapshot elsewhere that a user gave to the engine; false if
// it is there no more: then it was deleted already.
func (s *start) claimedAt(ctx context.Context, ref Ref) (target, bool) {
	if s.OpenPath == nil {
		return target{}, false
	}
	blobs, dir, err := s.OpenPath(ref.Path)
	if err != nil {
		return target{}, false
	}
	dir = snapshot.Dir(dir)
	m, err := snapshot.Load(ctx, blobs, dir)
	if err != nil || !refOf(m, "").same(ref) {
		if err != nil && !missing(err) {
			s.Logger.Warn("a snapshot that --claim-mode claim gave to this job cannot be read, and is not deleted", "snapshot", ref.String(), "error", err)
		}
		return target{}, false
	}
	return target{blobs: blobs, dir: dir, path: ref.Path, external: true}, true
}
