package savepoint_test

import (
	"context"
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
	"github.com/weirstream/weir/stream"
)

// A checkpoint of changes is read and verified like one of all state.
func TestCheckpointOfChanges(t *testing.T) {
	final := func(incremental bool) *savepoint.Snapshot {
		changed := jobtest.NewGate()
		last := jobtest.NewGate()
		var items []jobtest.Item[string]
		for i := range 400 {
			items = append(items, jobtest.R(fmt.Sprint("k", i), int64(i)))
		}
		items = append(items, jobtest.Hold[string](changed))
		for i := range 10 {
			items = append(items, jobtest.R(fmt.Sprint("k", i), int64(i)))
		}
		items = append(items, jobtest.Hold[string](last))
		dir := t.TempDir()
		o := embedded.Options{MaxParallelism: 16, Checkpoint: checkpoint.Options{Dir: dir, Interval: time.Hour, Incremental: incremental, Retained: 1}}
		j := jobtest.Job(t, o, func(j *stream.Job) {
			keyed := stream.KeyBy(jobtest.Script(j, "in", items...), func(s string) string { return s })
			stream.To(stream.Process(keyed, "tally", newTally), "out", connector.Discard[string]())
		})
		done := make(chan error, 1)
		go func() { done <- j.Run(context.WithoutCancel(t.Context())) }()
		<-changed.Reached()
		if incremental {
			_, err := j.Checkpoint(t.Context())
			check(t, err)
		}
		changed.Open()
		<-last.Reached()
		j.Suspend()
		check(t, <-done)
		last.Open()
		found, err := filepath.Glob(filepath.Join(dir, "test", "chk-*", "_metadata"))
		if err != nil || len(found) != 1 {
			t.Fatalf("snapshots %q, %v", found, err)
		}
		s, err := savepoint.Open(t.Context(), found[0])
		check(t, err)
		return s
	}
	chain := final(true)
	if meta, err := os.ReadFile(filepath.Join(chain.Path(), "_metadata")); err != nil || !strings.Contains(string(meta), `"increments"`) {
		t.Fatalf("the snapshot is not one of changes: %v", err)
	}
	if r := intact(t, chain.Path()); len(r.Unread) > 0 {
		t.Errorf("%+v", r)
	}
	var all []string
	check(t, savepoint.Diff(t.Context(), chain, final(false), savepoint.DiffOptions{}, func(d savepoint.Difference) error {
		all = append(all, fmt.Sprintf("%+v", d))
		return nil
	}))
	if len(all) > 0 {
		t.Errorf("%d differences from all state, %.300q", len(all), all)
	}
}
