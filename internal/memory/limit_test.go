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
