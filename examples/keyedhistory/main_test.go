package main

import (
	"slices"
	"testing"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

func TestEveryRecordEmitsTheHistoryOfItsKey(t *testing.T) {
	out := collect.New[history]()
	jobtest.Run(t, embedded.Options{}, func(job *stream.Job) { stream.To(histories(job), "out", out) })

	got := map[string][]string{}
	for _, h := range out.Values() {
		got[h[0].User] = append(got[h[0].User], h.String())
	}
	want := map[string][]string{
		"userA": {"[(userA,10)]", "[(userA,10),(userA,20)]", "[(userA,10),(userA,20),(userA,30)]"},
		"userB": {"[(userB,15)]", "[(userB,15),(userB,25)]", "[(userB,15),(userB,25),(userB,35)]"},
		"userC": {"[(userC,5)]", "[(userC,5),(userC,15)]", "[(userC,5),(userC,15),(userC,25)]"},
	}
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for user, histories := range want {
		if !slices.Equal(got[user], histories) {
			t.Errorf("%s: got %v, want %v", user, got[user], histories)
		}
	}
}

func TestBatchGivesTheSame(t *testing.T) {
	jobtest.SameInBatch(t, histories)
}
