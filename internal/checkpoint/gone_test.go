package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/internal/storage/mem"
)

// TestLedgerGone deletes the job's directory under a running attempt: it
// completes nothing more, and a restart does not begin from nothing.
func TestLedgerGone(t *testing.T) {
	for name, replaced := range map[string]bool{"deleted": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			blobs := mem.New()
			start := func(pid int, after int64) (*Attempt, error) {
				return Start(t.Context(), StartOptions{Job: "job", Blobs: blobs, Host: "h", PID: pid, After: after, Now: func() int64 { return int64(pid) }})
			}
			var a *Attempt
			for after := range int64(2) {
				var err error
				if a, err = start(1, after); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.StillNewest(t.Context()); err != nil {
				t.Fatalf("while the ledger stands: %v", err)
			}
			for n := range 4 {
				if err := blobs.Delete(t.Context(), fmt.Sprintf("job/ledger/%010d", n+1)); err != nil {
					t.Fatal(err)
				}
			}
			if replaced {
				for range 2 {
					if _, err := start(2, 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := a.StillNewest(t.Context()); !errors.Is(err, errLedgerGone) {
				t.Errorf("checking the claim: %v", err)
			}
			if err := a.record(t.Context(), StoppingRecord, nil, ""); !errors.Is(err, errLedgerGone) {
				t.Errorf("appending: %v", err)
			}
			if replaced {
				return
			}
			if _, err := start(1, a.Number); !errors.Is(err, ErrRefused) {
				t.Errorf("restart: %v", err)
			}
			if err := blobs.List(t.Context(), "job/", func(name string, _ int64) error { return errors.New(name) }); err != nil {
				t.Errorf("written: %v", err)
			}
		})
	}
}

// What a start named is gone as well where a directory above it has become a
// file: it is refused and not tried again. What one is not let into stays the
// job's, and the rest of the picture is seen.
func TestSnapshotElsewhereIsGone(t *testing.T) {
	root := t.TempDir()
	elsewhere := filepath.Join(root, "backup", "chk-2")
	blobs := file.New(filepath.Join(root, "weir"))
	start := func(path string) error {
		_, err := Start(t.Context(), StartOptions{Job: "job", Blobs: blobs, RestorePath: path, OpenPath: OpenLocal, ExactlyOnceSinks: true})
		return err
	}
	m := &snapshot.Metadata{Job: "other", Lineage: "M", Attempt: 1, ID: 2, Kind: snapshot.Final}
	if err := errors.Join(snapshot.Store(t.Context(), file.New(filepath.Dir(elsewhere)), "chk-2", m), start(elsewhere)); err != nil {
		t.Fatal(err)
	}
	look := func(open func(string) (storage.Blobs, string, error)) *Timeline {
		t.Helper()
		line, err := Look(t.Context(), LookOptions{Job: "job", Blobs: blobs, OpenPath: open})
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	locked := look(func(string) (storage.Blobs, string, error) { return nil, "", fs.ErrPermission })
	if n := locked.Next; n.Does != CannotBeTold || n.From.Path != elsewhere || len(locked.Attempts) != 1 {
		t.Errorf("where it is not let in: %+v", n)
	}

	if err := errors.Join(os.RemoveAll(filepath.Dir(elsewhere)), os.WriteFile(filepath.Dir(elsewhere), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, start(""), "the ledger names "+elsewhere, "and it is gone", "put it back")
	wantRefusal(t, start(filepath.Join(root, "backup")), "not a snapshot")
	if n := look(OpenLocal).Next; n.Does != IsRefused || !strings.Contains(n.Why, "it is gone") {
		t.Errorf("next start: %+v", n)
	}
}
