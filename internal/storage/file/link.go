package file

import (
	"context"
	"os"
)

// Link makes a blob known under a path on the same file system, outside of the
// storage, where it stays when the blob is deleted. Nobody may write to it.
func (b *Blobs) Link(ctx context.Context, name, path string) error {
	from, err := b.path(ctx, name)
	if err != nil {
		return err
	}
	return os.Link(from, path)
}
