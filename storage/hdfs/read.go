package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"github.com/weirstream/weir/internal/storage"
)

// contentFile is a file that holds the content of a blob.
type contentFile struct {
	path string
	size int64
}

// contentOf finds the content of the blob at a path.
func contentOf(c *hdfs.Client, file string) (contentFile, error) {
	info, err := c.Stat(file)
	if err == nil && info.IsDir() {
		file = path.Join(file, contentName)
		info, err = c.Stat(file)
	}
	if err != nil {
		return contentFile{}, err
	}
	return contentFile{file, info.Size()}, nil
}

// readFile reads n bytes at off, to the end if n is negative.
func readFile(c *hdfs.Client, f contentFile, off, n int64) ([]byte, error) {
	if n < 0 {
		n = f.size - off
	}
	r, err := c.Open(f.path)
	if err != nil {
		return nil, err
	}
	data := make([]byte, n)
	_, err = io.ReadFull(io.NewSectionReader(r, off, n), data)
	return data, errors.Join(err, r.Close())
}

// Get implements storage.Blobs.
func (b *blobs) Get(ctx context.Context, name string) ([]byte, error) {
	return b.read(ctx, name, func(size int64) (off, n int64, err error) { return 0, size, nil })
}

// GetRange implements storage.Blobs.
func (b *blobs) GetRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	return b.read(ctx, name, func(size int64) (int64, int64, error) {
		// Checked before the allocation: n may come from a damaged file.
		if off < 0 || n < 0 || off > size || n > size-off {
			return 0, 0, fmt.Errorf("%d bytes at %d of %d: %w", n, off, size, storage.ErrPastEnd)
		}
		return off, n, nil
	})
}

func (b *blobs) read(ctx context.Context, name string, part func(size int64) (off, n int64, err error)) ([]byte, error) {
	c, file, err := b.open(ctx, name)
	if err != nil {
		return nil, err
	}
	content, err := contentOf(c, file)
	if err != nil {
		return nil, b.failed("read", name, err)
	}
	off, n, err := part(content.size)
	if err != nil {
		return nil, b.failed("read", name, err)
	}
	if n == 0 {
		return []byte{}, nil
	}
	data, err := readFile(c, content, off, n)
	if err != nil {
		return nil, b.failed("read", name, err)
	}
	return data, nil
}

// List implements storage.Blobs.
func (b *blobs) List(ctx context.Context, prefix string, fn func(name string, size int64) error) error {
	dir := strings.TrimSuffix(prefix, "/")
	if dir != "" {
		if err := storage.CheckName(dir); err != nil {
			return err
		}
	}
	c, err := b.connect(ctx)
	if err != nil {
		return b.failed("list", dir, err)
	}
	var found []entry
	err = walk(ctx, c, b.path(dir), func(e entry) { found = append(found, e) })
	if err != nil {
		return b.failed("list", dir, err)
	}
	var blobs []entry
	for _, e := range found {
		name := strings.TrimPrefix(strings.TrimPrefix(e.path, b.root), "/")
		e.path = unescaper.Replace(strings.TrimSuffix(name, "/"+contentName))
		if storage.CheckName(e.path) == nil && e.path != dir {
			blobs = append(blobs, e)
		}
	}
	slices.SortFunc(blobs, func(x, y entry) int { return strings.Compare(x.path, y.path) })
	for _, e := range blobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(e.path, e.size); err != nil {
			return err
		}
	}
	return nil
}

// entry is a file.
type entry struct {
	path    string
	size    int64
	changed time.Time
	temp    bool
}

// walk tells of the files below a directory, and of what is under
// construction, as a whole. What is removed meanwhile is passed over.
func walk(ctx context.Context, c *hdfs.Client, dir string, fn func(entry)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	infos, err := readDir(c, dir)
	if err != nil {
		return err
	}
	for _, info := range infos {
		e := entry{path.Join(dir, info.Name()), info.Size(), info.ModTime(), strings.HasPrefix(info.Name(), tempPrefix)}
		if info.IsDir() && !e.temp {
			if err := walk(ctx, c, e.path, fn); err != nil {
				return err
			}
			continue
		}
		fn(e)
	}
	return nil
}

// readDir lists a directory; what is none is empty.
func readDir(c *hdfs.Client, dir string) ([]os.FileInfo, error) {
	d, err := c.Open(dir)
	if err == nil {
		if !d.Stat().IsDir() {
			return nil, d.Close()
		}
		var infos []os.FileInfo
		infos, err = d.Readdir(0)
		if err = errors.Join(err, d.Close()); err == nil {
			return infos, nil
		}
	}
	if notFound(err) {
		return nil, nil
	}
	return nil, err
}

// Delete implements storage.Blobs. Directories that become empty go, too.
func (b *blobs) Delete(ctx context.Context, name string) error {
	c, file, err := b.open(ctx, name)
	if err != nil {
		return err
	}
	if err := b.delete(c, file); err != nil && !notFound(err) {
		return b.failed("delete", name, err)
	}
	b.removeEmpty(c, path.Dir(file))
	return nil
}

func (b *blobs) delete(c *hdfs.Client, file string) error {
	content, err := contentOf(c, file)
	if err != nil {
		return err
	}
	if err := c.Remove(content.path); err != nil {
		return err
	}
	if content.path != file {
		b.removeEmpty(c, file)
	}
	return nil
}

// removeEmpty removes a directory and its parents below the root as far as
// they are empty. Writers make them anew if they need to.
func (b *blobs) removeEmpty(c *hdfs.Client, dir string) {
	// Remove fails for a directory that is not empty, but removes a file.
	for dir != b.root && strings.HasPrefix(dir, b.root) && isDir(c, dir) && c.Remove(dir) == nil {
		dir = path.Dir(dir)
	}
}

// RemoveStale removes what processes that are gone left under construction: all
// below prefix that was last written before the given time.
func (b *blobs) RemoveStale(ctx context.Context, prefix string, before time.Time) (int, error) {
	c, err := b.connect(ctx)
	if err != nil {
		return 0, b.failed("look for unfinished files in", prefix, err)
	}
	var stale []string
	err = walk(ctx, c, b.path(prefix), func(e entry) {
		if e.temp && e.changed.Before(before) {
			stale = append(stale, e.path)
		}
	})
	removed := 0
	for _, name := range stale {
		if err != nil {
			break
		}
		if err = c.RemoveAll(name); err == nil {
			removed++
			b.removeEmpty(c, path.Dir(name))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return removed, b.failed("look for unfinished files in", prefix, err)
	}
	return removed, nil
}
