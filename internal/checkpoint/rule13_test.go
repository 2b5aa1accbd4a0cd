package checkpoint

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
)

// canceled is a job that was cancelled with its first checkpoint, whose commit
// waits for the gate.
func canceled(t *testing.T) (j *job, gate chan struct{}) {
	j, gate = launch(t, newStore(), checkpoint.Options{Retention: checkpoint.DeleteOnCancel}), make(chan struct{})
	j.sink.gate = gate
	j.checkpoint()
	j.c.Cancel()
	synctest.Wait()
	return j, gate
}

// TestRule13CancelCommitsBeforeItDeletes: a job that is cancelled with its
// checkpoints first commits what completed ones hold.
func TestRule13CancelCommitsBeforeItDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, gate := canceled(t)
		select {
		case err := <-j.result:
			t.Fatalf("the job ended with %v before its commits", err)
		default:
		}
		if len(files(t, j.blobs, "job/chk-1")) == 0 {
			t.Error("the checkpoint was deleted before its commits")
		}
		close(gate)
		if err := <-j.result; err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "committed", j.sink.all(), "1.0", "1.1")
		wantStrings(t, "left", files(t, j.blobs, "job/chk-1"))
	})
}

// TestRule13CancelKeepsWhatItCannotCommit: where the commits fail, nothing is
// deleted, and the next start commits.
func TestRule13CancelKeepsWhatItCannotCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _ := canceled(t)
		j.sink.mu.Lock()
		j.sink.err = errors.New("broker away") // of the call after this one
		j.sink.mu.Unlock()
		j.cancel() // and the process is told to end at once
		if err := <-j.result; err == nil {
			t.Error("the job was cancelled although its commits had not returned")
		}
		if m := j.load(snapshot.CheckpointDir("job", 1)); m.ID != 1 {
			t.Errorf("checkpoint %d", m.ID)
		}
		k := prepare(t, j.blobs, checkpoint.Options{})
		wantStrings(t, "committed by the next start", k.sink.all(), "1.0", "1.1")
	})
}
