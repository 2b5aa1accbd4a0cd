//go:build !linux

package embedded

import "time"

// cpuTime runs f and returns the time it took; only Linux tells CPU time.
func cpuTime(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}
