package embedded_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/snapshot"
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

func goldenOptions(t *testing.T, backend string) embedded.Options {
	if backend == "heap" {
		return embedded.Options{StateBackend: embedded.Heap}
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
	stored, err := filepath.Glob("testdata/golden/*/*")
	if err != nil || len(stored) < 2 {
		t.Fatalf("%v, %v", stored, err)
	}
	for _, dir := range stored {
		for _, into := range []string{"heap", "lsm"} {
			t.Run(filepath.Base(filepath.Dir(dir))+" "+filepath.Base(dir)+" into "+into, func(t *testing.T) {
				restoreGolden(t, dir, into, newTotaller[totalV1](),
					"a {Euros:3 Seen:true} [{Euros:1 Seen:true} {Euros:2 Seen:true} {Euros:3 Seen:true}] {Euros:3 Seen:true} {Euros:3 Seen:true}")
				restoreGolden(t, dir, into, newTotaller[totalV2](),
					"a {Note:none Total:3} [{Note:none Total:1} {Note:none Total:2} {Note:none Total:3}] {Note:none Total:3} {Note:none Total:3}")
			})
		}
	}
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
	jobs, err := filepath.Glob(filepath.Join(dir, "*", "chk-1"))
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%v, %v", jobs, err)
	}
	for _, part := range []string{"chk-1", "shared"} {
		if from := filepath.Join(filepath.Dir(jobs[0]), part); exists(from) {
			if err := os.CopyFS(filepath.Join(to, part), os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func restoreGolden[T adder[T]](t *testing.T, stored, into string, newP func(*state.Registry) *totaller[T], result string) {
	t.Helper()
	copied, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	if err := os.CopyFS(copied, os.DirFS(stored)); err != nil {
		t.Fatal(err)
	}
	gate.Open()
	o := goldenOptions(t, into)
	o.RestorePath = filepath.Join(copied, "chk-1")
	launch(t, t.TempDir(), o, totalJob(out, goldenItems(gate), newP)).end()
	want(t, "what is emitted after the restore", out.Values(), result)
}
