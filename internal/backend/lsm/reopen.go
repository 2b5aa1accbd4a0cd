package lsm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

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

// loadFrom loads the rows of key groups from a stored database: a part of the
// groups on each processor, for to copy a row takes some microseconds.
func (t *Tier) loadFrom(ctx context.Context, groups keygroup.Range, s *Stored) error {
	if err := t.flush(); err != nil {
		return err
	}
	n := min(runtime.GOMAXPROCS(0), groups.Len())
	parts, errs := make([]load, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range parts {
		parts[i].tier = t
		part := keygroup.Range{First: groups.First + i*groups.Len()/n, Last: groups.First + (i+1)*groups.Len()/n - 1}
		wg.Go(func() { errs[i] = parts[i].copyFrom(ctx, part, s) })
	}
	wg.Wait()
	all := load{tier: t}
	for i := range parts {
		all.files = append(all.files, parts[i].files...)
	}
	err := errors.Join(errs...)
	if err != nil {
		all.Abort()
	} else {
		err = all.Commit()
	}
	if err != nil {
		return fmt.Errorf("load key groups %v: %w", groups, err)
	}
	return nil
}

// copyFrom writes the rows of key groups of a stored database to the load's files.
func (l *load) copyFrom(ctx context.Context, groups keygroup.Range, s *Stored) error {
	v, err := OpenSnapshot(ctx, s)
	if err != nil {
		return err
	}
	err = errors.Join(v.rows(groups, l.Put), v.Close())
	if l.w != nil {
		err = errors.Join(err, l.end())
	}
	return err
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
