//go:build unix

package discovery

import (
	"io/fs"
	"os"
	"syscall"
)

// mine reports whether a directory is this user's, and nobody else may write
// to it.
func mine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid() && info.Mode().Perm()&0o022 == 0
}
