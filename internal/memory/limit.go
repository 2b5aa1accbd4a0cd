package memory

import (
	"os"
	"strconv"
	"strings"
)

// Limit is how much memory the process may have: that of the machine, or of
// its control group if that is less. It is 0 where that is not known.
func Limit() int64 {
	limit := total("/proc/meminfo")
	for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		// "max" and a number beyond the machine's memory are no limit.
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && n < limit {
			limit = n
		}
	}
	return limit
}

// total reads the machine's memory from a file in the form of /proc/meminfo.
func total(name string) int64 {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		text, ok := strings.CutPrefix(line, "MemTotal:")
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
		if err != nil {
			return 0
		}
		return n << 10
	}
	return 0
}
