package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirstream/weir/internal/storage"
)

// LockName is the name of the lock file in a locked directory. It stays when
// the lock is released: the lock is held by a process, not by the file.
const LockName = ".lock"

// LockedError says that another process, or another part of this one, holds
// the lock of a directory.
type LockedError struct {
	// Dir is the directory.
	Dir string
	// Holder names the holder, "host build-7, pid 4711", as it wrote it down
	// itself; "" if it could not be read.
	Holder string
}

func (e *LockedError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "unknown"
	}
	return fmt.Sprintf("%s is in use by another process (%s); stop it first, or use another directory", e.Dir, holder)
}

// LockDir takes the lock of a directory below the root, "" for the root
// itself, and makes the directory if needed. It does not wait: a lock that is
// held gives a *LockedError. The lock ends with unlock or with the process,
// however that ends. Where the operating system has no such locks the error
// wraps errors.ErrUnsupported.
func (b *Blobs) LockDir(name string) (unlock func() error, err error) {
	if name != "" {
		if err := storage.CheckName(name); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(b.dir, filepath.FromSlash(name))
	if err := b.makeDir(dir); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, advised(dir, err))
	}
	f, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, advised(dir, err))
	}
	if err := lock(f); err != nil {
		defer f.Close()
		if errors.Is(err, errHeld) {
			return nil, &LockedError{Dir: dir, Holder: readHolder(f)}
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := writeHolder(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return func() error {
		return errors.Join(f.Truncate(0), f.Close()) // closing releases the lock
	}, nil
}

// lock tries twice: Holder has the lock for a moment.
func lock(f *os.File) error {
	err := tryLock(f)
	if errors.Is(err, errHeld) {
		<-time.After(20 * time.Millisecond)
		err = tryLock(f)
	}
	return err
}

// Holder reports whether the lock of a directory below the root is held, and
// by whom, as LockedError names it. Where there are no such locks, or no lock
// file, it is not.
func (b *Blobs) Holder(name string) (holder string, held bool, err error) {
	f, err := os.Open(filepath.Join(b.dir, filepath.FromSlash(name), LockName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	switch err := tryLock(f); {
	case errors.Is(err, errHeld):
		return readHolder(f), true, nil
	case errors.Is(err, errors.ErrUnsupported):
		return "", false, nil
	default:
		return "", false, err
	}
}

var errHeld = errors.New("held by another")

func writeHolder(f *os.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "host %s, pid %d\n", host, os.Getpid())
	return err
}

func readHolder(f *os.File) string {
	buf := make([]byte, 512)
	n, _ := f.ReadAt(buf, 0)
	holder, _, _ := strings.Cut(string(buf[:n]), "\n")
	return holder
}
