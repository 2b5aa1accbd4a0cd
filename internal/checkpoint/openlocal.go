package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/internal/storage/location"
)

// OpenLocal is an OpenPath for snapshots in directories of this machine; path
// is that of the directory or of its _metadata. Its error wraps ErrNotSnapshot
// and storage.ErrNotFound where there is nothing: what is gone is not taken for
// damaged.
func OpenLocal(path string) (blobs storage.Blobs, dir string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	if filepath.Base(abs) == snapshot.MetadataName {
		abs = filepath.Dir(abs)
	}
	// A directory above it may be a file by now.
	if _, err := os.Stat(abs); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, "", fmt.Errorf("%w: %s does not exist (%w)", snapshot.ErrNotSnapshot, abs, storage.ErrNotFound)
	} else if err != nil {
		return nil, "", err
	}
	return file.New(filepath.Dir(abs)), filepath.Base(abs), nil
}

// Opener opens storages by directories and URLs.
type Opener interface {
	Open(ctx context.Context, where string) (storage.Blobs, error)
}

// OpenPath returns an OpenPath for directories of this machine and for the URLs
// that o knows.
func OpenPath(ctx context.Context, o Opener) func(path string) (blobs storage.Blobs, dir string, err error) {
	return func(path string) (storage.Blobs, string, error) {
		if !location.IsURL(path) {
			return OpenLocal(strings.TrimPrefix(path, "file://"))
		}
		parent, dir, err := location.Split(path)
		if err == nil && dir == snapshot.MetadataName {
			parent, dir, err = location.Split(parent)
		}
		if err != nil {
			return nil, "", err
		}
		blobs, err := o.Open(ctx, parent)
		return blobs, dir, err
	}
}

// sameStorage reports whether two names of storages are of one: a directory may
// have several, by symbolic links or mounts.
func sameStorage(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
