package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/location"
)

// staleAge is how long ago what was left unfinished on a storage without locks
// must have begun to be removed: another process may be at work there.
const staleAge = 24 * time.Hour

// settlePlaces checks the directories and URLs of the options and brings them
// into the form in which they stand in the ledger. It opens nothing.
func settlePlaces(o *Options) (*location.Opener, error) {
	opener := location.NewOpener(o.Schemes...)
	for _, place := range []struct {
		what  string
		where *string
	}{
		{"checkpoint directory", &o.Checkpoint.Dir},
		{"savepoint directory", &o.Checkpoint.SavepointDir},
		{"restore path", &o.RestorePath},
	} {
		if *place.where == "" || *place.where == checkpoint.Memory {
			continue
		}
		settled, err := opener.Check(*place.where)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place.what, err)
		}
		*place.where = settled
	}
	return opener, nil
}

// probe finds out, once, whether the storage at a URL can bear the ledger, and
// removes what processes that were killed long ago left unfinished there.
func (j *Job) probe(ctx context.Context, blobs storage.Blobs) error {
	if j.probed || j.opts.Storage != nil || !location.IsURL(j.opts.Checkpoint.Dir) {
		return nil
	}
	if err := storage.Probe(ctx, blobs, j.graph.Job); err != nil {
		return fmt.Errorf("checkpoint directory %s, job %q: %w", j.opts.Checkpoint.Dir, j.graph.Job, err)
	}
	j.probed = true
	stale, ok := blobs.(interface {
		RemoveStale(ctx context.Context, prefix string, before time.Time) (int, error)
	})
	if !ok {
		return nil
	}
	if n, err := stale.RemoveStale(ctx, j.graph.Job, time.Now().Add(-staleAge)); err != nil {
		j.log.Warn("removing what killed processes left unfinished", "storage", blobs, "error", err)
	} else if n > 0 {
		j.log.Info("removed what killed processes left unfinished", "storage", blobs, "count", n)
	}
	return nil
}

func (j *Job) closeStorages() {
	if err := j.opener.Close(); err != nil {
		j.log.Warn("closing storages", "error", err)
	}
}
