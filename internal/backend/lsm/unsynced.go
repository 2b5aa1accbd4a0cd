package lsm

import (
	"github.com/cockroachdb/pebble/v2/vfs"
)

// unsynced is a file system that leaves it to the operating system when
// something goes to the disk, and writes tables in large pieces.
type unsynced struct{ vfs.FS }

func (u unsynced) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := wrap(u.FS.Create(name, c))
	if err == nil && isWrittenOnce(name) {
		f = newBufferedFile(f)
	}
	return f, err
}

func (u unsynced) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return wrap(u.FS.OpenReadWrite(name, c, opts...))
}

func (u unsynced) OpenDir(name string) (vfs.File, error) { return wrap(u.FS.OpenDir(name)) }

func (u unsynced) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return wrap(u.FS.ReuseForWrite(old, name, c))
}

func (u unsynced) Unwrap() vfs.FS { return u.FS }

func wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error                { return nil }
func (unsyncedFile) SyncData() error            { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error) { return false, nil }
