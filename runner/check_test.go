package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
)

// storedSnapshot writes a snapshot of a sink with a committable.
func storedSnapshot(t *testing.T, change func(*snapshot.Metadata)) string {
	t.Helper()
	dir := t.TempDir()
	format := codec.Format{ID: "x", Version: 1}
	m := &snapshot.Metadata{Job: "job", Lineage: "l", Attempt: 1, ID: 7, Kind: snapshot.Checkpoint, KeyHash: keygroup.HashName, Operators: []snapshot.Operator{{
		ID: "gone", Kind: "sink", Parallelism: 1, Subtasks: []snapshot.Subtask{{}}, CommittableFormat: &format, Committables: []snapshot.Committable{{Checkpoint: 7, Data: []byte("t")}},
	}}}
	if change != nil {
		change(m)
	}
	if err := snapshot.Store(t.Context(), file.New(dir), "chk-7", m); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "chk-7")
}

func TestCheckFindsWhatAStartRefuses(t *testing.T) {
	run := func(path string, args ...string) (int, string) {
		h := newHarness(buildPipe, nil)
		code := h.run(append([]string{"check", "-s", path}, args...))
		return code, h.out.String() + h.err.String()
	}
	path := storedSnapshot(t, nil)
	before, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	code, said := run(path)
	if code != exitFailed || !strings.Contains(said, `does not restore `+path+` (checkpoint 7 of job job)`) || !strings.Contains(said, `refused: operator "gone": the snapshot holds 1 committables of this sink`) {
		t.Errorf("a sink that is gone: %d\n%s", code, said)
	}
	if after, err := os.ReadDir(path); err != nil || len(after) != len(before) {
		t.Errorf("the check left something: %v, %v", after, err)
	}
	mark := `{"lineage": "l", "attempt": 1, "id": 7, "time": 0}`
	if err := os.WriteFile(filepath.Join(path, "_committed"), []byte(mark), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := run(path); code != exitDone || !strings.Contains(said, "restores "+path) {
		t.Errorf("one whose output is committed: %d\n%s", code, said)
	}
	hashed := storedSnapshot(t, func(m *snapshot.Metadata) { m.KeyHash, m.Operators = "other", nil })
	if code, said := run(hashed); code != exitFailed || !strings.Contains(said, `hashes keys by "other"`) {
		t.Errorf("another hash: %d\n%s", code, said)
	}
	lacking := storedSnapshot(t, func(m *snapshot.Metadata) {
		m.Operators, m.Files = nil, []snapshot.File{{Name: "data", Size: 100}}
	})
	if code, said := run(lacking); code != exitFailed || !strings.Contains(said, "refused: data file data: ") {
		t.Errorf("a missing file: %d\n%s", code, said)
	}
	if code, said := run(filepath.Join(path, "none")); code != exitFailed || !strings.Contains(said, "cannot be checked") {
		t.Errorf("no snapshot: %d\n%s", code, said)
	}
	h := newHarness(buildPipe, nil)
	if code := h.run([]string{"check"}); code != exitUsage || !strings.Contains(h.err.String(), "check needs a snapshot") {
		t.Errorf("no path: %d %s", code, h.err.String())
	}
}
