package checkpoint

import (
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

// The coordinator publishes while somebody reads the storage with the ledger
// locked, as the sweep of a sink does; what it hands on waits.
func TestPublishDoesNotWaitForTheLedger(t *testing.T) {
	j := prepare(t, newStore(), checkpoint.Options{})
	d := newDriver(j.c)
	d.ctx = t.Context()
	d.barriers[1] = &barrier{
		Barrier: &stage.Barrier{ID: 1, Kind: snapshot.Checkpoint}, target: target{blobs: j.blobs, dir: "job/chk-1"},
		acks: map[stage.TaskID]Ack{source: j.part(source, 1)},
	}
	ledger := j.attempt.ledger
	ledger.mu.Lock()
	d.publish(Publish{ID: 1}) // does not come back if it waits
	ledger.mu.Unlock()
	d.records.wait()
	m := j.load("job/chk-1")
	if want := ledger.history().id(); m.Ledger != want || want == "" {
		t.Errorf("the snapshot names ledger %q, want %q", m.Ledger, want)
	}
}
