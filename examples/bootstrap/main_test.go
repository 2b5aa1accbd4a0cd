package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/savepoint"
	"github.com/weirstream/weir/stream"
)

// run is what a job says that begins from a savepoint.
func run(t *testing.T, from string) []string {
	t.Helper()
	out := collect.New[string]()
	o := embedded.Options{RestorePath: from, Parallelism: 2, Checkpoint: checkpoint.Options{Dir: t.TempDir(), Interval: time.Hour}}
	jobtest.Run(t, o, func(j *stream.Job) { stream.To(accounts(j), "out", out) })
	got := out.Values()
	slices.Sort(got)
	return got
}

func TestTheJobGoesOnFromTheFile(t *testing.T) {
	dir := t.TempDir()
	seeded, repaired := filepath.Join(dir, "seeded"), filepath.Join(dir, "repaired")
	if err := seed("testdata/balances.csv", seeded); err != nil {
		t.Fatal(err)
	}
	if err := repair(seeded, repaired); err != nil {
		t.Fatal(err)
	}
	if got, want := run(t, seeded), []string{"alice has 1250 cents", "bob has -150 cents", "carol has 1000 cents"}; !slices.Equal(got, want) {
		t.Errorf("from the file: %q, want %q", got, want)
	}
	if got, want := run(t, repaired), []string{"alice has 1250 cents", "bob has -100 cents", "carol has 1000 cents"}; !slices.Equal(got, want) {
		t.Errorf("repaired: %q, want %q", got, want)
	}
	s, err := savepoint.Open(t.Context(), repaired)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for e, err := range s.Entries(t.Context(), "ledger", "balance") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(e.Key, " ", e.Value))
	}
	slices.Sort(all)
	if want := []string{"alice 1000", "bob 0", "dave 7"}; !slices.Equal(all, want) {
		t.Errorf("stored is %q, want %q", all, want)
	}
}

func TestBatchGivesTheSame(t *testing.T) {
	jobtest.SameInBatch(t, accounts)
}
