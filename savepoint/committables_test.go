package savepoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/savepoint"
)

// withCommittables is a snapshot whose sink has output to commit.
func withCommittables(t *testing.T) *savepoint.Snapshot {
	t.Helper()
	dir := t.TempDir()
	text := codec.Format{ID: "string", Version: 1}
	wm := int64(5000)
	m := &snapshot.Metadata{
		Job: "job", Lineage: "l", Attempt: 3, ID: 7, Kind: snapshot.Checkpoint, KeyHash: keygroup.HashName, Ledger: "first", Deletes: []string{"job/chk-4"},
		Operators: []snapshot.Operator{
			{ID: "in", Kind: "source", Parallelism: 1, SplitFormat: &text, EnumeratorFormat: &text, Enumerator: []byte("all"), Subtasks: []snapshot.Subtask{{Splits: [][]byte{[]byte("at 5")}, Watermark: &wm, Ended: true}}},
			{ID: "out", Kind: "sink", Parallelism: 1, Subtasks: []snapshot.Subtask{{}}, CommittableFormat: &text, Committables: []snapshot.Committable{{Checkpoint: 7, Data: []byte("t7")}}},
		},
	}
	check(t, snapshot.Store(t.Context(), file.New(dir), "chk-7", m))
	s, err := savepoint.Open(t.Context(), filepath.Join(dir, "chk-7"))
	check(t, err)
	return s
}

func TestRewritingKeepsCommittables(t *testing.T) {
	s := withCommittables(t)
	w := savepoint.From(s)
	for _, err := range []error{w.Rename("out", "other"), w.Drop("out")} {
		if !errors.Is(err, savepoint.ErrCommittables) {
			t.Errorf("error %v, want one that wraps ErrCommittables", err)
		}
	}
	check(t, w.Rename("in", "source"))
	out := written(t, w)
	info, err := out.Info(t.Context())
	check(t, err)
	// The identity stays, so that a start commits what the snapshot holds, once.
	if info.Lineage != "l" || info.Attempt != 3 || info.ID != 7 || info.Kind != "savepoint" {
		t.Errorf("identity %+v", info)
	}
	in, sink := info.Operators[0], info.Operators[1]
	if in.ID != "source" || in.Splits[0].Value != "at 5" || in.Enumerator != "all" || in.Watermarks[0].Time.UnixMilli() != 5000 || len(in.Ended) != 1 {
		t.Errorf("source %+v", in)
	}
	if len(sink.Committables) != 1 || sink.Committables[0] != (savepoint.Committable{Checkpoint: 7, Value: "t7"}) {
		t.Errorf("committables %+v", sink.Committables)
	}
}

func TestCommittedOutputMayGo(t *testing.T) {
	s := withCommittables(t)
	mark := []byte(`{"lineage": "l", "attempt": 3, "id": 7, "time": 1}`)
	check(t, os.WriteFile(filepath.Join(s.Path(), "_committed"), mark, 0o600))
	w := savepoint.From(s)
	check(t, w.Rename("out", "other"))
	out := written(t, w)
	if got, err := os.ReadFile(filepath.Join(out.Path(), "_committed")); err != nil || string(got) != string(mark) {
		t.Errorf("mark %s, %v", got, err)
	}
	// That of another snapshot, put there by a paused process, does not count.
	check(t, os.WriteFile(filepath.Join(s.Path(), "_committed"), []byte(`{"lineage": "l", "attempt": 2, "id": 7}`), 0o600))
	if err := savepoint.From(s).Drop("out"); !errors.Is(err, savepoint.ErrCommittables) {
		t.Errorf("error %v", err)
	}
}

func TestNativeStateIsNotLostWithoutAWord(t *testing.T) {
	dir := t.TempDir()
	key := codec.Format{ID: "int64", Version: 1, Size: 8}
	blobs := file.New(dir)
	check(t, blobs.PutIfAbsent(t.Context(), "chk-1/x", []byte("sst")))
	m := &snapshot.Metadata{
		Job: "job", Lineage: "l", Attempt: 1, ID: 1, Kind: snapshot.Checkpoint, KeyHash: keygroup.HashName, Files: []snapshot.File{{Name: "x", Size: 3, CRC: 0x3F0C7B0A}},
		Operators: []snapshot.Operator{{ID: "op", Parallelism: 1, MaxParallelism: 2, KeyFormat: &key, States: []snapshot.State{{Name: "s", Kind: "value", Format: key}},
			Subtasks: []snapshot.Subtask{{Native: &snapshot.Native{Format: "unknown/1", Files: []snapshot.NativeFile{{Local: "x", File: "x"}}}}}}},
	}
	check(t, snapshot.Store(t.Context(), blobs, "chk-1", m))
	s, err := savepoint.Open(t.Context(), filepath.Join(dir, "chk-1"))
	check(t, err)
	var unreadable *savepoint.UnreadableError
	if err := savepoint.From(s).Write(t.Context(), filepath.Join(dir, "out")); !errors.As(err, &unreadable) || unreadable.Form != "unknown/1" {
		t.Errorf("written: %v", err)
	}
	for _, err := range s.Entries(t.Context(), "op", "s") {
		if !errors.As(err, &unreadable) {
			t.Errorf("entries: %v", err)
		}
	}
	info, err := s.Info(t.Context())
	if err != nil || len(info.Unread) != 1 {
		t.Errorf("info: %+v, %v", info, err)
	}
	r, err := savepoint.Verify(t.Context(), s.Path(), nil)
	if err != nil || len(r.Unread) != 1 || len(r.Damage) != 1 {
		t.Errorf("verify: %+v, %v", r, err)
	}
}
