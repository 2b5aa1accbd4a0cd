package memory

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTotalOfTheMachine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "meminfo")
	for text, want := range map[string]int64{
		"MemTotal:       24563200 kB\nMemFree: 5 kB\n": 24563200 << 10,
		"MemFree: 5 kB\n":     0,
		"MemTotal: lots kB\n": 0,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := total(name); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got := total(name + ".none"); got != 0 {
		t.Errorf("no file: %d", got)
	}
}

// The limit is the least of those of the machine and of the groups around the
// process, in either version of control groups.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing is known", nil, 0},
		{"machine", map[string]string{"proc/meminfo": "MemTotal: 1000 kB\n"}, 1000 << 10},
		{"container, version 2", map[string]string{
			"proc/meminfo": "MemTotal: 1000 kB\n", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "5000\n",
		}, 5000},
		{"no limit", map[string]string{
			"proc/meminfo": "MemTotal: 1000 kB\n", "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, 1000 << 10},
		{"a group around it, version 2", map[string]string{
			"proc/meminfo": "MemTotal: 1000 kB\n", "proc/self/cgroup": "0::/a/b/c\n",
			"sys/fs/cgroup/a/memory.max": "4000\n", "sys/fs/cgroup/a/b/memory.max": "3000\n", "sys/fs/cgroup/a/b/c/memory.max": "max\n",
		}, 3000},
		{"version 1", map[string]string{
			"proc/meminfo": "MemTotal: 1000 kB\n", "proc/self/cgroup": "9:cpu:/x\n4:memory:/a/b\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "2000\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "7\n",
		}, 2000},
		{"only a group", map[string]string{"proc/self/cgroup": "odd\n", "sys/fs/cgroup/memory.max": "6000\n"}, 6000},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			name = filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := limitBelow(root); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
