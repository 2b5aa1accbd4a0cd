package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckpointEndToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{})
		r, err := j.trigger(Request{Kind: snapshot.Checkpoint})
		if err != nil || r != (Result{ID: 1, Path: "memory:/job/chk-1"}) {
			t.Fatalf("got %+v, %v", r, err)
		}
		synctest.Wait()
		m := j.load("job/chk-1")
		if m.Job != "job" || m.Lineage != "L" || m.Attempt != 1 || m.Kind != snapshot.Checkpoint || m.KeyHash != "hash/v1" || m.Weir != "test" {
			t.Errorf("metadata: %+v", m)
		}
		if len(m.Files) != 3 || m.Files[0].Name != "rows-0-a1" {
			t.Errorf("files: %+v", m.Files)
		}
		if len(m.Operators) != 2 || m.Operators[0].ID != "rows" || len(m.Operators[0].Subtasks) != 2 || m.Operators[0].Subtasks[1].Index != 1 {
			t.Errorf("operators: %+v", m.Operators)
		}
		if got := string(m.Operators[1].Enumerator); got != "splits at 1" || m.Operators[1].EnumeratorFormat.ID != "splits" {
			t.Errorf("enumerator: %q", got)
		}
		wantStrings(t, "committables", committables(m), "1.0", "1.1")
		wantStrings(t, "committed", j.sink.all(), "1.0", "1.1")
		j.checkpoint()
		wantStrings(t, "committables of 2", committables(j.load("job/chk-2")), "2.0", "2.1")
		j.wantEvents("complete 1", "complete 2", "committed 1")
		s := j.c.Status()
		if s.Completed != 2 || s.Failed != 0 || s.InProgress != 0 || s.Last.ID != 2 || s.Last.Bytes != 12 ||
			s.Last.BarrierNanos != 11 || s.Last.AsyncNanos != 15 || s.Last.SyncNanos != 6 {
			t.Errorf("status %+v, last %+v", s, s.Last)
		}
		j.crash()
		if _, err := j.trigger(Request{Kind: snapshot.Checkpoint}); !errors.Is(err, ErrInterrupted) {
			t.Errorf("after the attempt: %v", err)
		}
	})
}

func TestPeriodicInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		j := launch(t, newStore(), checkpoint.Options{Interval: 10 * second, Retained: 2})
		time.Sleep(205 * second)
		synctest.Wait()
		if n := len(j.barriers); n != 20 && n != 21 {
			t.Fatalf("%d checkpoints in 205 s", n)
		}
		for i, b := range j.barriers[1:] {
			if d := b.Triggered - j.barriers[i].Triggered; d != 10_000 {
				t.Errorf("checkpoint %d came %d ms after the one before", b.ID, d)
			}
		}
		if first := j.barriers[0].Triggered - began.UnixMilli(); first > 10_000 {
			t.Errorf("the first came after %d ms", first)
		}
		n := len(j.barriers)
		var dirs []string
		for _, f := range files(t, j.blobs, "job") {
			if strings.HasSuffix(f, snapshot.MetadataName) {
				dirs = append(dirs, f)
			}
		}
		if len(dirs) != 2 || !slices.Contains(dirs, fmt.Sprintf("chk-%d/_metadata", n)) || !slices.Contains(dirs, fmt.Sprintf("chk-%d/_metadata", n-1)) {
			t.Errorf("retained %q after %d", dirs, n)
		}
		j.crash()
	})
}

// TestC01AckAfterExpiry: no file of an expired checkpoint is left.
func TestC01AckAfterExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{Timeout: second, TolerableFailures: 1}, sink1)
		_, err := j.trigger(Request{Kind: snapshot.Checkpoint})
		if !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "rows/1") {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		wantStrings(t, "files after expiry", files(t, j.blobs, "job/chk-1"))
		late := j.part(sink1, 1)
		if _, err := putFile(t.Context(), j.blobs, "job/chk-1", late.Files[0].Name); err != nil {
			t.Fatal(err)
		}
		j.c.Ack(late)
		synctest.Wait()
		wantStrings(t, "files after the late ack", files(t, j.blobs, "job/chk-1"))
		delete(j.silent, sink1)
		j.checkpoint()
		// The transactions of the checkpoint that failed are carried on.
		wantStrings(t, "committables", committables(j.load("job/chk-2")), "1.0", "1.1", "2.0", "2.1")
		wantStrings(t, "committed", j.sink.all(), "1.0", "1.1", "2.0", "2.1")
		j.wantEvents("aborted 1", "complete 2")
		if len(j.notices) != 2 || !errors.Is(j.notices[0].Err, ErrTimeout) || j.notices[1].Err != nil {
			t.Errorf("notices %+v", j.notices)
		}
		j.crash()
		next := prepare(t, j.blobs, checkpoint.Options{})
		if next.attempt.Restored.ID != 2 {
			t.Errorf("restored %d, want 2", next.attempt.Restored.ID)
		}
	})
}

// TestC23DuplicateAck: a second ack neither completes a checkpoint nor deletes
// the files of a completed one.
func TestC23DuplicateAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{}, sink0, sink1)
		done := make(chan error, 1)
		go func() {
			_, err := j.trigger(Request{Kind: snapshot.Checkpoint})
			done <- err
		}()
		synctest.Wait()
		j.answer(source, 1)
		j.answer(sink0, 1)
		j.answer(sink0, 1)
		synctest.Wait()
		if s := j.c.Status(); s.Completed != 0 || s.InProgress != 1 {
			t.Fatalf("completed without the third: %+v", s)
		}
		j.answer(sink1, 1)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		j.answer(sink1, 1)
		synctest.Wait()
		wantStrings(t, "files", files(t, j.blobs, "job/chk-1"), "_metadata", "rows-0-a1", "rows-1-a1", "src-0-a1")
		wantStrings(t, "committables", committables(j.load("job/chk-1")), "1.0", "1.1")
		wantStrings(t, "committed", j.sink.all(), "1.0", "1.1")
		j.crash()
	})
}

// TestPreparedBeforeDecline: what a sink pre-committed is carried on though
// its task could not store its part, and in order though acks overtake.
func TestPreparedBeforeDecline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{TolerableFailures: 5}, sink1)
		failed := make(chan error, 1)
		go func() {
			_, err := j.trigger(Request{Kind: snapshot.Checkpoint})
			failed <- err
		}()
		synctest.Wait()
		j.c.Prepared(sink1, 1, "rows", nil, [][]byte{[]byte("1.1")})
		j.c.Decline(sink1, 1, errors.New("disk full"))
		if err := <-failed; err == nil || !strings.Contains(err.Error(), "declined by rows/1: disk full") {
			t.Fatalf("got %v", err)
		}
		delete(j.silent, sink1)
		j.checkpoint()
		wantStrings(t, "committables", committables(j.load("job/chk-2")), "1.0", "1.1", "2.0", "2.1")
		j.crash()
	})
}

// TestC03SlowCommits: commits run apart from checkpoints, in order, and what
// is not confirmed is part of every later checkpoint.
func TestC03SlowCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{Retained: 1})
		gate := make(chan struct{})
		j.sink.gate = gate
		for range 3 {
			j.checkpoint()
		}
		wantStrings(t, "committed", j.sink.all())
		wantStrings(t, "committables", committables(j.load("job/chk-3")), "1.0", "1.1", "2.0", "2.1", "3.0", "3.1")
		// None is deleted before its commits are resolved.
		if len(files(t, j.blobs, "job/chk-1")) == 0 {
			t.Error("checkpoint 1 is gone")
		}
		j.wantEvents("complete 1", "complete 2", "complete 3")
		close(gate)
		synctest.Wait()
		wantStrings(t, "committed", j.sink.all(), "1.0", "1.1", "2.0", "2.1", "3.0", "3.1")
		j.checkpoint()
		wantStrings(t, "committables", committables(j.load("job/chk-4")), "4.0", "4.1")
		j.wantEvents("complete 1", "complete 2", "complete 3", "complete 4", "committed 3")
		for _, dir := range []string{"job/chk-1", "job/chk-2", "job/chk-3"} {
			wantStrings(t, dir, files(t, j.blobs, dir))
		}
		j.crash()
	})
}

// TestConcurrentBarriers: a checkpoint holds nothing of a later barrier, and a
// later one all that came before.
func TestConcurrentBarriers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{MaxConcurrent: 2}, source)
		j.sink.gate = make(chan struct{})
		for range 2 {
			go j.trigger(Request{Kind: snapshot.Checkpoint})
			synctest.Wait()
		}
		j.answer(source, 1)
		synctest.Wait()
		wantStrings(t, "committables of 1", committables(j.load("job/chk-1")), "1.0", "1.1")
		j.answer(source, 2)
		synctest.Wait()
		wantStrings(t, "committables of 2", committables(j.load("job/chk-2")), "1.0", "1.1", "2.0", "2.1")
		close(j.sink.gate)
		synctest.Wait()
		wantStrings(t, "committed", j.sink.all(), "1.0", "1.1", "2.0", "2.1")
		j.wantEvents("complete 1", "complete 2")
		j.crash()
	})
}

// TestRestartCommitsRestored: a crash after completion and before the commit.
func TestRestartCommitsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{})
		j.sink.gate = make(chan struct{})
		j.checkpoint()
		// An unfinished one, and files of it.
		j.silent[source] = true
		go j.trigger(Request{Kind: snapshot.Checkpoint})
		synctest.Wait()
		j.crash()
		wantStrings(t, "left behind", files(t, j.blobs, "job/chk-2"), "rows-0-a1", "rows-1-a1")

		k := launch(t, j.blobs, checkpoint.Options{})
		wantStrings(t, "committed at the start", k.sink.all(), "1.0", "1.1")
		if k.attempt.NextID != 3 || k.sink.swept != 1 {
			t.Errorf("next id %d, swept %d times", k.attempt.NextID, k.sink.swept)
		}
		k.checkpoint()
		wantStrings(t, "abandoned", files(t, j.blobs, "job/chk-2"))
		wantStrings(t, "retained, and marked by the start", files(t, j.blobs, "job/chk-1"), "_committed", "_metadata", "rows-0-a1", "rows-1-a1", "src-0-a1")
		wantStrings(t, "committables", committables(k.load("job/chk-3")), "3.0", "3.1")
		k.crash()
	})
}

// TestFencedCommitsNothing: a start elsewhere between the barrier and the
// second look at the ledger.
func TestFencedCommitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{Retained: 1})
		j.checkpoint()
		prepare(t, j.blobs, checkpoint.Options{})
		_, err := j.trigger(Request{Kind: snapshot.Checkpoint})
		if !errors.Is(err, ErrFenced) || !Fatal(err) {
			t.Errorf("got %v", err)
		}
		if err := <-j.result; !errors.Is(err, ErrFenced) {
			t.Errorf("run ended with %v", err)
		}
		wantStrings(t, "committed", j.sink.all(), "1.0", "1.1")
		if len(files(t, j.blobs, "job/chk-1")) == 0 {
			t.Error("a fenced attempt deleted")
		}
	})
}

// TestIDTakenByZombie: the next id is taken, nothing of the other is touched.
func TestIDTakenByZombie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blobs := newStore()
		j := launch(t, blobs, checkpoint.Options{})
		other := &snapshot.Metadata{Job: "job", Lineage: "L", Attempt: 99, ID: 1, Kind: snapshot.Checkpoint}
		if err := snapshot.Store(t.Context(), blobs, "job/chk-1", other); err != nil {
			t.Fatal(err)
		}
		r, err := j.trigger(Request{Kind: snapshot.Checkpoint})
		if err != nil || r.ID != 2 {
			t.Fatalf("got %+v, %v", r, err)
		}
		synctest.Wait()
		wantStrings(t, "the other's", files(t, blobs, "job/chk-1"), "_metadata")
		wantStrings(t, "committables", committables(j.load("job/chk-2")), "1.0", "1.1", "2.0", "2.1")
		j.crash()
	})
}

func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := storagetest.NewFaulty(newStore())
		j := launch(t, faulty, checkpoint.Options{TolerableFailures: 1, Retained: 1})
		j.checkpoint()
		full := storagetest.Fault{Op: storagetest.PutIfAbsent, Name: "job/chk-*/_metadata", Err: syscall.ENOSPC}
		faulty.Script(full)
		if _, err := j.trigger(Request{Kind: snapshot.Checkpoint}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v", err)
		}
		j.checkpoint() // tolerated, and the count starts anew
		wantStrings(t, "the failed one", files(t, faulty, "job/chk-2"))
		full.Times = 2
		faulty.Script(full)
		for range 2 {
			if _, err := j.trigger(Request{Kind: snapshot.Checkpoint}); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("got %v", err)
			}
		}
		err := <-j.result
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "failures in a row: 2, tolerated: 1") {
			t.Errorf("run ended with %v", err)
		}
		if Fatal(err) {
			t.Error("a full disk is no reason not to restart")
		}
		if s := j.c.Status(); s.Completed != 2 || s.Failed != 3 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestLostAnswer: _metadata was written though the storage says it failed.
// A crash at that moment goes on from it.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := storagetest.NewFaulty(newStore())
		j := launch(t, faulty, checkpoint.Options{})
		j.checkpoint()
		faulty.Script(storagetest.Fault{Op: storagetest.PutIfAbsent, Name: "job/chk-2/_metadata", Err: errors.New("reset"), After: true})
		_, err := j.trigger(Request{Kind: snapshot.Checkpoint})
		if err == nil {
			t.Fatal("no error")
		}
		<-j.result
		k := prepare(t, faulty, checkpoint.Options{})
		if k.attempt.Restored.ID != 2 {
			t.Errorf("restored %d, want 2", k.attempt.Restored.ID)
		}
		wantStrings(t, "committed at the start", k.sink.all(), "2.0", "2.1")
	})
}

func TestCommitFailureEndsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{TolerableFailures: checkpoint.Unlimited})
		j.sink.err = errors.New("broker away")
		j.checkpoint()
		if err := <-j.result; err == nil || !strings.Contains(err.Error(), "commit sink rows up to checkpoint 1: broker away") {
			t.Errorf("run ended with %v", err)
		}
	})
}

func TestCommittablesWithoutCommitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := prepare(t, newStore(), checkpoint.Options{})
		j.c.cfg.Committers = nil
		j.run()
		j.checkpoint()
		if err := <-j.result; err == nil || !strings.Contains(err.Error(), "sink rows has committables but no committer") {
			t.Errorf("run ended with %v", err)
		}
	})
}

func TestOffWaitsForTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := prepare(t, newStore(), checkpoint.Options{})
		j.c.cfg.Blobs = nil
		j.run()
		if _, err := j.trigger(Request{Kind: snapshot.Checkpoint}); !errors.Is(err, ErrOff) {
			t.Errorf("got %v", err)
		}
		for _, task := range j.Tasks() {
			j.c.Ended(task)
		}
		if err := <-j.result; err != nil {
			t.Error(err)
		}
		if len(j.barriers) != 0 || j.c.Status().Outcome != Finished {
			t.Errorf("barriers %v, status %+v", j.barriers, j.c.Status())
		}
	})
}

func TestEnumeratorFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{}, source)
		go j.trigger(Request{Kind: snapshot.Checkpoint})
		synctest.Wait()
		j.c.post(func(d *driver) { d.step(EnumeratorFailed{1, errors.New("gone")}) })
		if err := <-j.result; err == nil || !strings.Contains(err.Error(), "gone") {
			t.Errorf("run ended with %v", err)
		}
	})
}

func TestMetricsOutliveAttempts(t *testing.T) {
	r := prometheus.NewRegistry()
	a, b := newMetrics(r, "job"), newMetrics(r, "job")
	a.succeeded(Notice{Duration: 2 * second, Bytes: 7})
	b.succeeded(Notice{Duration: 3 * second, Bytes: 8})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	want := map[string]float64{
		"weir_coordinator_snapshots_completed_total": 2, "weir_coordinator_snapshots_failed_total": 0,
		"weir_coordinator_last_snapshot_duration_seconds": 3, "weir_coordinator_last_snapshot_bytes": 8,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTriggerGivesUpWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{}, source)
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		if _, err := j.c.Trigger(ctx, Request{Kind: snapshot.Checkpoint}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		j.crash()
	})
}

var _ stage.Committer = (*fakeCommitter)(nil)
