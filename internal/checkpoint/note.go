package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/weirstream/weir/internal/storage"
)

// refusedName is the file in a job's directory that says why the last start
// that was refused was so: for people who look later. Nothing depends on it,
// and it may be lost.
const refusedName = "refused"

// refusedNote is its content.
type refusedNote struct {
	Version int   `json:"version"`
	Attempt int64 `json:"attempt"`
	// Time is in ms since the epoch.
	Time int64  `json:"time"`
	Why  string `json:"why"`
	// Losses is the snapshot that holds what is lost, nil if that is not why.
	Losses *Ref `json:"losses,omitempty"`
}

// noteRefusal leaves word of a refusal that came after the claim, or of what
// does not fit and will not by itself.
func (s *start) noteRefusal(ctx context.Context, err error) {
	if !Fatal(err) || errors.Is(err, ErrFinished) || fenced(err) || s.claim.Attempt == 0 {
		return
	}
	n := refusedNote{Version: 1, Attempt: s.claim.Attempt, Time: s.Now(), Why: whyRefused(err)}
	var loss *LossError
	if errors.As(err, &loss) {
		n.Losses = &loss.Snapshot
	}
	data, failed := json.MarshalIndent(n, "", "  ")
	if failed == nil {
		failed = s.Blobs.Put(ctx, path.Join(s.Job, refusedName), func(w io.Writer) error {
			_, err := w.Write(append(data, '\n'))
			return err
		})
	}
	if failed != nil {
		s.Logger.Warn("that the start was refused could not be noted for weir checkpoints", "error", failed)
	}
}

// readRefusal returns nil if there is no note, or none that can be read.
func readRefusal(ctx context.Context, blobs storage.Blobs, job string) (*refusedNote, error) {
	data, err := blobs.Get(ctx, path.Join(job, refusedName))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read why the last start was refused: %w", err)
	}
	n := &refusedNote{}
	if err := json.Unmarshal(data, n); err != nil || n.Version != 1 {
		return nil, nil //nolint:nilerr // nothing depends on it
	}
	return n, nil
}

// addRefusal puts the note where it belongs: it counts for its attempt and, if
// that is the newest, for the next start that goes on from the same snapshot.
func (t *Timeline) addRefusal(n *refusedNote) {
	if n == nil {
		return
	}
	i := slices.IndexFunc(t.Attempts, func(a TimelineAttempt) bool { return a.Attempt == n.Attempt })
	if i < 0 {
		return
	}
	at := timeOf(n.Time)
	a := &t.Attempts[i]
	a.End, a.Ended, a.Refused = "refused", &at, n.Why
	if i == len(t.Attempts)-1 && t.Next.From != nil && n.Losses != nil && n.Losses.same(*t.Next.From) {
		t.Next.Last, t.Next.Why = n.Attempt, n.Why
	}
}
