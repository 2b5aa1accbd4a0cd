package checkpoint

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/internal/snapshot"
)

// Dispose deletes the savepoint at path, its directory or its _metadata, which
// o opens if it is a URL. What
// is no savepoint is refused: checkpoints are their job's to delete.
func Dispose(ctx context.Context, o Opener, path string) error {
	blobs, dir, err := OpenPath(ctx, o)(path)
	if err != nil {
		return fmt.Errorf("dispose of %s: %w", path, err)
	}
	m, err := snapshot.Load(ctx, blobs, dir)
	if err != nil {
		return fmt.Errorf("dispose of %s: %w", path, err)
	}
	if m.Kind != snapshot.Savepoint {
		return fmt.Errorf("dispose of %s: it is the %s %d of job %s and not a savepoint: the job deletes it as its retention says", path, m.Kind, m.ID, m.Job)
	}
	if err := deleteDirectory(ctx, blobs, dir); err != nil {
		return fmt.Errorf("dispose of %s: %w", path, err)
	}
	return nil
}
