package checkpoint

import (
	"context"
	"testing"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
)

// pausing is a storage before whose first listing of a directory something
// else happens.
type pausing struct {
	storage.Blobs
	dir    string
	before *func()
}

func (p pausing) List(ctx context.Context, prefix string, fn func(name string, size int64) error) error {
	if f := *p.before; prefix == p.dir && f != nil {
		*p.before = nil
		f()
	}
	return p.Blobs.List(ctx, prefix, fn)
}

// Between the look into an empty ledger and that into the directory another
// process starts the job and takes a checkpoint. The ledger is not lost.
func TestTwoFirstStartsAtOnce(t *testing.T) {
	blobs := newStore()
	start := func(b storage.Blobs) (*Attempt, error) {
		return Start(t.Context(), StartOptions{Job: "job", Blobs: b, Host: "here", PID: 1, NewLineage: func() string { return "L" }})
	}
	other := func() {
		a, err := start(blobs)
		if err != nil {
			t.Fatal(err)
		}
		m := &snapshot.Metadata{Job: "job", Lineage: a.Lineage, Attempt: a.Number, ID: a.NextID, Kind: snapshot.Checkpoint}
		if err := snapshot.Store(t.Context(), blobs, snapshot.CheckpointDir("job", m.ID), m); err != nil {
			t.Fatal(err)
		}
	}
	a, err := start(pausing{blobs, "job/", &other})
	if err != nil {
		t.Fatal(err)
	}
	if a.Number != 2 || a.Restored == nil || a.Restored.ID != 1 {
		t.Errorf("attempt %d begins from %+v, want attempt 2 from snapshot 1", a.Number, a.Restored)
	}
}
