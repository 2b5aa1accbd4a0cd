package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/file"
)

// TestC09Savepoint: done only with the mark, committed by the next checkpoint.
func TestC09Savepoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{})
		r, err := j.trigger(Request{Kind: snapshot.Savepoint, Path: "/sp"})
		if err != nil || r.Path != "/sp/savepoint-job-1" {
			t.Fatalf("got %+v, %v", r, err)
		}
		wantStrings(t, "files", files(t, j.blobs, "sp/savepoint-job-1"), "_committed", "_metadata", "rows-0-a1", "rows-1-a1", "src-0-a1")
		wantStrings(t, "committed", j.sink.all(), "1.0", "1.1", "2.0", "2.1")
		j.wantEvents("complete 2")
		// It is not gone on from, and may be deleted.
		if err := deleteDirectory(t.Context(), j.blobs, "sp/savepoint-job-1"); err != nil {
			t.Fatal(err)
		}
		j.crash()
		if k := prepare(t, j.blobs, checkpoint.Options{}); k.attempt.Restored.ID != 2 {
			t.Errorf("restored %d, want 2", k.attempt.Restored.ID)
		}
	})
}

// TestR01NoSavepointDirectory: refused, the job goes on, and a second call works.
func TestR01NoSavepointDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{})
		if _, err := j.trigger(Request{Kind: snapshot.Savepoint, Stop: true}); !errors.Is(err, ErrNoSavepointDir) {
			t.Errorf("got %v", err)
		}
		if len(j.barriers) != 0 {
			t.Error("a barrier went out")
		}
		r, err := j.trigger(Request{Kind: snapshot.Savepoint, Stop: true, Path: "/sp"})
		if err != nil || r.Path != "/sp/savepoint-job-1" {
			t.Errorf("got %+v, %v", r, err)
		}
		if err := <-j.result; err != nil {
			t.Errorf("run ended with %v", err)
		}
	})
}

// TestC07CommitFailsAfterStop: the error says that the savepoint is complete,
// where it is, and that nothing else should be restored.
func TestC07CommitFailsAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{})
		j.checkpoint()
		j.sink.err = errors.New("broker away")
		_, err := j.trigger(Request{Kind: snapshot.Final, Stop: true})
		var u *UncommittedError
		if !errors.As(err, &u) || u.Path != "memory:/job/chk-2" || u.ID != 2 {
			t.Errorf("got %v", err)
		}
		if err := <-j.result; !errors.As(err, &u) || !Fatal(err) {
			t.Errorf("run ended with %v", err)
		}
		k := prepare(t, j.blobs, checkpoint.Options{})
		wantStrings(t, "committed by the next start", k.sink.all(), "2.0", "2.1")
	})
}

func TestSuspendAndGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := prepare(t, newStore(), checkpoint.Options{})
		j.c.Suspend() // before Run, as when a signal comes during a restart
		j.c.Suspend()
		j.run()
		if err := <-j.result; err != nil {
			t.Fatal(err)
		}
		if b := j.barriers[0]; b.Kind != snapshot.Final || !b.Stop || len(j.barriers) != 1 {
			t.Errorf("barriers %+v", j.barriers)
		}
		wantStrings(t, "committed", j.sink.all(), "1.0", "1.1")
		if s := j.c.Status(); s.Outcome != Stopped {
			t.Errorf("outcome %q", s.Outcome)
		}
		if _, err := j.trigger(Request{Kind: snapshot.Checkpoint}); !errors.Is(err, ErrEnded) {
			t.Errorf("after the end: %v", err)
		}
		k := prepare(t, j.blobs, checkpoint.Options{})
		wantStrings(t, "nothing to commit again", k.sink.all())
		if k.attempt.Restored.ID != 1 || k.attempt.Restored.Kind != snapshot.Final {
			t.Errorf("restored %+v", k.attempt.Restored)
		}
	})
}

// TestC05EndOfInput: a checkpoint after a task has ended, then the end.
func TestC05EndOfInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{})
		j.c.Ended(source)
		j.checkpoint()
		j.c.Ended(sink0)
		j.c.Ended(sink0)
		synctest.Wait()
		if len(j.barriers) != 1 {
			t.Fatal("a final checkpoint although a task is running")
		}
		j.c.Ended(sink1)
		if err := <-j.result; err != nil {
			t.Fatal(err)
		}
		if b := j.barriers[1]; b.Kind != snapshot.Final || b.Stop {
			t.Errorf("barrier %+v", b)
		}
		wantStrings(t, "committed", j.sink.all(), "1.0", "1.1", "2.0", "2.1")
		wantStrings(t, "files", files(t, j.blobs, "job/chk-2"), "_committed", "_metadata", "rows-0-a1", "rows-1-a1", "src-0-a1")
		_, err := Start(t.Context(), StartOptions{Job: "job", Blobs: j.blobs})
		if !errors.Is(err, ErrFinished) {
			t.Errorf("started again: %v", err)
		}
	})
}

func TestCancelDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{Retention: checkpoint.DeleteOnCancel})
		j.checkpoint()
		j.checkpoint()
		j.c.Cancel()
		if err := <-j.result; err != nil {
			t.Fatal(err)
		}
		for _, f := range files(t, j.blobs, "job") {
			if !strings.HasPrefix(f, "ledger/") {
				t.Errorf("%s is left", f)
			}
		}
		if s := j.c.Status(); s.Outcome != Canceled {
			t.Errorf("outcome %q", s.Outcome)
		}
	})
}

// TestOnFiles: the same on a file system, where deletion leaves no directory
// and a path leads back to the snapshot.
func TestOnFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		blobs := file.New(root)
		j := launch(t, blobs, checkpoint.Options{Retained: 1})
		j.checkpoint()
		j.checkpoint()
		r, err := j.trigger(Request{Kind: snapshot.Final, Stop: true})
		if err != nil || r.Path != filepath.Join(root, "job/chk-3") {
			t.Fatalf("got %+v, %v", r, err)
		}
		if err := <-j.result; err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(root, "job"))
		if err != nil || len(entries) != 2 || entries[0].Name() != "chk-3" || entries[1].Name() != "ledger" {
			t.Errorf("left: %v, %v", entries, err)
		}
		a, err := Start(t.Context(), StartOptions{
			Job: "job", Blobs: blobs, ExactlyOnceSinks: true, RestorePath: r.Path,
			OpenPath: func(p string) (storage.Blobs, string, error) {
				return file.New(filepath.Dir(p)), filepath.Base(p), nil
			},
		})
		if err != nil || a.Restored.ID != 3 || a.RestoredDir != "job/chk-3" || a.NextID != 4 {
			t.Errorf("got %+v, %v", a, err)
		}
	})
}
