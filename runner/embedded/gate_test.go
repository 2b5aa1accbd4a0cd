package embedded_test

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// A split assigned while two snapshots are under way is, in each of them,
// either the enumerator's or the reader's.
func TestAssignmentBetweenTwoSnapshots(t *testing.T) {
	for _, sources := range []int{1, 2} {
		entered, proceed := make(chan struct{}), make(chan struct{})
		first := true
		src := &shots{at: func(where string) {
			if where == "EnumeratorSnapshot" && first {
				first = false
				close(entered)
				<-proceed
			}
		}}
		r := launch(t, t.TempDir(), embedded.Options{}, func(j *stream.Job) {
			s := stream.From[string](j, "in", src)
			if sources == 2 {
				s = stream.Union(s, stream.From[string](j, "other", &shots{at: func(string) {}}))
			}
			stream.To(s, "out", collect.NewExactlyOnce[string]())
		})
		done := make(chan error, 1)
		r.wait(embedded.Started)
		go func() {
			_, err := r.job.Checkpoint(r.ctx)
			done <- err
		}()
		<-entered
		src.assign(7)
		saved := make(chan string, 1)
		go func() {
			path, err := r.job.Savepoint(r.ctx, t.TempDir())
			if err != nil {
				t.Error(err)
			}
			saved <- path
		}()
		for r.job.SnapshotsUnderWay() < 2 {
			runtime.Gosched()
		}
		close(proceed)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if n := owners(t, <-saved, 7); n != 1 {
			t.Errorf("%d sources: %d owners of the split in the savepoint, want 1", sources, n)
		}
		r.kill()
	}
}

// owners counts where the split n is in a snapshot: with the enumerator, with
// a reader.
func owners(t *testing.T, path string, n int) (count int) {
	t.Helper()
	m, err := snapshot.Load(t.Context(), file.New(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range m.Operators {
		if op.ID != "in" {
			continue
		}
		var waiting []int
		if err := json.Unmarshal(op.Enumerator, &waiting); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(waiting, n) {
			count++
		}
		for _, s := range op.Subtasks {
			for _, data := range s.Splits {
				var split shot
				if err := json.Unmarshal(data, &split); err != nil {
					t.Fatal(err)
				}
				if split.N == n {
					count++
				}
			}
		}
	}
	return count
}
