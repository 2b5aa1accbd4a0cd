package lsm

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// writeBuffer is how much of a table is written at a time. Pebble writes each
// block of 4 KiB by itself: a sixth of a compaction were system calls.
const writeBuffer = 128 << 10

// isWrittenOnce tells of a file's name that nobody reads it before it is closed.
func isWrittenOnce(name string) bool {
	return isTable(name) || strings.HasPrefix(filepath.Base(name), loadPrefix)
}

// bufferedFile gathers writes. Those that fail are told of by a later one, by
// Sync or by Close.
type bufferedFile struct {
	vfs.File
	buffer []byte
	err    error
}

func newBufferedFile(f vfs.File) *bufferedFile {
	return &bufferedFile{File: f, buffer: make([]byte, 0, writeBuffer)}
}

func (f *bufferedFile) Write(p []byte) (int, error) {
	if len(f.buffer)+len(p) > cap(f.buffer) {
		if err := f.flush(); err != nil {
			return 0, err
		}
		if len(p) >= cap(f.buffer) {
			return f.File.Write(p)
		}
	}
	f.buffer = append(f.buffer, p...)
	return len(p), f.err
}

func (f *bufferedFile) flush() error {
	if len(f.buffer) > 0 && f.err == nil {
		_, f.err = f.File.Write(f.buffer)
		f.buffer = f.buffer[:0]
	}
	return f.err
}

func (f *bufferedFile) Stat() (vfs.FileInfo, error) {
	if err := f.flush(); err != nil {
		return nil, err
	}
	return f.File.Stat()
}

func (f *bufferedFile) Sync() error     { return errors.Join(f.flush(), f.File.Sync()) }
func (f *bufferedFile) SyncData() error { return errors.Join(f.flush(), f.File.SyncData()) }
func (f *bufferedFile) Close() error    { return errors.Join(f.flush(), f.File.Close()) }
