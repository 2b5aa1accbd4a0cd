package lsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/state"
)

// Snapshots fail at any operation on the local disk, or of the storage, while
// the store goes on: each that does not holds exactly what there was.
func TestSnapshotsAmongFailures(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			var left atomic.Int64 // operations until one fails
			fails := func(op errorfs.Op) error {
				ours := strings.Contains(op.Path, loadPrefix) || strings.Contains(op.Path, "-captured-")
				if ours && left.Add(-1) == 0 {
					return syscall.ENOSPC
				}
				return nil
			}
			d := open(t, Options{Dir: "state", Incremental: true, FS: unsynced{errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(fails))}})
			s, model := newNumbers(t, d), map[int64]int64{}
			uploads := snapshot.NewUploads(snapshot.Writer{Lineage: "l", Attempt: 1, Stage: "op"}, nil)
			blobs, failed, stored := mem.New(), 0, 0
			for id := int64(1); id <= 60; id++ {
				for range rng.IntN(3) {
					first := rng.Int64N(2000)
					eachKey(s.Store, first, rng.Int64N(300), func(k int64) {
						if rng.IntN(4) == 0 {
							delete(model, k)
							s.check(s.n.Clear())
							return
						}
						model[k] = rng.Int64()
						s.check(s.n.Set(model[k]))
					})
				}
				f := s.Freeze()
				want := maps.Clone(model)
				up := uploads.Begin(id, blobs, snapshot.CheckpointDir("job", id), true)
				left.Store(rng.Int64N(60))
				native, err := f.StoreNative(t.Context(), up)
				left.Store(0)
				f.Release()
				if err != nil {
					failed++
					if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, heap.ErrTier) {
						t.Fatalf("snapshot %d: %v", id, err)
					}
					s.check(up.Abandon(t.Context()))
					continue
				}
				stored++
				up.Done()
				if rng.IntN(3) > 0 {
					uploads.Complete(id)
				}
				s.wantStored(up, blobs, snapshot.CheckpointDir("job", id), native, want)
			}
			if failed < 10 || stored < 10 {
				t.Errorf("%d snapshots failed, %d did not: the case tests little", failed, stored)
			}
			s.Close()
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if err := s.pool.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// numbers is a store with next to no memory.
type numbers struct {
	*heap.Store[int64]
	t    *testing.T
	n    state.Value[int64]
	pool *memory.Pool
}

func newNumbers(t *testing.T, d *Disk) *numbers {
	t.Helper()
	s, cur := &numbers{t: t, pool: memory.NewPool(0)}, &entry.Cursor{}
	reg := state.NewRegistry("op").Bind(cur)
	s.n = state.ValueIn[int64](reg, "n")
	tier, err := d.Tier("op")
	s.check(err)
	s.Store, err = heap.New[int64](heap.Options{Operator: "op", Fields: reg.Fields(), Cursor: cur, MaxParallelism: 4,
		Range: keygroup.Range{First: 0, Last: 3}, Pool: s.pool, Tier: tier, Share: memory.NewBudget(1000, 1).Share(), Settle: true})
	s.check(err)
	return s
}

func (s *numbers) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// wantStored compares what a snapshot has stored.
func (s *numbers) wantStored(up *snapshot.Upload, blobs storage.Blobs, dir string, n *snapshot.Native, want map[int64]int64) {
	s.t.Helper()
	files := map[string]snapshot.File{}
	for _, f := range up.Files() {
		files[f.Name] = f
	}
	groups := keygroup.Range{First: 0, Last: 3}
	stored, err := NewStored(blobs, dir, n, files, groups)
	s.check(err)
	v, err := OpenSnapshot(s.t.Context(), stored)
	s.check(err)
	got := map[int64]int64{}
	err = v.Sections(groups, s.KeyFormat(), n.States, func(_ int, _ snapshot.State, _ int, data []byte) error {
		for ; len(data) > 0; data = data[16:] {
			got[int64(binary.LittleEndian.Uint64(data))] = int64(binary.LittleEndian.Uint64(data[8:]))
		}
		return nil
	})
	s.check(errors.Join(err, v.Close()))
	if !maps.Equal(got, want) {
		s.t.Fatalf("%s holds %d numbers, want %d, or others", dir, len(got), len(want))
	}
}
