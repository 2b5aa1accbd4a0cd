package embedded_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// kinds are the outputs of a job with raw state, keyed and not, a union list,
// and broadcast state.
type kinds struct{ census, bundle, shards, matcher *collect.Sink[string] }

func newKinds() kinds {
	return kinds{collect.NewExactlyOnce[string](), collect.NewExactlyOnce[string](), collect.NewExactlyOnce[string](), collect.NewExactlyOnce[string]()}
}

func (k kinds) job(gate *jobtest.Gate) func(*stream.Job) {
	return func(j *stream.Job) {
		in := jobtest.Script(j, "in", script(records("k1-1", "k0-15", "k2-2"), hold(gate), records("k1-3"))...)
		stream.To(stream.Process(stream.KeyBy(in, key), "census", newCensus), "counted", k.census)
		stream.To(stream.ProcessUnkeyed(in, "bundle", newBundle), "bundled", k.bundle)
		stream.To(stream.ProcessUnkeyed(stream.Broadcast(in), "shards", newShards), "kept", k.shards)
		stream.To(matched(in, nil), "matched", k.matcher)
	}
}

// TestGoldenOperatorStateRestores: version 2 of _metadata, which is that of
// snapshots with these kinds of state and without shared files.
func TestGoldenOperatorStateRestores(t *testing.T) {
	const stored = "testdata/golden/metadata2-operator-state"
	if *writeGolden && !exists(stored) {
		dir, gate := t.TempDir(), jobtest.NewGate()
		r := launch(t, dir, embedded.Options{StateBackend: embedded.Heap}, newKinds().job(gate))
		r.reach(gate)
		r.suspend()
		gate.Open()
		keepSnapshot(t, dir, "chk-1", stored)
	}
	m, err := snapshot.Load(t.Context(), file.New(stored), "chk-1")
	if err != nil || m.FormatVersion != 2 {
		t.Fatalf("version %d, %v", m.FormatVersion, err)
	}
	for _, into := range []string{"heap", "lsm"} {
		copied, k := t.TempDir(), newKinds()
		if err := os.CopyFS(copied, os.DirFS(stored)); err != nil {
			t.Fatal(err)
		}
		o := goldenOptions(t, into)
		o.RestorePath = filepath.Join(copied, "chk-1")
		launch(t, t.TempDir(), o, k.job(opened())).end()
		want(t, into+": counts in raw keyed state", k.census.Values(), "k1=2")
		want(t, into+": bundles in raw state", k.bundle.Values(), "k1-1", "k0-15", "k2-2", "k1-3")
		want(t, into+": a union list", k.shards.Values(), "k1-1", "k0-15", "k2-2", "k1-3")
		want(t, into+": broadcast rules", k.matcher.Values(), "k1-3 by k0-15")
	}
}
