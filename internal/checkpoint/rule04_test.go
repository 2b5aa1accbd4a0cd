package checkpoint

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
)

// TestRule04CanceledJobKnowsWhatItPublished: what a cancelled job committed
// after a savepoint counts, although its checkpoints are deleted: going back to
// the savepoint repeats output, and has to be asked for.
func TestRule04CanceledJobKnowsWhatItPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{Retention: checkpoint.DeleteOnCancel})
		sp, err := j.trigger(Request{Kind: snapshot.Savepoint, Path: "/sp"})
		if err != nil {
			t.Fatal(err)
		}
		j.checkpoint() // 3: committed after the savepoint
		j.c.Cancel()
		if err := <-j.result; err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "committed", j.sink.all(), "1.0", "1.1", "2.0", "2.1", "3.0", "3.1")
		o := StartOptions{
			Job: "job", Blobs: j.blobs, ExactlyOnceSinks: true, RestorePath: sp.Path,
			OpenPath: func(p string) (storage.Blobs, string, error) { return j.blobs, p[1:], nil },
		}
		if _, err := Start(t.Context(), o); !errors.Is(err, ErrRefused) {
			t.Errorf("got %v, want that --rewind is asked for: checkpoints 2 and 3 were published", err)
		}
		o.Rewind = true
		a, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if a.NextID != 4 { // rule 2: ids only grow
			t.Errorf("next id %d, want 4", a.NextID)
		}
	})
}
