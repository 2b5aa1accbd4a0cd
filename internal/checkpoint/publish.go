package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/weirstream/weir/internal/killpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
)

// publish writes _metadata of a snapshot that all tasks have acknowledged.
func (d *driver) publish(a Publish) {
	b := d.barriers[a.ID]
	d.published[a.ID] = b
	m := b.metadata(d.pool)
	m.Weir, m.KeyHash = d.cfg.Version, d.cfg.KeyHash
	m.Job, m.Lineage, m.Attempt = d.cfg.Job, d.cfg.Attempt.Lineage, d.cfg.Attempt.Number
	m.Ledger = d.cfg.Attempt.ledgerID
	m.Completed = d.cfg.Now()
	for _, id := range a.Deletes {
		t := d.stored(id)
		if t.external {
			m.Deletes = append(m.Deletes, t.path)
			continue
		}
		m.Deletes = append(m.Deletes, t.dir)
	}
	committables := 0
	for _, op := range m.Operators {
		committables += len(op.Committables)
	}
	ctx := d.ctx
	d.records.do(func() {
		outcome, err := d.store(ctx, b, m)
		d.post(func(d *driver) {
			d.step(Published{ID: b.ID, Outcome: outcome, Committables: committables, Err: err})
		})
	})
}

// store writes _metadata and then reads the ledger again: only if no other
// start has claimed the job by then does the snapshot count.
func (d *driver) store(ctx context.Context, b *barrier, m *snapshot.Metadata) (PublishOutcome, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Options.Timeout)
	defer cancel()
	killpoint.Reach("metadata.store")
	err := snapshot.Store(ctx, b.blobs, b.dir, m)
	killpoint.Reach("metadata.stored")
	taken := errors.Is(err, storage.ErrExists) && !d.ours(ctx, b)
	if err != nil && !errors.Is(err, storage.ErrExists) {
		return PublishedFailed, fmt.Errorf("write %s/%s in %s: %w", b.dir, snapshot.MetadataName, b.blobs, err)
	}
	switch err := d.cfg.Attempt.StillNewest(ctx); {
	case fenced(err):
		return PublishedFenced, err
	case err != nil:
		return PublishedFailed, err
	case taken:
		return PublishedTaken, errIDTaken
	}
	killpoint.Reach("metadata.reread")
	return PublishedOK, nil
}

// ours reports whether what stands under a snapshot's name is this attempt's
// own, written by a call whose answer was lost.
func (d *driver) ours(ctx context.Context, b *barrier) bool {
	m, err := snapshot.Load(ctx, b.blobs, b.dir)
	return err == nil && d.ref(b).same(refOf(m, ""))
}

func (d *driver) ref(b *barrier) Ref {
	r := Ref{Lineage: d.cfg.Attempt.Lineage, Attempt: d.cfg.Attempt.Number, ID: b.ID, Path: b.dir, External: b.external}
	if b.external {
		r.Path = b.path
	}
	return r
}

// refOf is the reference of a snapshot of this attempt, nil for none.
func (d *driver) refOf(id int64) *Ref {
	if b := d.published[id]; b != nil {
		ref := d.ref(b)
		return &ref
	}
	if id == 0 {
		return nil
	}
	return &Ref{Lineage: d.cfg.Attempt.Lineage, Attempt: d.cfg.Attempt.Number, ID: id, Path: snapshot.CheckpointDir(d.cfg.Job, id)}
}

func (d *driver) append(a Append) {
	last, ctx := d.refOf(a.ID), d.ctx
	d.records.do(func() {
		err := d.cfg.Attempt.record(ctx, a.Kind, last, a.Outcome)
		d.post(func(d *driver) { d.step(Recorded{a.Kind, err}) })
	})
}

// mark says beside a snapshot that all of its committables are committed.
func (d *driver) mark(id int64) {
	b := d.published[id]
	ctx := d.ctx
	ref, now := d.ref(b), d.cfg.Now()
	d.records.do(func() {
		killpoint.Reach("mark.begin")
		err := putMark(ctx, b.blobs, b.dir, ref, now)
		killpoint.Reach("mark.end")
		d.post(func(d *driver) { d.marked(b, err) })
	})
}

func (d *driver) marked(b *barrier, err error) {
	if b.Kind == snapshot.Savepoint && !b.Stop {
		delete(d.published, b.ID)
		if err == nil {
			d.succeeded(b)
		}
	}
	d.step(Marked{b.ID, err})
}

// discard deletes the files of a snapshot that was never published, shared ones
// unless another one refers to them. No other attempt has files of the same
// names.
func (d *driver) discard(id int64) {
	b := d.barriers[id]
	d.remove(b, b.files())
	d.deleteShared(d.shares.drop(b.dir))
}

func (d *driver) remove(b *barrier, names []string) {
	if len(names) == 0 {
		return
	}
	ctx := d.ctx
	d.deleter.do(func() {
		killpoint.Reach("discard.begin")
		for _, name := range names {
			if err := b.blobs.Delete(ctx, name); err != nil {
				d.cfg.Logger.Warn("deleting a file of a failed snapshot", "file", name, "error", err)
			}
		}
	})
}

// delete deletes checkpoints, and then the shared files that only they referred
// to: what is left if it is interrupted between is for a sweep.
func (d *driver) delete(ids []int64) {
	ctx := d.ctx
	d.deleter.do(func() {
		for _, id := range ids {
			t := d.stored(id)
			killpoint.Reach("delete.begin")
			if err := deleteDirectory(ctx, t.blobs, t.dir); err != nil {
				d.cfg.Logger.Warn("deleting a checkpoint", "directory", t.dir, "in", t.blobs, "error", err)
				continue // it may stand, and need its files
			}
			killpoint.Reach("delete.end")
			if !t.external { // else its shared files are another directory's
				d.deleteSharedNow(ctx, d.shares.drop(t.dir))
			}
		}
	})
}

// sweep deletes directories without _metadata, and shared files without a
// snapshot, that earlier attempts left. What they may yet publish there is void.
func (d *driver) sweep(a Sweep) {
	ctx, before := d.ctx, d.cfg.Attempt.Number
	if a.Own {
		before++
	}
	d.deleter.do(func() {
		l, err := listJob(ctx, d.cfg.Blobs, d.cfg.Job)
		if err != nil {
			d.cfg.Logger.Warn("looking for abandoned checkpoints", "error", err)
			return
		}
		for _, id := range sortedKeys(l.checkpoints) {
			if _, published := l.checkpoints[id][snapshot.MetadataName]; published || id >= d.cfg.Attempt.NextID {
				continue
			}
			dir := snapshot.CheckpointDir(d.cfg.Job, id)
			killpoint.Reach("abandoned.begin")
			if err := deleteDirectory(ctx, d.cfg.Blobs, dir); err != nil {
				d.cfg.Logger.Warn("deleting an abandoned checkpoint", "directory", dir, "error", err)
			}
		}
		if err := d.sweepShared(ctx, l, before); err != nil {
			d.cfg.Logger.Warn("shared files that earlier attempts left are not deleted; the next attempt tries again", "error", err)
		}
	})
}

// deleteDirectory deletes _metadata first: what is left if it is interrupted
// is no checkpoint.
func deleteDirectory(ctx context.Context, blobs storage.Blobs, dir string) error {
	if err := blobs.Delete(ctx, path.Join(dir, snapshot.MetadataName)); err != nil {
		return err
	}
	killpoint.Reach("delete.half")
	var names []string
	err := blobs.List(ctx, dir+"/", func(name string, _ int64) error {
		names = append(names, name)
		return nil
	})
	for _, name := range names {
		err = errors.Join(err, blobs.Delete(ctx, name))
	}
	return err
}
