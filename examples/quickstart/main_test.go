package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// TestMain lets the test binary be the job, too: the director starts its own
// executable.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "job" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestQuickstartIsExact(t *testing.T) { checkRun(t, 40_000, 2) }

// More subtasks than partitions: some have nothing to read and must not hold
// back event time.
func TestQuickstartIsExactWithIdleSubtasks(t *testing.T) { checkRun(t, 10_000, partitions+1) }

func checkRun(t *testing.T, records, parallelism int) {
	if testing.Short() {
		t.Skip("runs a job in child processes")
	}
	var out bytes.Buffer
	o := &options{records: records, seed: 42, parallelism: parallelism, json: true, timeout: 2 * time.Minute}
	r, err := direct(t.Context(), o, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Logf("\n%s", &out)
	if !r.exact() || r.Expected < 2000 || r.Late != min(maxLate, records/100) {
		t.Errorf("verdict %+v is not exact, over at least 2000 records, and some of them late", *r.verdict)
	}
	if r.Restarts < 2 || r.Kills < 1 || r.Checkpoints < 2 {
		t.Errorf("%d restarts, %d kills, %d checkpoints, want at least 2, 1 and 2", r.Restarts, r.Kills, r.Checkpoints)
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	var last map[string]any
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
		t.Fatalf("the last line is not JSON: %v", err)
	}
	for _, field := range []string{"expected", "got", "lost", "duplicated", "wrong", "late", "restarts", "kills", "checkpoints", "seconds"} {
		if _, ok := last[field]; !ok {
			t.Errorf("the JSON has no %q", field)
		}
	}
}
