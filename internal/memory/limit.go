package memory

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Limit is how much memory the process may have: that of the machine, or of
// one of its control groups if that is less. It is 0 where that is not known.
func Limit() int64 { return limitBelow("/") }

// limitBelow is Limit by the files below a root.
func limitBelow(root string) int64 {
	limit := total(filepath.Join(root, "proc/meminfo"))
	for _, name := range groupLimits(filepath.Join(root, "proc/self/cgroup")) {
		b, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", name))
		if err != nil {
			continue
		}
		// "max" and a number beyond the machine's memory are no limit.
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && (n < limit || limit == 0) {
			limit = n
		}
	}
	return limit
}

// groupLimits are the files, below where control groups are mounted, that may
// hold the limit of the process's group or of one around it. In a container
// the path of the group is that of the host, but the group itself is the root.
func groupLimits(name string) []string {
	files := []string{"memory.max", "memory/memory.limit_in_bytes"}
	b, err := os.ReadFile(name)
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for dir := path.Clean("/" + parts[2]); dir != "/"; dir = path.Dir(dir) {
			switch {
			case parts[1] == "":
				files = append(files, filepath.Join(dir, "memory.max"))
			case slices.Contains(strings.Split(parts[1], ","), "memory"):
				files = append(files, filepath.Join("memory", dir, "memory.limit_in_bytes"))
			}
		}
	}
	return files
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
