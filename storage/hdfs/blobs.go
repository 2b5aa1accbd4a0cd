package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"github.com/weirstream/weir/internal/storage"
)

const (
	// tempPrefix marks what is under construction. Names of blobs have no
	// element that begins with a dot.
	tempPrefix = ".tmp-"
	// contentName is the file that holds the content of a blob that
	// PutIfAbsent wrote, in a directory of the blob's name: the rename of a
	// directory fails where another one is that is not empty, the one of a file
	// replaces a file. So it alone tells, in one step, that a name is taken.
	contentName = ".blob"
	dirMode     = 0o755
	// makes is how often a file is made in a directory that another process
	// removes for being empty.
	makes = 100
	// replicates is how long the last block of a file may take to be stored.
	replicates = time.Minute
)

// blobs is a storage below a directory.
type blobs struct {
	name, root string
	options    hdfs.ClientOptions

	mu     sync.Mutex
	client *hdfs.Client // nil until it is used
}

var (
	_ storage.Blobs = (*blobs)(nil)
	_ io.Closer     = (*blobs)(nil)
)

func newBlobs(u *url.URL, o hdfs.ClientOptions) (*blobs, error) {
	where := *u
	where.RawQuery = ""
	root := path.Clean("/" + u.Path)
	for _, part := range strings.Split(root, "/") {
		if strings.Contains(part, ":") {
			return nil, fmt.Errorf("%s: HDFS takes no colon in a path", where.String())
		}
	}
	return &blobs{name: where.String(), root: root, options: o}, nil
}

// String returns the URL.
func (b *blobs) String() string { return b.name }

// Close ends the connection.
func (b *blobs) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client == nil {
		return nil
	}
	c := b.client
	b.client = nil
	return c.Close()
}

// connect returns the client; ctx must not have ended.
func (b *blobs) connect(ctx context.Context) (*hdfs.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client == nil {
		c, err := hdfs.NewClient(b.options)
		if err != nil {
			return nil, b.unreached(err)
		}
		// The client remembers them without a lock.
		if _, err := c.ServerDefaults(); err != nil {
			_ = c.Close() // mostly that is closed already
			return nil, b.unreached(err)
		}
		b.client = c
	}
	return b.client, nil
}

// unreached says what to do where no NameNode answers as one would.
func (b *blobs) unreached(err error) error {
	return fmt.Errorf("no NameNode answers at %s: it is down, or correct the address: it is that of its RPC, as in fs.defaultFS, and not of its web page: %w",
		strings.Join(b.options.Addresses, ", "), err)
}

// HDFS takes no colon in the name of a file.
var (
	escaper   = strings.NewReplacer("%", "%25", ":", "%3A")
	unescaper = strings.NewReplacer("%25", "%", "%3A", ":")
)

// open checks a name and returns its path and a client.
func (b *blobs) open(ctx context.Context, name string) (c *hdfs.Client, file string, err error) {
	if err := storage.CheckName(name); err != nil {
		return nil, "", err
	}
	c, err = b.connect(ctx)
	if err != nil {
		return nil, "", b.failed("reach", name, err)
	}
	return c, b.path(name), nil
}

func (b *blobs) path(name string) string { return path.Join(b.root, escaper.Replace(name)) }

// failed says what failed, and what the error means. It is the one place that
// decides.
func (b *blobs) failed(what, name string, err error) error {
	where := b.name
	if name != "" {
		where += "/" + name
	}
	switch {
	case notFound(err):
		return fmt.Errorf("%s: %w", where, storage.ErrNotFound)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s %s: access is denied to user %s: have the directory made over to that user (hdfs dfs -chown), or name another one (hdfs://USER@…, HADOOP_USER_NAME): %w: %w",
			what, where, b.options.User, storage.ErrFatal, err)
	case strings.Contains(err.Error(), "kerberos enabled"):
		return fmt.Errorf("%s %s: the cluster wants Kerberos: pass hdfs.Storage an option that sets KerberosClient: %w: %w", what, where, storage.ErrFatal, err)
	}
	return fmt.Errorf("%s %s: %w", what, where, storage.BrokenOff(err))
}

// notFound reports whether there is no file of a name, for example because
// there is one where a directory would be.
func notFound(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || strings.Contains(fmt.Sprint(err), "ParentNotDirectoryException") || strings.Contains(fmt.Sprint(err), "is not a directory")
}

// Put implements storage.Blobs.
func (b *blobs) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	c, final, err := b.open(ctx, name)
	if err != nil {
		return err
	}
	err = b.put(ctx, c, final, write)
	if err != nil {
		b.removeEmpty(c, path.Dir(final)) // made for nothing
		return b.failedWrite(name, err)
	}
	return nil
}

// failedWrite is failed for an operation that looks for nothing.
func (b *blobs) failedWrite(name string, err error) error {
	if errors.Is(err, fs.ErrPermission) || !notFound(err) {
		return b.failed("write", name, err)
	}
	return fmt.Errorf("write %s/%s: %w", b.name, name, storage.BrokenOff(err))
}

func (b *blobs) put(ctx context.Context, c *hdfs.Client, final string, write func(io.Writer) error) error {
	temp := path.Join(path.Dir(final), newTemp())
	if err := b.writeFile(ctx, c, temp, write); err != nil {
		_ = c.Remove(temp) // else RemoveStale does
		return err
	}
	err := c.Rename(temp, final)
	if err != nil && isDir(c, final) {
		// It was written by PutIfAbsent.
		if err = b.delete(c, final); err == nil {
			err = c.Rename(temp, final)
		}
	}
	if err != nil {
		_ = c.Remove(temp)
	}
	return err
}

func newTemp() string { return fmt.Sprintf("%s%016x", tempPrefix, rand.Uint64()) }

func isDir(c *hdfs.Client, name string) bool {
	info, err := c.Stat(name)
	return err == nil && info.IsDir()
}

// writeFile makes a file, and its directory.
func (b *blobs) writeFile(ctx context.Context, c *hdfs.Client, name string, write func(io.Writer) error) error {
	f, err := create(c, name)
	if err != nil {
		return err
	}
	w := &cancelWriter{ctx, f}
	err = write(w)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = f.Close() // its lease ends with it
		return err
	}
	return closeFile(ctx, f)
}

// create makes a file. Whoever removes the directory, because it is empty, may
// come in between.
func create(c *hdfs.Client, name string) (*hdfs.FileWriter, error) {
	for attempt := 1; ; attempt++ {
		err := c.MkdirAll(path.Dir(name), dirMode)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		f, err := c.Create(name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || attempt == makes {
			return f, err
		}
	}
}

// closeFile closes a file, which may take until its last block is replicated.
func closeFile(ctx context.Context, f *hdfs.FileWriter) error {
	ctx, cancel := context.WithTimeout(ctx, replicates)
	defer cancel()
	pause := 5 * time.Millisecond
	for {
		err := f.Close()
		if !hdfs.IsErrReplicating(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
}

// cancelWriter ends with its context.
type cancelWriter struct {
	ctx context.Context
	w   io.Writer
}

func (w *cancelWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil || len(p) == 0 {
		return 0, err // the client would begin a block that never fills
	}
	return w.w.Write(p)
}

// PutIfAbsent implements storage.Blobs.
func (b *blobs) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	c, final, err := b.open(ctx, name)
	if err != nil {
		return err
	}
	temp := path.Join(path.Dir(final), newTemp())
	err = b.writeFile(ctx, c, path.Join(temp, contentName), func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err == nil {
		if err = c.Rename(temp, final); err == nil {
			return nil
		}
		err = b.taken(c, temp, final, data, err)
	}
	_ = c.RemoveAll(temp)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrExists):
		return fmt.Errorf("%s/%s: %w", b.name, name, err)
	}
	b.removeEmpty(c, path.Dir(final))
	return b.failedWrite(name, err)
}

// taken tells what the failure of a rename means. The answer to one that was
// done may have been lost: then what was to be renamed is there no more.
func (b *blobs) taken(c *hdfs.Client, temp, final string, data []byte, failure error) error {
	info, err := contentOf(c, final)
	switch {
	case notFound(err):
		return failure
	case err != nil:
		return errors.Join(failure, err)
	}
	if _, err := c.Stat(temp); errors.Is(err, os.ErrNotExist) {
		if stored, err := readFile(c, info, 0, -1); err == nil && string(stored) == string(data) {
			return nil
		}
	}
	return storage.ErrExists
}
