package embedded_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
)

var writeGolden = flag.Bool("write-golden", false, "write the snapshots of the present format versions where there are none")

// golden is where the snapshots of the present versions lie. They are written
// once, with -write-golden, and never again.
var golden = fmt.Sprintf("testdata/golden/data%d-metadata%d", snapshot.Version, snapshot.MetadataVersion)

// goldenItems are the records of the job: those before the snapshot and one
// after.
func goldenItems(gate *jobtest.Gate) []jobtest.Item[string] {
	return script(records("a", "b", "a"), hold(gate), records("a"))
}

// goldenIncrements are the same with a checkpoint before, from which that of the
// job goes on.
func goldenIncrements(first, second *jobtest.Gate) []jobtest.Item[string] {
	return script(records("a"), hold(first), records("b", "a"), hold(second), records("a"))
}

func goldenOptions(t *testing.T, backend string) embedded.Options {
	if backend == "heap" {
		return embedded.Options{StateBackend: embedded.Heap, Checkpoint: checkpoint.Options{Incremental: true}}
	}
	return embedded.Options{StateBackend: embedded.LSM, LSMMemory: 1000, LSMDir: t.TempDir()}
}

// A job restores what each version has stored, in either backend, as the type
// that it was stored as and as a later one.
func TestGoldenSnapshotsRestore(t *testing.T) {
	for _, backend := range []string{"heap", "lsm"} {
		if dir := filepath.Join(golden, backend); *writeGolden && !exists(dir) {
			writeSnapshot(t, dir, backend)
		}
		if !exists(filepath.Join(golden, backend, "chk-1", "_metadata")) {
			t.Errorf("%s has no snapshot of the present versions: go test ./runner/embedded -run TestGolden -write-golden", filepath.Join(golden, backend))
		}
	}
	stored, err := filepath.Glob("testdata/golden/*[0-9]/*")
	if err != nil || len(stored) < 2 {
		t.Fatalf("%v, %v", stored, err)
	}
	for _, dir := range stored {
		for _, into := range []string{"heap", "lsm"} {
			t.Run(filepath.Base(filepath.Dir(dir))+" "+filepath.Base(dir)+" into "+into, func(t *testing.T) {
				restoreGoldens(t, dir, into, goldenItems(opened()))
			})
		}
	}
}

// TestGoldenIncrementsRestore: the same of a checkpoint that refers to what an
// earlier one has stored.
func TestGoldenIncrementsRestore(t *testing.T) {
	for _, backend := range []string{"heap", "lsm"} {
		dir := filepath.Join(golden+"-increments", backend)
		if *writeGolden && !exists(dir) {
			writeIncrements(t, dir, backend)
		}
		m, err := snapshot.Load(t.Context(), file.New(dir), "chk-2")
		if err != nil {
			t.Fatalf("no snapshot of the present versions: go test ./runner/embedded -run TestGolden -write-golden: %v", err)
		}
		shared := 0
		for _, f := range m.Files {
			if snapshot.IsShared(f.Name) {
				shared++
			}
		}
		if shared < 2 {
			t.Errorf("%s shares %d files, want those of two checkpoints", dir, shared)
		}
	}
	stored, err := filepath.Glob("testdata/golden/*-increments/*")
	if err != nil || len(stored) < 2 {
		t.Fatalf("%v, %v", stored, err)
	}
	for _, dir := range stored {
		for _, into := range []string{"heap", "lsm"} {
			t.Run(filepath.Base(filepath.Dir(dir))+" "+filepath.Base(dir)+" into "+into, func(t *testing.T) {
				restoreGoldens(t, dir, into, goldenIncrements(opened(), opened()))
			})
		}
	}
}

func opened() *jobtest.Gate {
	g := jobtest.NewGate()
	g.Open()
	return g
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func writeSnapshot(t *testing.T, to, backend string) {
	dir, gate := t.TempDir(), jobtest.NewGate()
	r := launch(t, dir, goldenOptions(t, backend), totalJob(collect.NewExactlyOnce[string](), goldenItems(gate), newTotaller[totalV1]()))
	r.reach(gate)
	r.suspend()
	gate.Open()
	keepSnapshot(t, dir, "chk-1", to)
}

// writeIncrements has a sink that leaves nothing to be committed: there is no
// mark that it was.
func writeIncrements(t *testing.T, to, backend string) {
	dir, gates := t.TempDir(), []*jobtest.Gate{jobtest.NewGate(), jobtest.NewGate()}
	r := launch(t, dir, goldenOptions(t, backend), totalJob(collect.New[string](), goldenIncrements(gates[0], gates[1]), newTotaller[totalV1]()))
	for _, g := range gates {
		r.reach(g)
		r.checkpoint()
		g.Open()
	}
	r.kill()
	keepSnapshot(t, dir, "chk-2", to)
}

// keepSnapshot copies a checkpoint of the one job in a directory, with what it
// may share.
func keepSnapshot(t *testing.T, dir, name, to string) {
	jobs, err := filepath.Glob(filepath.Join(dir, "*", name))
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%v, %v", jobs, err)
	}
	for _, part := range []string{name, "shared"} {
		if from := filepath.Join(filepath.Dir(jobs[0]), part); exists(from) {
			if err := os.CopyFS(filepath.Join(to, part), os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// restoreGoldens restores a snapshot as the type that it was stored as and as a
// later one.
func restoreGoldens(t *testing.T, stored, into string, items []jobtest.Item[string]) {
	t.Helper()
	restoreGolden(t, stored, into, items, newTotaller[totalV1](),
		"a {Euros:3 Seen:true} [{Euros:1 Seen:true} {Euros:2 Seen:true} {Euros:3 Seen:true}] {Euros:3 Seen:true} {Euros:3 Seen:true}")
	restoreGolden(t, stored, into, items, newTotaller[totalV2](),
		"a {Note:none Total:3} [{Note:none Total:1} {Note:none Total:2} {Note:none Total:3}] {Note:none Total:3} {Note:none Total:3}")
}

func restoreGolden[T adder[T]](t *testing.T, stored, into string, items []jobtest.Item[string], newP func(*state.Registry) *totaller[T], result string) {
	t.Helper()
	copied, out := t.TempDir(), collect.NewExactlyOnce[string]()
	if err := os.CopyFS(copied, os.DirFS(stored)); err != nil {
		t.Fatal(err)
	}
	snapshots, err := filepath.Glob(filepath.Join(copied, "chk-*"))
	if err != nil || len(snapshots) != 1 {
		t.Fatalf("%v, %v", snapshots, err)
	}
	o := goldenOptions(t, into)
	o.RestorePath = snapshots[0]
	launch(t, t.TempDir(), o, totalJob(out, items, newP)).end()
	want(t, "what is emitted after the restore", out.Values(), result)
}
