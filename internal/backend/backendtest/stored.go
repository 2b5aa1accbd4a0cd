package backendtest

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

// shelf is where a store's snapshots are stored as files.
type shelf struct {
	blobs   storage.Blobs
	uploads *snapshot.Uploads
	groups  keygroup.Range
	last    int64
}

func newShelf(groups keygroup.Range) *shelf {
	return &shelf{
		blobs: mem.New(), groups: groups,
		uploads: snapshot.NewUploads(snapshot.Writer{Lineage: "lineage", Attempt: 1, Stage: "op", Subtask: groups.First}, nil),
	}
}

// store returns the function that stores a snapshot.
func (s *shelf) store(f *heap.Frozen, keep func(int64, *Stored, error)) func() {
	s.last++
	id, dir := s.last, snapshot.CheckpointDir("job", s.last)
	up := s.uploads.Begin(id, s.blobs, dir, true)
	return func() {
		n, err := f.StoreNative(context.Background(), up)
		if err != nil {
			keep(id, nil, err)
			return
		}
		up.Done()
		files := byName(up)
		keep(id, &Stored{s.blobs, dir, n, files, s.groups}, nil)
	}
}

// byName are the files that a snapshot lists.
func byName(up *snapshot.Upload) map[string]snapshot.File {
	files := map[string]snapshot.File{}
	for _, f := range up.Files() {
		files[f.Name] = f
	}
	return files
}

// described is a snapshot with what its store says of it.
type described struct {
	*heap.Frozen
	states []snapshot.State
	key    codec.Format
}

func (d described) States() []snapshot.State { return d.states }
func (d described) KeyFormat() codec.Format  { return d.key }

// chain returns the function that stores a snapshot as files of changes.
func (s *shelf) chain(f *heap.Frozen, c *heap.Chain, of interface {
	States() []snapshot.State
	KeyFormat() codec.Format
}, keep func(int64, []section, error)) func() {
	s.last++
	id, dir := s.last, snapshot.CheckpointDir("job", s.last)
	up, part := s.uploads.Begin(id, s.blobs, dir, true), described{f, slices.Clone(of.States()), of.KeyFormat()}
	return func() {
		var sub snapshot.Subtask
		if err := c.Store(context.Background(), part, up, &sub); err != nil {
			keep(id, nil, err)
			return
		}
		up.Done()
		files := byName(up)
		var chain []snapshot.File
		for _, name := range sub.DataFiles() {
			chain = append(chain, files[name])
		}
		sections, err := readChain(s.blobs, dir, chain, s.groups)
		keep(id, sections, err)
	}
}

func (m *moment[K]) keepSections(id int64, all []section, err error) {
	m.id, m.sections, m.err = id, all, err
}

func (m *moment[K]) keep(id int64, s *Stored, err error) { m.id, m.stored, m.err = id, s, err }

// readStored reads the sections of a snapshot that is stored as files.
func (r *run[K]) readStored(m *moment[K]) {
	r.t.Helper()
	if m.stored == nil || m.sections != nil {
		return
	}
	seen := map[string]bool{}
	r.backend.Read(r.t, m.stored, r.store.KeyFormat(), func(group int, st snapshot.State, count int, data []byte) error {
		if name := fmt.Sprint(group, " ", st.Name); seen[name] || !m.stored.Groups.Contains(group) {
			return fmt.Errorf("section %s comes twice, or is none of %v", name, m.stored.Groups)
		}
		m.sections = append(m.sections, section{group, st, count, bytes.Clone(data)})
		return nil
	})
}
