package checkpoint

import (
	"errors"
	"fmt"
	"testing"

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
