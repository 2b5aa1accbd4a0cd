//go:build !unix

package discovery

import "io/fs"

// mine trusts the directory for temporary files, which is the user's own where
// owners are not told.
func mine(fs.FileInfo) bool { return true }
