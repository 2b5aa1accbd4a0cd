package checkpoint

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
)

// A file goes with the last snapshot that refers to it; if an upload is under
// way that may refer to it as well, when that has said so.
func TestSharesAwaitUploads(t *testing.T) {
	const f1, f2, f3 = "job/shared/L-a2-s-0-1", "job/shared/L-a2-s-0-2", "job/shared/L-a1-s-0-3"
	s := newShares(2, 0)
	s.hold("job/chk-1", []string{f1, f2, f3, f1})
	s.hold("job/chk-2", []string{f2})
	wantStrings(t, "free", s.drop("job/chk-1"), f3, f1)
	s.hold("job/chk-1", []string{f1}) // as if named anew
	s.opened(3)
	s.opened(4)
	wantStrings(t, "free while 3 and 4 are open", s.drop("job/chk-1"))
	if !s.knows(f1) || !s.knows(f2) || s.knows(f3) {
		t.Error("what waits, or is referred to, is not known, or what is gone is")
	}
	s.opened(5) // knows better
	wantStrings(t, "free while 4 is open", s.closed(3))
	s.hold("job/chk-4", []string{f1})
	wantStrings(t, "free while 4 refers to it", s.closed(4))
	wantStrings(t, "free, once more", s.closed(4))
	wantStrings(t, "free while 5 is open", s.drop("job/chk-4"))
	wantStrings(t, "free", s.closed(5), f1)

	s = newShares(2, 0)
	s.keepEarlier = true
	s.hold("job/chk-1", []string{f1, f3})
	wantStrings(t, "free of its own", s.drop("job/chk-1"), f1)
}

// answerShared acknowledges a checkpoint for all tasks; sink0's part has shared
// files, those in wrote are written.
func (j *job) answerShared(id int64, refers []string, wrote ...string) {
	j.t.Helper()
	for _, task := range j.Tasks() {
		a := j.part(task, id)
		if task == sink0 {
			a.Operators[0].Subtasks[0].Native = &snapshot.Native{Format: "model/1"}
			a.Operators[0].Subtasks[0].File = ""
			for _, name := range slices.Concat(refers, wrote) {
				f := putShared(j.t, j.blobs, name)
				sub := &a.Operators[0].Subtasks[0]
				sub.Native.Files = append(sub.Native.Files, snapshot.NativeFile{Local: path.Base(name), File: f.Name})
				a.Files = append(a.Files, f)
			}
		}
		j.c.Ack(a)
	}
	synctest.Wait()
}

func putShared(t *testing.T, blobs storage.Blobs, name string) snapshot.File {
	t.Helper()
	err := blobs.Put(t.Context(), path.Join("job/shared", name), func(w io.Writer) error {
		_, err := io.WriteString(w, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f := snapshot.File{Name: "../shared/" + name, Size: int64(len(name))}
	// The checksum as Upload makes it.
	up := snapshot.NewUploads(snapshot.Writer{}, nil).Begin(1, blobs, "job/x", false)
	got, err := up.PutAs(t.Context(), "sum", func(w io.Writer) error { _, err := io.WriteString(w, name); return err })
	if err := errors.Join(err, up.Abandon(t.Context())); err != nil {
		t.Fatal(err)
	}
	f.CRC = got.CRC
	return f
}

// begin asks for a checkpoint, which nobody answers yet.
func (j *job) begin() {
	go func() { _, _ = j.trigger(Request{Kind: snapshot.Checkpoint}) }()
	synctest.Wait()
}

func allSilent() []stage.TaskID { return []stage.TaskID{source, sink0, sink1} }

func TestSharedFilesGoWithTheirLastSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blobs := newStore()
		j := launch(t, blobs, checkpoint.Options{MaxConcurrent: 2, Retained: 1, TolerableFailures: 1}, allSilent()...)
		shared := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			wantStrings(t, what, files(t, blobs, "job/shared"), want...)
		}
		j.begin()
		j.answerShared(1, nil, "L-a1-rows-0-1", "L-a1-rows-0-2")
		shared("after 1", "L-a1-rows-0-1", "L-a1-rows-0-2")
		j.begin()
		j.begin()
		j.answerShared(2, []string{"L-a1-rows-0-2"}, "L-a1-rows-0-3")
		wantStrings(t, "directories", directoriesOf(t, blobs), "chk-2", "ledger", "shared")
		shared("while 3 is under way", "L-a1-rows-0-1", "L-a1-rows-0-2", "L-a1-rows-0-3")
		j.answerShared(3, []string{"L-a1-rows-0-3"}, "L-a1-rows-0-4")
		shared("after 3", "L-a1-rows-0-3", "L-a1-rows-0-4")
		// One that fails takes what only it has along, also what comes late.
		j.begin()
		a := j.part(sink0, 4)
		a.Files = append(a.Files, putShared(t, blobs, "L-a1-rows-0-5"), putShared(t, blobs, "L-a1-rows-0-4"))
		j.c.Ack(a)
		synctest.Wait()
		shared("acknowledged", "L-a1-rows-0-3", "L-a1-rows-0-4", "L-a1-rows-0-5")
		j.c.Decline(sink1, 4, errors.New("disk full"))
		shared("after 4 failed", "L-a1-rows-0-3", "L-a1-rows-0-4")
		a = j.part(source, 4)
		a.Files = append(a.Files, putShared(t, blobs, "L-a1-src-0-1"))
		j.c.Ack(a)
		shared("after the late part", "L-a1-rows-0-3", "L-a1-rows-0-4")
		j.crash()
		// The next attempt goes on with them.
		j = launch(t, blobs, checkpoint.Options{Retained: 1}, allSilent()...)
		if !j.attempt.Share || j.attempt.Restored.ID != 3 {
			t.Errorf("restored %d, its files are shared: %v", j.attempt.Restored.ID, j.attempt.Share)
		}
		j.begin()
		j.answerShared(j.attempt.NextID, []string{"L-a1-rows-0-4"}, "L-a2-rows-0-1")
		shared("after the first of attempt 2", "L-a1-rows-0-4", "L-a2-rows-0-1")
		j.crash()
	})
}

func directoriesOf(t *testing.T, blobs storage.Blobs) []string {
	var dirs []string
	for _, name := range files(t, blobs, "job") {
		dir, _, _ := strings.Cut(name, "/")
		dirs = append(dirs, dir)
	}
	return slices.Compact(dirs)
}

// What a process that died has left is found after the next one's first
// checkpoint; what some snapshot names, or others wrote, is not touched.
func TestSharedFilesAreSwept(t *testing.T) {
	for _, unreadable := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			blobs := newStore()
			j := launch(t, blobs, checkpoint.Options{Retained: 1}, allSilent()...)
			j.begin()
			j.answerShared(1, nil)
			j.begin()
			j.answerShared(2, nil, "L-a1-rows-0-1")
			void := j.load("job/chk-2")
			j.crash()
			void.ID, void.Operators, void.Files = 9, nil, []snapshot.File{putShared(t, blobs, "L-a1-rows-0-2")}
			if err := snapshot.Store(t.Context(), blobs, "job/my-copy", void); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"L-a1-rows-0-3", "other-a1-rows-0-1", "L-a9-rows-0-1", "notes.txt"} {
				putShared(t, blobs, name)
			}
			left := []string{"L-a1-rows-0-2", "L-a2-rows-0-1", "L-a9-rows-0-1", "notes.txt", "other-a1-rows-0-1"}
			if unreadable {
				if err := blobs.PutIfAbsent(t.Context(), "job/chk-1/_metadata", []byte("{")); err != nil {
					t.Fatal(err)
				}
				left = append([]string{"L-a1-rows-0-1"}, left...)
				left = slices.Insert(left, 2, "L-a1-rows-0-3")
			}
			j = launch(t, blobs, checkpoint.Options{Retained: 1}, allSilent()...)
			j.begin()
			j.answerShared(j.attempt.NextID, nil, "L-a2-rows-0-1")
			wantStrings(t, "left", files(t, blobs, "job/shared"), left...)
			j.crash()
		})
	}
}

// A sweep that learns that the job was started elsewhere deletes nothing.
func TestFencedSweepsNoSharedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blobs := newStore()
		j := launch(t, blobs, checkpoint.Options{Retained: 1}, allSilent()...)
		j.crash()
		putShared(t, blobs, "L-a1-rows-0-1")
		hooked := &onList{Blobs: blobs}
		j = prepare(t, hooked, checkpoint.Options{})
		hooked.lists = func() { prepare(t, blobs, checkpoint.Options{}) }
		l, err := listJob(t.Context(), blobs, "job")
		if err != nil {
			t.Fatal(err)
		}
		d := newDriver(j.c)
		if err := d.sweepShared(t.Context(), l, 2); !errors.Is(err, ErrFenced) {
			t.Errorf("error %v", err)
		}
		wantStrings(t, "left", files(t, blobs, "job/shared"), "L-a1-rows-0-1")
	})
}

// onList lets something happen after the ledger was listed.
type onList struct {
	storage.Blobs
	lists func()
}

func (o *onList) List(ctx context.Context, prefix string, fn func(string, int64) error) error {
	err := o.Blobs.List(ctx, prefix, fn)
	if do := o.lists; do != nil && strings.HasSuffix(prefix, "ledger/") {
		o.lists = nil
		defer do()
	}
	return err
}

// The checkpoints of a job that is cancelled go with their shared files, those
// that an upload has just written included.
func TestCancelDeletesSharedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blobs := newStore()
		j := launch(t, blobs, checkpoint.Options{Retention: checkpoint.DeleteAtEnd}, allSilent()...)
		j.begin()
		j.answerShared(1, nil, "L-a1-rows-0-1")
		j.begin()
		putShared(t, blobs, "L-a1-rows-0-2")
		j.c.Cancel()
		if err := <-j.result; err != nil {
			t.Error(err)
		}
		wantStrings(t, "left", files(t, blobs, "job/shared"))
		wantStrings(t, "directories", directoriesOf(t, blobs), "ledger")
	})
}
