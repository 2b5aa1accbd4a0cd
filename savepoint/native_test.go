package savepoint_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/savepoint"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// tally counts, remembers and sets timers.
type tally struct {
	n      state.Value[int64]
	said   state.List[string]
	timers state.Timers
}

func newTally(r *state.Registry) *tally {
	return &tally{state.ValueIn[int64](r, "n"), state.ListIn[string](r, "said"), state.EventTimers(r)}
}

func (c *tally) OnTimer(*stream.Ctx[string, string], time.Time) error { return nil }

func (c *tally) Process(_ *stream.Ctx[string, string], v string) error {
	n, err := c.n.Get()
	return errors.Join(err, c.n.Set(n+1), c.said.Add(v), c.timers.SetMillis(5000))
}

// tallied runs a job until it waits, suspends it and opens its final snapshot.
func tallied(t *testing.T, backend embedded.Backend, parallelism int) *savepoint.Snapshot {
	t.Helper()
	dir, gate := t.TempDir(), jobtest.NewGate()
	var items []jobtest.Item[string]
	for i := range 300 {
		items = append(items, jobtest.R(fmt.Sprint("k", i%100), int64(i)))
	}
	items = append(items, jobtest.Hold[string](gate))
	o := embedded.Options{Checkpoint: checkpoint.Options{Dir: dir, Interval: time.Hour}, Parallelism: parallelism, StateBackend: backend, MaxParallelism: 16}
	if backend == embedded.LSM {
		o.LSMMemory, o.LSMDir = 1000, t.TempDir()
	}
	j := jobtest.Job(t, o, func(j *stream.Job) {
		keyed := stream.KeyBy(jobtest.Script(j, "in", items...), func(s string) string { return s })
		stream.To(stream.Process(keyed, "tally", newTally), "out", connector.Discard[string]())
	})
	done := make(chan error, 1)
	go func() { done <- j.Run(context.WithoutCancel(t.Context())) }()
	<-gate.Reached()
	j.Suspend()
	defer gate.Open()
	check(t, <-done)
	found, err := filepath.Glob(filepath.Join(dir, "test", "chk-*", "_metadata"))
	if err != nil || len(found) != 1 {
		t.Fatalf("snapshots %q, %v", found, err)
	}
	s, err := savepoint.Open(t.Context(), found[0])
	check(t, err)
	return s
}

// TestStateInFilesOfTheBackend: what lsm stores as its own files is read,
// compared and rewritten as what is stored canonically.
func TestStateInFilesOfTheBackend(t *testing.T) {
	native, heap := tallied(t, embedded.LSM, 2), tallied(t, embedded.Heap, 3)
	if meta, err := os.ReadFile(filepath.Join(native.Path(), "_metadata")); err != nil || !strings.Contains(string(meta), `"native"`) {
		t.Fatalf("the snapshot of lsm is not in files of its own: %v", err)
	}
	if r := intact(t, native.Path()); len(r.Unread) > 0 || r.Entries != 300 {
		t.Errorf("%+v", r)
	}
	var all []string
	check(t, savepoint.Diff(t.Context(), native, heap, savepoint.DiffOptions{}, func(d savepoint.Difference) error {
		all = append(all, fmt.Sprintf("%+v", d))
		return nil
	}))
	if len(all) > 0 {
		t.Errorf("%d differences, %.300q", len(all), all)
	}
	n := 0
	for e, err := range native.EntriesOf(t.Context(), "tally", "said", "k7") {
		check(t, err)
		if n++; e.Key != "k7" || e.Value != "k7" {
			t.Errorf("entry %+v", e)
		}
	}
	if n != 3 {
		t.Errorf("%d elements", n)
	}
	w := savepoint.From(native)
	check(t, savepoint.Edit(w, "tally", newTally, func(_ string, c *tally) error { return c.n.Set(50) }, "k7"))
	edited := written(t, w)
	var got []any
	for e, err := range edited.EntriesOf(t.Context(), "tally", "n", "k7") {
		check(t, err)
		got = append(got, e.Value)
	}
	info, err := edited.Info(t.Context())
	check(t, err)
	if len(got) != 1 || got[0] != int64(50) {
		t.Errorf("edited %v", got)
	}
	for _, op := range info.Operators {
		for _, st := range op.States {
			if st.Count != 100 {
				t.Errorf("%s/%s counts %d", op.ID, st.Name, st.Count)
			}
		}
	}
	if plain := written(t, savepoint.From(native)); len(differences(t, plain, heap, savepoint.DiffOptions{})) > 0 {
		t.Error("what is written canonically differs")
	}
}

func TestDamageInFilesOfTheBackend(t *testing.T) {
	s := tallied(t, embedded.LSM, 1)
	info, err := s.Info(t.Context())
	check(t, err)
	for _, f := range info.Files {
		name := filepath.Join(s.Path(), f.Name)
		good, err := os.ReadFile(name)
		check(t, err)
		bad := append([]byte(nil), good...)
		bad[len(bad)/2] ^= 1
		// Tables may be linked: a file of its own is damaged.
		check(t, os.Remove(name))
		check(t, os.WriteFile(name, bad, 0o600))
		r, err := savepoint.Verify(t.Context(), s.Path(), nil)
		check(t, err)
		if len(r.Damage) == 0 || !strings.Contains(r.Damage[0], "CRC32C") {
			t.Errorf("%s: damage %q", f.Name, r.Damage)
		}
		for _, err := range s.Entries(t.Context(), "tally", "n") {
			if err != nil && !errors.Is(err, savepoint.ErrDamaged) {
				t.Errorf("%s: entries: %v", f.Name, err)
			}
		}
		check(t, os.WriteFile(name, good, 0o600))
	}
	intact(t, s.Path())
}
