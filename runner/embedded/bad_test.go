package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/internal/storage/storagetest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// thrice would restart a job that no restart mends, and be noticed.
var thrice = checkpoint.FixedDelay{Attempts: 3, Delay: ms}

// failsAtOnce runs a job that must fail without a restart and returns its error.
func failsAtOnce(t *testing.T, dir string, o embedded.Options, build func(*stream.Job)) error {
	t.Helper()
	o.Restart = thrice
	r := launch(t, dir, o, build)
	err := r.result()
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the job ended with %v, want its failure; events %v", err, r.kinds())
	}
	if n := r.job.Status().Restarts; n != 0 {
		t.Errorf("%d restarts for what no restart mends: %v", n, err)
	}
	return err
}

// snapshotted runs countJob up to a checkpoint, kills it, and returns the
// checkpoint's directory.
func snapshotted(t *testing.T, dir string, out *collect.Sink[string]) string {
	t.Helper()
	gate := jobtest.NewGate()
	r := launch(t, dir, embedded.Options{}, countJob(out, script(records(numbered("k", 20)...), hold(gate))))
	r.reach(gate)
	id := r.checkpoint()
	r.kill()
	return filepath.Join(dir, "test", fmt.Sprint("chk-", id))
}

func TestBadRestorePath(t *testing.T) {
	dir := t.TempDir()
	build := countJob(collect.New[string](), records("a"))
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte("not this"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other", "_metadata")
	if err := os.MkdirAll(filepath.Dir(other), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("{\"some\": \"json\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{filepath.Join(dir, "nowhere"), empty, text, other, filepath.Dir(other)} {
		t.Run(filepath.Base(p), func(t *testing.T) {
			err := failsAtOnce(t, filepath.Join(t.TempDir(), "chk"), embedded.Options{RestorePath: p}, build)
			t.Log(err)
			wantError(t, err, p, "snapshot")
		})
	}
}

// damage is something that happens to a file.
var damage = map[string]func([]byte) []byte{
	"empty":     func([]byte) []byte { return nil },
	"truncated": func(b []byte) []byte { return b[:len(b)-1] },
	"half":      func(b []byte) []byte { return b[:len(b)/2] },
	"longer":    func(b []byte) []byte { return append(b[:len(b):len(b)], 0) },
}

// flips are changes of one random bit each.
func flips(n int) map[string]func([]byte) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	all := map[string]func([]byte) []byte{}
	for i := range n {
		all[fmt.Sprint("bit ", i)] = func(b []byte) []byte {
			b = slices.Clone(b)
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			return b
		}
	}
	return all
}

func TestBadMetadata(t *testing.T) {
	dir, out := t.TempDir(), collect.NewExactlyOnce[string]()
	keys := numbered("k", 20)
	chk := snapshotted(t, dir, out)
	name := filepath.Join(chk, "_metadata")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	build := countJob(out, script(records(keys...), records("k1")))
	for _, edits := range []map[string]func([]byte) []byte{damage, flips(20)} {
		for what, edit := range edits {
			t.Run(what, func(t *testing.T) {
				if err := os.WriteFile(name, edit(whole), 0o600); err != nil {
					t.Fatal(err)
				}
				wantError(t, failsAtOnce(t, dir, embedded.Options{}, build), "chk-1/_metadata", "no older snapshot is left", "or delete the job's directory")
				wantError(t, failsAtOnce(t, dir, embedded.Options{RestorePath: chk, Rewind: true}, build), "chk-1/_metadata")
			})
		}
	}
	want(t, "output", out.Values(), counted(1, 1, keys...)...) // nothing ran on what was left
	if err := os.WriteFile(name, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	launch(t, dir, embedded.Options{}, build).end()
	want(t, "output once it is whole again", out.Values(), append(counted(1, 1, keys...), "k1=2")...)
}

// dataFile is a file of the counts in a checkpoint's directory, whatever the
// backend.
func dataFile(t testing.TB, chk string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(chk, "count-0-a1*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no data file in %s: %v", chk, err)
	}
	return filepath.Base(names[0])
}

// A data file with a flipped bit is refused before the start is recorded,
// whatever the bit carried.
func TestBadDataFile(t *testing.T) {
	dir, keys := t.TempDir(), numbered("k", 200)
	gate := jobtest.NewGate()
	items := script(records(keys...), hold(gate), records(keys...))
	r := launch(t, dir, embedded.Options{MaxParallelism: 4}, countJob(collect.New[string](), items))
	r.reach(gate)
	r.checkpoint()
	r.kill()
	gate.Open()
	file := dataFile(t, filepath.Join(dir, "test", "chk-1"))
	whole, err := os.ReadFile(filepath.Join(dir, "test", "chk-1", file))
	if err != nil {
		t.Fatal(err)
	}
	try := func(t *testing.T, edit func([]byte) []byte) {
		copied, out := t.TempDir(), collect.New[string]()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		chk := filepath.Join(copied, "test", "chk-1")
		if err := os.WriteFile(filepath.Join(chk, file), edit(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		r := launch(t, copied, embedded.Options{RestorePath: chk, Rewind: true, Restart: thrice}, countJob(out, items))
		err := r.result()
		wantError(t, err, "start refused", "chk-1", file)
		if n := r.job.Status().Restarts; n != 0 {
			t.Errorf("%d restarts: %v", n, err)
		}
		want(t, "output", out.Values())
	}
	for what, edit := range damage {
		t.Run(what, func(t *testing.T) { try(t, edit) })
	}
	for what, edit := range flips(60) {
		t.Run(what, func(t *testing.T) { try(t, edit) })
	}
}

// A job without exactly-once sinks goes back to the checkpoint before.
func TestBadSnapshotGoesBackToTheOneBefore(t *testing.T) {
	truncate := func(name string) error { return os.Truncate(name, 10) }
	metadata := func(testing.TB, string) string { return "_metadata" }
	for what, tc := range map[string]struct {
		file   func(t testing.TB, chk string) string
		damage func(name string) error
	}{
		"_metadata":              {metadata, truncate},
		"data file":              {dataFile, truncate},
		"one bit of a data file": {dataFile, flipMiddleBit},
	} {
		t.Run(what, func(t *testing.T) {
			dir, out := t.TempDir(), collect.New[string]()
			g1, g2 := jobtest.NewGate(), jobtest.NewGate()
			build := countJob(out, script(records("a"), hold(g1), records("a"), hold(g2), records("a")))
			r := launch(t, dir, embedded.Options{}, build)
			r.reach(g1)
			r.checkpoint()
			g1.Open()
			r.reach(g2)
			id := r.checkpoint()
			r.kill()
			chk := filepath.Join(dir, "test", fmt.Sprint("chk-", id))
			if err := tc.damage(filepath.Join(chk, tc.file(t, chk))); err != nil {
				t.Fatal(err)
			}
			g2.Open()
			r = launch(t, dir, embedded.Options{}, build)
			if e := r.wait(embedded.Started); e.Checkpoint != 1 {
				t.Errorf("started from %d, want 1", e.Checkpoint)
			}
			r.end()
			want(t, "counts", out.Values(), "a=1", "a=2", "a=2", "a=3")
		})
	}
}

// With exactly-once sinks it is refused, with what going back costs.
func TestBadDataFileOfExactlyOnceJob(t *testing.T) {
	dir, out := t.TempDir(), collect.NewExactlyOnce[string]()
	keys := numbered("k", 20)
	chk := snapshotted(t, dir, out)
	name := filepath.Join(chk, dataFile(t, chk))
	build := countJob(out, script(records(keys...), records("k1")))
	if err := flipMiddleBit(name); err != nil {
		t.Fatal(err)
	}
	wantError(t, failsAtOnce(t, dir, embedded.Options{}, build), "start refused", "chk-1/count-0-a1", "restore its files from a backup, which costs nothing", "no older snapshot is left")
	want(t, "output", out.Values(), counted(1, 1, keys...)...)
	if err := flipMiddleBit(name); err != nil { // repaired
		t.Fatal(err)
	}
	launch(t, dir, embedded.Options{}, build).end()
	want(t, "output once it is whole again", out.Values(), append(counted(1, 1, keys...), "k1=2")...)
}

func flipMiddleBit(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	data[len(data)/2] ^= 1
	return os.WriteFile(name, data, 0o600)
}

// typed keeps a T per key.
type typed[T any] struct{ v state.Value[T] }

func (f *typed[T]) Process(*stream.Ctx[string, string], string) error {
	var v T
	return f.v.Set(v)
}

func typedJob[T any](items []jobtest.Item[string]) func(*stream.Job) {
	return func(j *stream.Job) {
		s := jobtest.Script(j, "in", items...)
		stream.To(stream.Process(stream.KeyBy(s, itself), "typed", func(r *state.Registry) *typed[T] {
			return &typed[T]{state.ValueIn[T](r, "v")}
		}), "out", collect.New[string]())
	}
}

func TestBadStateType(t *testing.T) {
	type wide struct{ A, B int64 }
	type renamed struct{ C, D int64 }
	for name, tc := range map[string]struct {
		was, is func([]jobtest.Item[string]) func(*stream.Job)
	}{
		"int64 to string": {typedJob[int64], typedJob[string]},
		"int64 to int32":  {typedJob[int64], typedJob[int32]},
		"fields renamed":  {typedJob[wide], typedJob[renamed]},
	} {
		t.Run(name, func(t *testing.T) {
			dir, gate := t.TempDir(), jobtest.NewGate()
			items := script(records("a"), hold(gate))
			r := launch(t, dir, embedded.Options{}, tc.was(items))
			r.reach(gate)
			r.suspend()
			gate.Open()
			err := failsAtOnce(t, dir, embedded.Options{}, tc.is(items))
			t.Log(err)
			wantError(t, err, `"typed"`, `"v"`, "stored", "another name")
		})
	}
}

func TestBadKeyType(t *testing.T) {
	dir, gate := t.TempDir(), jobtest.NewGate()
	items := script(records("a"), hold(gate))
	r := launch(t, dir, embedded.Options{}, countJob(collect.New[string](), items))
	r.reach(gate)
	r.suspend()
	err := failsAtOnce(t, dir, embedded.Options{}, func(j *stream.Job) {
		s := jobtest.Script(j, "in", items...)
		stream.To(stream.Process(stream.KeyBy(s, floatKey), "count", newFloatCounter), "out", collect.New[string]())
	})
	t.Log(err)
	wantError(t, err, `"count"`, "key type", "--fresh")
}

func TestBadSourceKind(t *testing.T) {
	dir, gate := t.TempDir(), jobtest.NewGate()
	out := collect.New[string]()
	r := launch(t, dir, embedded.Options{}, func(j *stream.Job) {
		stream.To(jobtest.Script(j, "in", script(records("a"), hold(gate))...), "out", out)
	})
	r.reach(gate)
	r.suspend()
	err := failsAtOnce(t, dir, embedded.Options{}, func(j *stream.Job) {
		stream.To(stream.FromSlice(j, "in", []string{"a"}), "out", out)
	})
	t.Log(err)
	wantError(t, err, `"in"`, "another id", "--fresh")
}

func TestBadMaxParallelism(t *testing.T) {
	dir, gate := t.TempDir(), jobtest.NewGate()
	build := countJob(collect.New[string](), script(records("a"), hold(gate)))
	r := launch(t, dir, embedded.Options{MaxParallelism: 16}, build)
	r.reach(gate)
	r.suspend()
	wantError(t, failsAtOnce(t, dir, embedded.Options{MaxParallelism: 32}, build), `"count"`, "32", "16", "--fresh")
	wantError(t, failsAtOnce(t, dir, embedded.Options{Parallelism: 17}, build), `"count"`, "17", "at most 16")
}

func TestBadTwoProcesses(t *testing.T) {
	dir, gate := t.TempDir(), jobtest.NewGate()
	build := countJob(collect.New[string](), script(records("a"), hold(gate)))
	r := launch(t, dir, embedded.Options{}, build)
	r.reach(gate)
	err := failsAtOnce(t, dir, embedded.Options{}, build)
	host, herr := os.Hostname()
	if herr != nil {
		t.Fatal(herr)
	}
	t.Log(err)
	wantError(t, err, dir, "in use by another process", "host "+host, fmt.Sprint("pid ", os.Getpid()), "stop it first", `"test"`)
	r.checkpoint() // the first is not disturbed
	r.kill()
	gate.Open()
	launch(t, dir, embedded.Options{}, build).end()
}

func TestBadDiskFull(t *testing.T) {
	keys := numbered("k", 50)
	begin := func(t *testing.T, tolerable int) (*run, *storagetest.Faulty, *jobtest.Gate, *collect.Sink[string]) {
		disk, gate, out := storagetest.NewFaulty(mem.New()), jobtest.NewGate(), collect.NewExactlyOnce[string]()
		o := embedded.Options{Storage: disk, Checkpoint: checkpoint.Options{TolerableFailures: tolerable}}
		r := launch(t, checkpoint.Memory, o, countJob(out, script(records(keys...), hold(gate), records(keys...))))
		r.reach(gate)
		r.checkpoint()
		return r, disk, gate, out
	}
	for _, room := range []int64{0, 10, 500} {
		t.Run(fmt.Sprint("tolerable, room for ", room), func(t *testing.T) {
			r, disk, gate, out := begin(t, 2)
			for range 2 {
				disk.FullAfter(room)
				_, err := r.job.TakeCheckpoint(r.ctx)
				wantError(t, err, syscall.ENOSPC.Error(), "chk-")
				if e := r.wait(embedded.CheckpointFailed); e.Err == nil {
					t.Error("a failed checkpoint without a reason")
				}
			}
			disk.FullAfter(-1)
			r.checkpoint()
			gate.Open()
			r.end()
			want(t, "counts", out.Values(), counted(1, 2, keys...)...)
		})
		t.Run(fmt.Sprint("not tolerable, room for ", room), func(t *testing.T) {
			r, disk, _, out := begin(t, 0)
			disk.FullAfter(room)
			_, err := r.job.TakeCheckpoint(r.ctx)
			wantError(t, err, syscall.ENOSPC.Error())
			err = r.result()
			t.Log(err)
			wantError(t, err, syscall.ENOSPC.Error(), "chk-", "memory:", "execution.checkpointing.tolerable-failed-checkpoints")
			want(t, "counts", out.Values(), counted(1, 1, keys...)...)
		})
	}
}
