//go:build killpoints

package killpoint

import (
	"os"
	"runtime"
	"syscall"
)

// raise sends a signal to the calling thread, so that it does not run on: of
// one for the process the kernel tells any thread, which stops the others a
// while later.
func raise(s syscall.Signal) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return syscall.Tgkill(os.Getpid(), syscall.Gettid(), s)
}
