package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

// twoCheckpoints is the storage of a job that took checkpoints 1 and 2, each
// with a data file.
func twoCheckpoints(t *testing.T) *mem.Blobs {
	t.Helper()
	blobs := mem.New()
	a, err := Start(t.Context(), StartOptions{Job: "job", Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	for id := range int64(2) {
		dir := snapshot.CheckpointDir("job", id+1)
		f, err := putFile(t.Context(), blobs, dir, "count-0-a1")
		if err != nil {
			t.Fatal(err)
		}
		m := &snapshot.Metadata{Job: "job", Lineage: a.Lineage, Attempt: a.Number, ID: id + 1, Kind: snapshot.Checkpoint, Files: []snapshot.File{f}}
		if err := snapshot.Store(t.Context(), blobs, dir, m); err != nil {
			t.Fatal(err)
		}
	}
	return blobs
}

// rewriteBlob replaces what a blob holds.
func rewriteBlob(t *testing.T, blobs storage.Blobs, name string, edit func([]byte) []byte) {
	t.Helper()
	data, err := blobs.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	data = edit(bytes.Clone(data))
	err = blobs.Put(t.Context(), name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func flipLastBit(b []byte) []byte {
	b[len(b)-1] ^= 1
	return b
}

func wantRefusal(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !errors.Is(err, ErrRefused) || !Fatal(err) {
		t.Fatalf("got %v, want a refusal", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// ledgerKinds are the kinds of the records in the ledger of the job.
func ledgerKinds(t *testing.T, blobs storage.Blobs) string {
	t.Helper()
	l := newLedger(blobs, "job")
	if err := l.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, r := range l.records {
		kinds = append(kinds, string(r.Kind))
	}
	return strings.Join(kinds, " ")
}

// A flipped bit in a data file, its size unchanged, is found before the start
// is recorded.
func TestFlippedBitInNewestDataFile(t *testing.T) {
	const file = "job/chk-2/count-0-a1"
	t.Run("goes back without exactly-once sinks", func(t *testing.T) {
		blobs := twoCheckpoints(t)
		rewriteBlob(t, blobs, file, flipLastBit)
		var log bytes.Buffer
		a, err := Start(t.Context(), StartOptions{Job: "job", Blobs: blobs, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if a.RestoredDir != "job/chk-1" || a.NextID != 3 {
			t.Errorf("began from %s, next id %d", a.RestoredDir, a.NextID)
		}
		if text := log.String(); !strings.Contains(text, "WARN") || !strings.Contains(text, file) || !strings.Contains(text, "going back to the one before") {
			t.Errorf("log: %s", text)
		}
	})
	t.Run("is refused with exactly-once sinks", func(t *testing.T) {
		blobs := twoCheckpoints(t)
		rewriteBlob(t, blobs, file, flipLastBit)
		_, err := Start(t.Context(), StartOptions{Job: "job", Blobs: blobs, ExactlyOnceSinks: true})
		wantRefusal(t, err, file, "job/chk-2", "restore its files from a backup, which costs nothing", "go back to job/chk-1", "-s memory:/job/chk-1 --rewind", "would publish again")
		if got := ledgerKinds(t, blobs); got != "claim restored claim" {
			t.Errorf("ledger: %s", got)
		}
	})
	t.Run("is refused where -s names it", func(t *testing.T) {
		blobs := twoCheckpoints(t)
		rewriteBlob(t, blobs, file, flipLastBit)
		elsewhere := mem.New()
		if err := blobs.List(t.Context(), "job/chk-2/", func(name string, _ int64) error {
			data, err := blobs.Get(t.Context(), name)
			if err != nil {
				return err
			}
			return elsewhere.Put(t.Context(), name, func(w io.Writer) error { _, err := w.Write(data); return err })
		}); err != nil {
			t.Fatal(err)
		}
		for name, from := range map[string]storage.Blobs{"its own": blobs, "a copy": elsewhere} {
			for _, into := range []storage.Blobs{blobs, mem.New()} {
				_, err := Start(t.Context(), StartOptions{Job: "job", Blobs: into, RestorePath: "/there", Rewind: true,
					OpenPath: func(string) (storage.Blobs, string, error) { return from, "job/chk-2", nil }})
				wantRefusal(t, err, "-s /there", file)
				if got := ledgerKinds(t, into); strings.HasSuffix(got, "restored") {
					t.Errorf("%s: ledger %s", name, got)
				}
			}
		}
	})
}

func deleteLedger(t *testing.T, blobs storage.Blobs) {
	t.Helper()
	for n := range 2 {
		if err := blobs.Delete(t.Context(), fmt.Sprintf("job/ledger/%010d", n+1)); err != nil {
			t.Fatal(err)
		}
	}
}

// A job whose ledger was deleted does not begin from nothing unasked.
func TestLedgerDeletedBetweenStarts(t *testing.T) {
	blobs := twoCheckpoints(t)
	deleteLedger(t, blobs)
	o := StartOptions{Job: "job", Blobs: blobs, ExactlyOnceSinks: true,
		OpenPath: func(string) (storage.Blobs, string, error) { return blobs, "job/chk-2", nil }}
	for range 2 {
		_, err := Start(t.Context(), o)
		wantRefusal(t, err, "job/ledger", "job/chk-1 (id 1), job/chk-2 (id 2)", "Restore the ledger", "-s PATH", "--fresh", "publishes everything again")
	}
	if got := ledgerKinds(t, blobs); got != "" {
		t.Errorf("a refused start wrote %s", got)
	}
	// A start that only claimed the job changes nothing about that.
	claimed := newLedger(blobs, "job")
	if err := claimed.append(t.Context(), Record{Version: RecordVersion, Kind: ClaimRecord, Attempt: 1, Lineage: "M"}); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), o)
	wantRefusal(t, err, "job/chk-1 (id 1), job/chk-2 (id 2)")

	o.RestorePath = "/weir/job/chk-2"
	a, err := Start(t.Context(), o)
	if err != nil || a.RestoredDir != "job/chk-2" || a.NextID != 3 {
		t.Fatalf("with -s: %+v, %v", a, err)
	}
	o.RestorePath = ""
	if a, err = Start(t.Context(), o); err != nil || a.RestoredDir != "job/chk-2" {
		t.Errorf("the start after -s: %+v, %v", a, err)
	}
}

// An older copy of the ledger, put back, lacks the start that wrote the newest
// snapshots: nothing begins from older ones, or counts attempts anew.
func TestOlderLedgerPutBack(t *testing.T) {
	for name, records := range map[string]int{"before the claim": 2, "after the claim": 3} {
		t.Run(name, func(t *testing.T) {
			j := newLossJob(t)
			j.publish(1, nil)
			j.mustStart(StartOptions{})
			j.publish(2, nil, "2.0")
			for n := 4; n > records; n-- {
				if err := j.blobs.Delete(t.Context(), fmt.Sprintf("job/ledger/%010d", n)); err != nil {
					t.Fatal(err)
				}
			}
			before := ledgerKinds(t, j.blobs)
			for _, o := range []StartOptions{{}, {RestorePath: "memory:/job/chk-2"}, {RestorePath: "memory:/job/chk-1", Rewind: true}} {
				wantRefusal(t, j.start(o), "knows nothing of attempt 2, which wrote job/chk-2 (id 2, attempt 2)", "Restore the ledger as it was, which costs nothing", "or delete it, and then begin from one of them with -s PATH")
			}
			if got := ledgerKinds(t, j.blobs); got != before {
				t.Errorf("refused starts wrote to the ledger: %s", got)
			}
			look := j.look(false)
			if s := look.Snapshots[1]; look.Next.Does != IsRefused || !look.Next.Ledger || !strings.Contains(s.Void, "knows nothing of attempt 2") || s.Restore != "" || look.Snapshots[0].Restore != "" {
				t.Errorf("the look: %+v, snapshot %+v", look.Next, s)
			}
			// A lineage of its own counts attempts for itself.
			j.mustStart(StartOptions{Fresh: true})
			if j.a.Restored != nil || j.a.NextID != 3 {
				t.Errorf("fresh: from %+v, next id %d", j.a.Restored, j.a.NextID)
			}
			j.mustStart(StartOptions{})
		})
	}
}

func TestLedgerDeletedThenFresh(t *testing.T) {
	blobs := twoCheckpoints(t)
	deleteLedger(t, blobs)
	a, err := Start(t.Context(), StartOptions{Job: "job", Blobs: blobs, Fresh: true})
	if err != nil || a.Restored != nil || a.NextID != 3 {
		t.Errorf("%+v, %v", a, err)
	}
}

// Nobody knows what a snapshot that cannot be read has published: one before it
// lies behind it.
func TestBackBehindWhatCannotBeRead(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil, "1.0")
	j.publish(2, nil, "2.0")
	j.publish(3, nil, "3.0")
	rewriteBlob(t, j.blobs, "job/chk-3/_metadata", flipLastBit)
	wantRefusal(t, j.start(StartOptions{RestorePath: "memory:/job/chk-2"}), "job/chk-2 (id 2, attempt 1) lies behind job/chk-3 (id 3)", "--rewind")
	if s := j.look(false).Snapshots[1]; s.Restore != "-s memory:/job/chk-2 --rewind" || !strings.Contains(s.Cost, "lies behind job/chk-3") {
		t.Errorf("offered by %q, which costs %q", s.Restore, s.Cost)
	}
	j.mustStart(StartOptions{RestorePath: "memory:/job/chk-2", Rewind: true})

	// One before it does not lie behind an older one.
	j = newLossJob(t)
	j.publish(1, nil, "1.0")
	j.publish(2, nil, "2.0")
	rewriteBlob(t, j.blobs, "job/chk-1/_metadata", flipLastBit)
	j.mustStart(StartOptions{RestorePath: "memory:/job/chk-2"})
}

// Without a ledger nothing is known to be void: one before the newest lies
// behind it.
func TestBackWithoutLedger(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil)
	j.publish(2, nil)
	deleteLedger(t, j.blobs)
	wantRefusal(t, j.start(StartOptions{RestorePath: "memory:/job/chk-1"}), "job/chk-1 (id 1, attempt 1) lies behind job/chk-2", "--rewind")
	if s := j.look(false).Snapshots[0]; s.Restore != "-s memory:/job/chk-1 --rewind" {
		t.Errorf("offered by %q", s.Restore)
	}
	j.mustStart(StartOptions{RestorePath: "memory:/job/chk-2"})
}

// Damage to the ledger does not pass: a restart strategy must not wait for it.
func TestDamagedLedgerIsFatal(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, blobs storage.Blobs){
		"gap": func(t *testing.T, blobs storage.Blobs) {
			if err := blobs.Delete(t.Context(), "job/ledger/0000000001"); err != nil {
				t.Fatal(err)
			}
		},
		"garbage": func(t *testing.T, blobs storage.Blobs) {
			rewriteBlob(t, blobs, "job/ledger/0000000002", func([]byte) []byte { return []byte("this is none of the job's records\n") })
		},
		"empty": func(t *testing.T, blobs storage.Blobs) {
			rewriteBlob(t, blobs, "job/ledger/0000000002", func([]byte) []byte { return nil })
		},
		"checksum": func(t *testing.T, blobs storage.Blobs) {
			rewriteBlob(t, blobs, "job/ledger/0000000002", func(b []byte) []byte { b[5] ^= 1; return b })
		},
	} {
		t.Run(name, func(t *testing.T) {
			blobs := twoCheckpoints(t)
			running := newLedger(blobs, "job")
			if err := running.load(t.Context()); err != nil {
				t.Fatal(err)
			}
			damage(t, blobs)
			_, err := Start(t.Context(), StartOptions{Job: "job", Blobs: blobs})
			if !Fatal(err) || !strings.Contains(err.Error(), "ledger") || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "Restore it from a backup, which costs nothing") {
				t.Errorf("start: %v, fatal %v", err, Fatal(err))
			}
			if err := running.stillNewest(t.Context(), 1); name != "gap" && !Fatal(err) {
				t.Errorf("running attempt: %v", err)
			}
		})
	}
}

// What -s names is not taken from the job's own directory where that is damaged
// there, neither at once nor by the starts that follow.
func TestBeginsFromAWholeCopyOfADamagedSnapshot(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, blobs storage.Blobs){
		"bit of a data file": func(t *testing.T, blobs storage.Blobs) {
			rewriteBlob(t, blobs, "job/chk-2/count-0-a1", flipLastBit)
		},
		"data file": func(t *testing.T, blobs storage.Blobs) {
			if err := blobs.Delete(t.Context(), "job/chk-2/count-0-a1"); err != nil {
				t.Fatal(err)
			}
		},
		"_metadata": func(t *testing.T, blobs storage.Blobs) { rewriteBlob(t, blobs, "job/chk-2/_metadata", flipLastBit) },
	} {
		t.Run(name, func(t *testing.T) {
			j := &lossJob{T: t, blobs: twoCheckpoints(t)}
			for name, data := range contents(t, j.blobs) {
				if rest, ok := strings.CutPrefix(name, "job/chk-2/"); ok {
					if err := j.blobs.PutIfAbsent(t.Context(), "copy/"+rest, []byte(data)); err != nil {
						t.Fatal(err)
					}
				}
			}
			damage(t, j.blobs)
			again := StartOptions{RestorePath: "memory:/copy"}
			for _, o := range []StartOptions{again, again, {}} {
				j.mustStart(o)
				if j.a.RestoredDir != "copy" || j.a.Restored.ID != 2 {
					t.Errorf("attempt %d began from %s", j.a.Number, j.a.RestoredDir)
				}
			}
			line := j.look(true)
			if next := line.Next; next.Does != GoesOn || next.From.Path != "memory:/copy" {
				t.Errorf("next start: %+v", next)
			}
			var marked []string
			for _, s := range line.Snapshots {
				if s.Next {
					marked = append(marked, s.Path)
				}
			}
			wantStrings(t, "goes on from", marked, "memory:/copy")
		})
	}
}
