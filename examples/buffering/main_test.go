package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// run runs the job in a checkpoint directory and returns what it emitted.
func run(t *testing.T, o options, e embedded.Options) []string {
	t.Helper()
	out := collect.New[group]()
	jobtest.Run(t, e, func(job *stream.Job) { stream.To(o.groups(job), "out", out) })
	var groups []string
	for _, g := range out.Values() {
		groups = append(groups, g.String())
	}
	return groups
}

func check(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestThreeAreEmittedTogether(t *testing.T) {
	e := embedded.Options{Checkpoint: checkpoint.Options{Interval: interval, Dir: t.TempDir()}}
	check(t, run(t, options{events: 9, count: 3}, e),
		"[event1,event2,event3]", "[event4,event5,event6]", "[event7,event8,event9]")
}

func TestWhatIsBufferedSurvivesAStop(t *testing.T) {
	dir := t.TempDir()
	e := embedded.Options{Checkpoint: checkpoint.Options{Interval: interval, Dir: dir}}
	check(t, run(t, options{events: 10, count: 3}, e),
		"[event1,event2,event3]", "[event4,event5,event6]", "[event7,event8,event9]")
	final, err := filepath.Glob(filepath.Join(dir, "test", "chk-*"))
	if err != nil || len(final) == 0 {
		t.Fatalf("no final snapshot: %v, %v", final, err)
	}
	e.RestorePath = final[len(final)-1]
	check(t, run(t, options{events: 12, count: 3}, e), "[event10,event11,event12]")
}

func TestAlarmAfterValuesAboveAThreshold(t *testing.T) {
	e := embedded.Options{Checkpoint: checkpoint.Options{Interval: interval, Dir: t.TempDir()}}
	check(t, run(t, options{events: 9, count: 2, threshold: 5}, e), "[event6,event7]", "[event8,event9]")
}

func TestBatchGivesTheSame(t *testing.T) {
	o := options{events: 9, count: 3}
	jobtest.SameInBatch(t, o.groups)
}
