//go:build killpoints && unix && !linux

package killpoint

import (
	"os"
	"syscall"
)

// raise sends a signal to the process. One that is to be stopped may run on for
// a moment.
func raise(s syscall.Signal) error { return syscall.Kill(os.Getpid(), s) }
