package lsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

// Reopen makes a tier with the rows of groups that stored databases have, which
// is not to be empty. The one that has the most of them is opened as it is, and
// what else it has is cut off; of the others the rows of groups are loaded.
func (d *Disk) Reopen(ctx context.Context, name string, groups keygroup.Range, stored []*Stored) (*Tier, error) {
	base := stored[0]
	for _, s := range stored[1:] {
		if groups.Intersect(s.Groups).Len() > groups.Intersect(base.Groups).Len() {
			base = s
		}
	}
	if err := base.check(ctx); err != nil {
		return nil, err
	}
	dir := d.newDir(name)
	if err := base.place(ctx, d.fs, dir); err != nil {
		return nil, errors.Join(err, d.fs.RemoveAll(dir))
	}
	t, err := d.openTier(name, dir)
	if err != nil {
		return nil, errors.Join(base.damaged(err), d.fs.RemoveAll(dir))
	}
	t.stored = base.nativeFiles()
	if err := t.cut(ctx, groups, base.Groups); err != nil {
		t.Close()
		return nil, base.damaged(err)
	}
	for _, s := range stored {
		if part := groups.Intersect(s.Groups); s != base && part.Len() > 0 {
			if err := t.loadFrom(ctx, part, s); err != nil {
				t.Close()
				return nil, err
			}
		}
	}
	return t, nil
}

// check compares the manifest with the tables. It reads no more than the manifest,
// and comes first: once the database is open compactions change the tables.
func (s *Stored) check(ctx context.Context) error {
	v, err := OpenSnapshot(ctx, s)
	if err != nil {
		return err
	}
	return v.Close()
}

// cut removes the rows of all but the groups given, of those there may be. It
// changes the database in any case: until then Pebble has no manifest open, and
// DB.Checkpoint would write an empty one.
func (t *Tier) cut(ctx context.Context, groups, there keygroup.Range) error {
	err := t.db.Excise(ctx, pebble.KeyRange{Start: groupKey(groups.Last + 1), End: lastKey})
	if err == nil && there.First < groups.First {
		err = t.db.Excise(ctx, pebble.KeyRange{Start: groupKey(0), End: groupKey(groups.First)})
	}
	return err
}

// loadFrom loads the rows of key groups from a stored database.
func (t *Tier) loadFrom(ctx context.Context, groups keygroup.Range, s *Stored) error {
	v, err := OpenSnapshot(ctx, s)
	if err != nil {
		return err
	}
	l, err := t.Load()
	if err == nil {
		if err = v.rows(groups, l.Put); err != nil {
			l.Abort()
		} else {
			err = l.Commit()
		}
	}
	if err = errors.Join(err, v.Close()); err != nil {
		return fmt.Errorf("load key groups %v: %w", groups, err)
	}
	return nil
}

// Stored are the files that the tier was opened with, by their names in the
// snapshot.
func (t *Tier) Stored() []snapshot.NativeFile { return t.stored }

func (s *Stored) nativeFiles() []snapshot.NativeFile {
	files := make([]snapshot.NativeFile, len(s.Files))
	for i, f := range s.Files {
		files[i] = snapshot.NativeFile{Local: f.Local, File: f.Name}
	}
	return files
}
