package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir/internal/killpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
)

// errIncomplete says that a snapshot's data files are not as its _metadata
// says.
var errIncomplete = errors.New("incomplete snapshot")

// errReplaced says that another snapshot lies where one should be.
var errReplaced = errors.New("another snapshot lies there now")

// missing reports whether there is nothing where a snapshot should be.
func missing(err error) bool {
	return errors.Is(err, snapshot.ErrNotSnapshot) && errors.Is(err, storage.ErrNotFound)
}

// corrupt tells a snapshot that is damaged from a storage that fails.
func corrupt(err error) bool {
	for _, kind := range []error{
		errIncomplete, snapshot.ErrNotSnapshot, snapshot.ErrTruncated, snapshot.ErrChecksum, snapshot.ErrMalformed, storage.ErrNotFound,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// unreadable tells that nobody here can know what a snapshot holds.
func unreadable(err error) bool { return corrupt(err) || errors.Is(err, snapshot.ErrNewer) }

// listing is what lies in a job's directory.
type listing struct {
	// checkpoints are the directories of checkpoints: by id, the names and sizes
	// of the files.
	checkpoints map[int64]map[string]int64
	// others are further directories that are snapshots, shared are the names of
	// shared files.
	others, shared []string
}

func listJob(ctx context.Context, blobs storage.Blobs, job string) (listing, error) {
	l := listing{checkpoints: map[int64]map[string]int64{}}
	shared := snapshot.SharedDir(job)
	err := blobs.List(ctx, job+"/", func(name string, size int64) error {
		dir, file, _ := strings.Cut(strings.TrimPrefix(name, job+"/"), "/")
		id := checkpointID(dir)
		switch {
		case path.Dir(name) == shared:
			l.shared = append(l.shared, name)
		case id == 0 && file == snapshot.MetadataName:
			l.others = append(l.others, path.Dir(name))
		case id == 0:
		case l.checkpoints[id] == nil:
			l.checkpoints[id] = map[string]int64{file: size}
		default:
			l.checkpoints[id][file] = size
		}
		return nil
	})
	if err != nil {
		return l, fmt.Errorf("list the checkpoints of %s in %s: %w", job, blobs, err)
	}
	return l, nil
}

// directories lists what lies in the directories of a job's checkpoints: by
// id, the names and sizes of the files.
func directories(ctx context.Context, blobs storage.Blobs, job string) (map[int64]map[string]int64, error) {
	l, err := listJob(ctx, blobs, job)
	return l.checkpoints, err
}

// checkpointID is the id in the name of a checkpoint's directory, 0 if it is
// none.
func checkpointID(dir string) int64 {
	digits, ok := strings.CutPrefix(path.Base(dir), "chk-")
	id, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || id < 1 {
		return 0
	}
	return id
}

// IsCheckpoint reports whether a directory is that of a checkpoint, by its name.
func IsCheckpoint(dir string) bool { return checkpointID(dir) != 0 }

func has(files map[string]int64, name string) bool {
	_, ok := files[name]
	return ok
}

// look lists and loads the snapshots in the job's directory.
func (s *start) look(ctx context.Context) error {
	listed, err := listJob(ctx, s.Blobs, s.Job)
	if err != nil {
		return err
	}
	dirs := listed.checkpoints
	s.dirs, s.listed = dirs, listed
	v := &view{history: s.ledger.history(), exactlyOnce: s.ExactlyOnceSinks, opts: &s.StartOptions}
	for _, id := range sortedKeys(dirs) {
		files := dirs[id]
		if !has(files, snapshot.MetadataName) {
			continue // not a checkpoint
		}
		dir := snapshot.CheckpointDir(s.Job, id)
		meta, err := snapshot.Load(ctx, s.Blobs, dir)
		switch {
		case missing(err):
			continue // deleted since by the attempt before
		case err != nil && !corrupt(err) && !errors.Is(err, snapshot.ErrNewer):
			return err
		}
		f := found{ref: Ref{ID: id, Path: dir}, meta: meta, err: err}
		if err == nil {
			f.ref = refOf(meta, dir)
		} else {
			f.meta = nil
		}
		if has(files, CommittedName) {
			if f.committed, err = isMarked(ctx, s.Blobs, dir, f.ref); err != nil {
				return err
			}
		}
		v.found = append(v.found, f)
	}
	s.view = v
	killpoint.Reach("start.listed")
	return nil
}

func refOf(m *snapshot.Metadata, dir string) Ref {
	return Ref{Lineage: m.Lineage, Attempt: m.Attempt, ID: m.ID, Path: dir}
}

// load loads a candidate and checks that all of its files are there.
func (s *start) load(ctx context.Context, c candidate) (origin, error) {
	switch {
	case c.found == nil && c.ref.External:
		return s.loadExternal(ctx, c.ref.Path, &c.ref)
	case c.found == nil:
		return origin{}, fmt.Errorf("%s in %s: %w: %w", c.ref.Path, s.Blobs, snapshot.ErrNotSnapshot, storage.ErrNotFound)
	case c.found.err != nil:
		return origin{}, c.found.err
	}
	if err := complete(ctx, s.Blobs, c.ref.Path, c.found.meta); err != nil {
		return origin{}, err
	}
	return origin{found: c.found, blobs: s.Blobs, dir: c.ref.Path}, nil
}

// loadVerified loads a candidate to begin from. Damage must show before the
// start is recorded: later there is no falling back.
func (s *start) loadVerified(ctx context.Context, c candidate) (origin, error) {
	from, err := s.load(ctx, c)
	if err == nil {
		err = s.verify(ctx, from)
	}
	if corrupt(err) && c.elsewhere != nil {
		if other, failed := s.loadVerified(ctx, candidate{ref: *c.elsewhere, named: true}); failed == nil {
			return other, nil
		}
	}
	return from, err
}

// verify reads all data files and compares their checksums.
func verify(ctx context.Context, o origin) error {
	killpoint.Reach("start.load")
	return snapshot.Verify(ctx, o.blobs, o.dir, o.meta)
}

// loadExternal loads a snapshot by the path that a user gives. If it is the
// ledger that names it no other one will do: nobody has asked for that, nor
// looked whether what it holds is committed.
func (s *start) loadExternal(ctx context.Context, userPath string, named *Ref) (origin, error) {
	if s.OpenPath == nil {
		return origin{}, errors.New("snapshots outside the job's storage cannot be opened here")
	}
	blobs, dir, err := s.OpenPath(userPath)
	if err != nil {
		return origin{}, err
	}
	dir = snapshot.Dir(dir)
	meta, err := snapshot.Load(ctx, blobs, dir)
	if err != nil {
		return origin{}, err
	}
	f := &found{meta: meta, ref: refOf(meta, userPath)}
	f.ref.External = true
	if named != nil && !f.ref.same(*named) {
		return origin{}, fmt.Errorf("%w: id %d of attempt %d, written by job %s", errReplaced, meta.ID, meta.Attempt, meta.Job)
	}
	if err := complete(ctx, blobs, dir, meta); err != nil {
		return origin{}, err
	}
	if f.committed, err = isMarked(ctx, blobs, dir, f.ref); err != nil {
		return origin{}, err
	}
	return origin{found: f, blobs: blobs, dir: dir}, nil
}

// complete checks that the data files of a snapshot are there and have the
// right sizes.
func complete(ctx context.Context, blobs storage.Blobs, dir string, m *snapshot.Metadata) error {
	sizes, shared := map[string]int64{}, len(m.SharedFiles(dir)) > 0
	list := func(in string) error {
		return blobs.List(ctx, in+"/", func(name string, size int64) error {
			sizes[name] = size
			return nil
		})
	}
	err := list(dir)
	if err == nil && shared {
		err = list(snapshot.SharedDir(path.Dir(dir)))
	}
	if err != nil {
		return fmt.Errorf("list snapshot %s in %s: %w", dir, blobs, err)
	}
	for _, f := range m.Files {
		size, ok := sizes[path.Join(dir, f.Name)]
		switch {
		case !ok:
			return fmt.Errorf("%w: %s in %s: data file %s is missing", errIncomplete, dir, blobs, f.Name)
		case size != f.Size:
			return fmt.Errorf("%w: %s in %s: data file %s has %d bytes, not %d", errIncomplete, dir, blobs, f.Name, size, f.Size)
		}
	}
	return nil
}

func compareCommittables(a, b snapshot.Committable) int {
	return cmp.Or(cmp.Compare(a.Checkpoint, b.Checkpoint), cmp.Compare(a.Subtask, b.Subtask))
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
