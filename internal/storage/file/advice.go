package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// advised adds to an error of writing to dir what somebody can do about it.
func advised(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: the file system of %s is full, or has no inodes left: make room, retain fewer checkpoints, or use another directory", err, existing(dir))
	case errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: the quota of user %d on the file system of %s is used up: have it raised, or use another directory", err, os.Getuid(), existing(dir))
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %s is mounted read-only: mount it so that it can be written to, or use another directory", err, existing(dir))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: user %d may not write to %s: give it write permission there, or use another directory", err, os.Getuid(), existing(dir))
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST):
		return fmt.Errorf("%w: there is a file where a directory is needed: move it away, or use another directory", err)
	}
	return err
}

// existing is dir, or the first directory above it that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
