package checkpoint

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/internal/killpoint"
	"github.com/weirstream/weir/internal/snapshot"
)

// shares are what the snapshots in the job's directory refer to, those included
// that nobody can go on from: void ones, and copies that somebody made.
func (s *start) shares(ctx context.Context) *shares {
	all := newShares(s.claim.Attempt, s.without)
	if len(s.listed.shared) == 0 {
		return all
	}
	for _, f := range s.view.found {
		if f.meta == nil {
			all.keepEarlier = true
			continue
		}
		all.hold(f.ref.Path, f.meta.SharedFiles(f.ref.Path))
	}
	for _, dir := range s.listed.others {
		m, err := snapshot.Load(ctx, s.Blobs, dir)
		switch {
		case err == nil:
			all.hold(dir, m.SharedFiles(dir))
		case !missing(err):
			all.keepEarlier = true
		}
	}
	if all.keepEarlier {
		s.Logger.Warn("not all snapshots in the job's directory can be read: shared files of earlier attempts are kept", "job", s.Job)
	}
	return all
}

// deleteShared deletes shared files that no snapshot needs any more.
func (d *driver) deleteShared(names []string) {
	if len(names) == 0 {
		return
	}
	ctx := d.ctx
	d.deleter.do(func() { d.deleteSharedNow(ctx, names) })
}

// deleteSharedNow runs on the deleter's goroutine. What it fails to delete is
// left to the sweep of the next attempt.
func (d *driver) deleteSharedNow(ctx context.Context, names []string) {
	for _, name := range names {
		killpoint.Reach("shared.delete")
		if err := d.cfg.Blobs.Delete(ctx, name); err != nil {
			d.cfg.Logger.Warn("deleting a shared file; the next attempt tries again", "file", name, "error", err)
		}
	}
}

// sweepShared deletes the shared files that a process which died has left: of
// attempts before the given one, and in no snapshot.
func (d *driver) sweepShared(ctx context.Context, l listing, before int64) error {
	if len(l.shared) == 0 || d.shares.keepEarlier {
		return nil
	}
	// Its own view: that of the attempt may be locked by a publication that
	// takes long.
	ledger := newLedger(d.cfg.Blobs, d.cfg.Job)
	if err := ledger.load(ctx); err != nil {
		return err
	}
	h, left := ledger.history(), map[string]bool{}
	for _, name := range l.shared {
		lineage, attempt, ok := snapshot.SharedWriter(name)
		// What another ledger's attempts wrote may be in use.
		if ok && attempt < before && h.claims[attempt].Lineage == lineage && !d.shares.knows(name) {
			left[name] = true
		}
	}
	if len(left) == 0 {
		return nil
	}
	dirs := l.others
	for id, files := range l.checkpoints {
		if has(files, snapshot.MetadataName) {
			dirs = append(dirs, snapshot.CheckpointDir(d.cfg.Job, id))
		}
	}
	for _, dir := range dirs {
		m, err := snapshot.Load(ctx, d.cfg.Blobs, dir)
		if missing(err) {
			continue // deleted since
		}
		if err != nil {
			return fmt.Errorf("what it refers to is not known: %w", err)
		}
		for _, name := range m.SharedFiles(dir) {
			delete(left, name)
		}
	}
	killpoint.Reach("shared.sweep")
	if err := ledger.stillNewest(ctx, d.cfg.Attempt.Number); err != nil {
		return err
	}
	d.deleteSharedNow(ctx, sortedKeys(left))
	return nil
}
