package main

import (
	"slices"
	"testing"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

func TestLinesAreCountedByLevelAndMinute(t *testing.T) {
	o := options{input: "testdata/logs"}
	out := collect.New[count]()
	jobtest.Run(t, embedded.Options{}, func(job *stream.Job) { stream.To(o.counts(job), "out", out) })

	var got []string
	for _, c := range out.Values() {
		got = append(got, c.String())
	}
	slices.Sort(got)
	want := []string{
		"12:00 ERROR 1", "12:00 INFO  4", "12:01 INFO  2", "12:01 WARN  1", "12:59 INFO  1", "13:00 ERROR 2", "13:00 INFO  1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBatchGivesTheSame(t *testing.T) {
	o := options{input: "testdata/logs"}
	jobtest.SameInBatch(t, o.counts)
}
