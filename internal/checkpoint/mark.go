package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
)

// CommittedName is the name of the mark beside a snapshot's _metadata: all of
// its committables are committed.
const CommittedName = "_committed"

// mark is the content of CommittedName. It names the snapshot: an attempt that
// was paused may put its mark where its snapshot was deleted since, and another
// paused one has published a void snapshot of the same id.
type mark struct {
	Lineage string `json:"lineage"`
	Attempt int64  `json:"attempt"`
	ID      int64  `json:"id"`
	// Time is when it was put, in ms since the epoch.
	Time int64 `json:"time"`
}

func (m mark) encode() []byte {
	return fmt.Appendf(nil, "{\"lineage\": %q, \"attempt\": %d, \"id\": %d, \"time\": %d}\n", m.Lineage, m.Attempt, m.ID, m.Time)
}

// marks reports whether data is the mark of the snapshot.
func marks(data []byte, s Ref) bool {
	var m mark
	return json.Unmarshal(data, &m) == nil && s.same(Ref{Lineage: m.Lineage, Attempt: m.Attempt, ID: m.ID})
}

// putMark puts the mark of a snapshot into its directory.
func putMark(ctx context.Context, blobs storage.Blobs, dir string, s Ref, now int64) error {
	m := mark{Lineage: s.Lineage, Attempt: s.Attempt, ID: s.ID, Time: now}
	err := blobs.PutIfAbsent(ctx, path.Join(dir, CommittedName), m.encode())
	if !errors.Is(err, storage.ErrExists) {
		return err
	}
	ours, err := isMarked(ctx, blobs, dir, s)
	if err == nil && !ours {
		err = fmt.Errorf("%s in %s is that of another snapshot", path.Join(dir, CommittedName), blobs)
	}
	return err
}

// markRestored marks what the attempt has begun from, if all that it holds is
// committed by now: a start that can get no further, for its source is gone,
// say, must not keep --fresh from dropping it. Nothing depends on it.
func (a *Attempt) markRestored(ctx context.Context) {
	v := a.view()
	if len(a.open) == 0 || !v.owns(a.from.ref) || v.gaveUp(a.from.found) {
		return
	}
	if err := putMark(ctx, a.RestoredBlobs, a.RestoredDir, a.from.ref, a.now()); err != nil {
		a.log.Warn("what the job was restored from could not be marked as committed", "snapshot", a.from.ref.String(), "error", err)
	}
}

// MarkCommitted puts the mark of a snapshot in the storage of its job. It is for
// who has seen that all of its committables are committed.
func MarkCommitted(ctx context.Context, blobs storage.Blobs, s Ref, now time.Time) error {
	return putMark(ctx, blobs, s.Path, s, now.UnixMilli())
}

// isMarked reports whether the mark of a snapshot stands in its directory.
func isMarked(ctx context.Context, blobs storage.Blobs, dir string, s Ref) (bool, error) {
	data, err := blobs.Get(ctx, path.Join(dir, CommittedName))
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return marks(data, s), nil
}

// IsCommitted reports whether all committables of the snapshot m at dir are
// marked as committed.
func IsCommitted(ctx context.Context, blobs storage.Blobs, dir string, m *snapshot.Metadata) (bool, error) {
	return isMarked(ctx, blobs, dir, refOf(m, dir))
}
