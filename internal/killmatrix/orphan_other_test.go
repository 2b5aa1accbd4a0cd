//go:build unix && !linux

package killmatrix

import "syscall"

// withTest would have a process end with the test's process, which takes Linux.
func withTest() *syscall.SysProcAttr { return nil }
