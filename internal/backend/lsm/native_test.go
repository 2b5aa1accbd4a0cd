package lsm

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/state"
)

// shelve stores a tier as it is in the directory of a snapshot.
func shelve(t *testing.T, tier *Tier, blobs storage.Blobs, id int64, groups keygroup.Range) *Stored {
	t.Helper()
	files, err := tier.Files()
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	up := snapshot.NewUploads(snapshot.Writer{Lineage: "l", Attempt: id, Stage: "op"}, nil).Begin(id, blobs, snapshot.CheckpointDir("job", id), true)
	n := &snapshot.Native{Format: files.Format()}
	stored := map[string]snapshot.File{}
	for _, f := range files.List() {
		r, err := files.Open(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := up.Put(t.Context(), copyOf(r))
		if err != nil {
			t.Fatal(err)
		}
		stored[s.Name] = s
		n.Files = append(n.Files, snapshot.NativeFile{Local: f.Name, File: s.Name})
	}
	s, err := NewStored(blobs, snapshot.CheckpointDir("job", id), n, stored, groups)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func rowsOf(t *testing.T, tier *Tier) (keys []string) {
	t.Helper()
	err := tier.Scan(nil, func(key, _ []byte) error { keys = append(keys, string(key)); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// A database can be stored and opened again and again, empty or not, also if
// nothing changes in between.
func TestReopenedDatabaseCanBeStoredAgain(t *testing.T) {
	for _, put := range []bool{false, true} {
		d, blobs, groups := open(t, Options{Dir: t.TempDir()}), mem.New(), keygroup.Range{First: 0, Last: 3}
		tier, err := d.Tier("op")
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if put {
			want = 1
			c := tier.Change()
			if err := c.Put(append(groupKey(2), "12345"...), []byte("row")); err != nil {
				t.Fatal(err)
			}
			if err := c.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		for id := int64(1); id < 4; id++ {
			s := shelve(t, tier, blobs, id, groups)
			tier.Close()
			if tier, err = d.Reopen(context.Background(), "op", groups, []*Stored{s}); err != nil {
				t.Fatal(err)
			}
			if rows := rowsOf(t, tier); len(rows) != want {
				t.Fatalf("after %d times the rows are %q, want %d", id, rows, want)
			}
		}
		tier.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func copyOf(r io.ReadCloser) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return errors.Join(err, r.Close())
	}
}

// From a storage on the same file system tables are links, and stay when the
// snapshot is deleted.
func TestTablesAreLinks(t *testing.T) {
	dir := t.TempDir()
	d, blobs, groups := open(t, Options{Dir: filepath.Join(dir, "local")}), file.New(filepath.Join(dir, "snapshots")), keygroup.Range{First: 0, Last: 3}
	tier, err := d.Tier("op")
	if err != nil {
		t.Fatal(err)
	}
	c := tier.Change()
	if err := errors.Join(c.Put(append(groupKey(2), "12345"...), []byte("row")), c.Commit()); err != nil {
		t.Fatal(err)
	}
	s := shelve(t, tier, blobs, 1, groups)
	tier.Close()
	if tier, err = d.Reopen(context.Background(), "op", groups, []*Stored{s}); err != nil {
		t.Fatal(err)
	}
	for i := range s.Files {
		f := &s.Files[i]
		stored, err := os.Stat(filepath.Join(dir, "snapshots", s.name(f)))
		if err != nil {
			t.Fatal(err)
		}
		local, err := os.Stat(filepath.Join(tier.dir, f.Local))
		if isTable(f.Local) && (err != nil || !os.SameFile(stored, local)) {
			t.Errorf("%s is not a link; error %v", f.Local, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "snapshots")); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(t, tier); len(rows) != 1 {
		t.Errorf("rows %q, want one", rows)
	}
	tier.Close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Savepoints have files of their own, which no checkpoint may refer to: however
// many there are, the next checkpoint still knows what the last one has stored.
func TestSavepointsDoNotMakeCheckpointsForget(t *testing.T) {
	pool, cur := memory.NewPool(0), &entry.Cursor{}
	defer pool.Close()
	reg := state.NewRegistry("op").Bind(cur)
	n := state.ValueIn[int64](reg, "n")
	o := heap.Options{Operator: "op", Fields: reg.Fields(), Cursor: cur, MaxParallelism: 4, Range: keygroup.Range{First: 0, Last: 3}, Pool: pool}
	incremental("small", 1<<20).Prepare(t, &o)
	s, err := heap.New[int64](o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	eachKey(s, 0, 1000, func(k int64) {
		if err := n.Set(k); err != nil {
			t.Fatal(err)
		}
	})
	blobs, uploads := mem.New(), snapshot.NewUploads(snapshot.Writer{Lineage: "l", Attempt: 1, Stage: "op"}, nil)
	store := func(id int64, share bool) (tables int) {
		f := s.Freeze()
		defer f.Release()
		up := uploads.Begin(id, blobs, snapshot.CheckpointDir("job", id), share)
		stored, err := f.StoreNative(t.Context(), up)
		if err != nil {
			t.Fatal(err)
		}
		up.Done()
		for _, f := range stored.Files {
			if _, known := up.Usable(f.File); isTable(f.Local) && !known {
				tables++
			}
		}
		return tables
	}
	if n := store(1, true); n != 1 {
		t.Fatalf("the first checkpoint stores %d tables, want 1", n)
	}
	uploads.Complete(1)
	for id := range int64(20) {
		store(2+id, false)
	}
	if n := store(100, true); n != 0 {
		t.Errorf("a checkpoint without changes stores %d tables anew", n)
	}
}
