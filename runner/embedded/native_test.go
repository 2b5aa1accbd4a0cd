package embedded_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// lsm has next to no memory: nearly all state lies on disk.
func lsm(t *testing.T) embedded.Options {
	return embedded.Options{StateBackend: embedded.LSM, LSMMemory: 1000, LSMDir: t.TempDir()}
}

// meta loads a checkpoint of the test's job.
func meta(t *testing.T, dir string, id int64) *snapshot.Metadata {
	t.Helper()
	m, err := snapshot.Load(t.Context(), file.New(dir), snapshot.CheckpointDir("test", id))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func sharedOf(m *snapshot.Metadata) (names []string) {
	for _, f := range m.Files {
		if snapshot.IsShared(f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// A job with the lsm backend stores its databases' files, refers to those that
// an earlier checkpoint has stored, and restores each checkpoint that it
// retains: exactly what it was, at any parallelism, in either backend.
func TestEveryRetainedCheckpointIsRestored(t *testing.T) {
	const rounds = 4
	dir, keys := t.TempDir(), numbered("k", 300)
	var gates []*jobtest.Gate
	build := func(out *collect.Sink[string]) func(*stream.Job) {
		var parts [][]jobtest.Item[string]
		for i := range rounds {
			parts = append(parts, records(keys[:300>>i]...), hold(gates[i]))
		}
		return countJob(out, script(parts...))
	}
	for range rounds {
		gates = append(gates, jobtest.NewGate())
	}
	o := lsm(t)
	o.Parallelism, o.Checkpoint.Retained = 2, rounds
	r := launch(t, dir, o, build(collect.New[string]()))
	var ids []int64
	for _, g := range gates {
		r.reach(g)
		ids = append(ids, r.checkpoint())
		g.Open()
	}
	r.kill()

	first, second := sharedOf(meta(t, dir, ids[0])), sharedOf(meta(t, dir, ids[1]))
	if !slices.ContainsFunc(second, func(name string) bool { return slices.Contains(first, name) }) {
		t.Errorf("the second checkpoint shares nothing with the first: %v and %v", second, first)
	}
	for i, id := range ids {
		for n, o := range []embedded.Options{lsm(t), lsm(t), lsm(t), {}} {
			gates = nil
			for range rounds {
				g := jobtest.NewGate()
				g.Open()
				gates = append(gates, g)
			}
			out := collect.New[string]()
			o.Parallelism = []int{2, 3, 1, 2}[n]
			o.RestorePath = filepath.Join(dir, snapshot.CheckpointDir("test", id))
			launch(t, t.TempDir(), o, build(out)).end()
			var vals []string
			for round := i + 1; round < rounds; round++ {
				vals = append(vals, counted(round+1, round+1, keys[:300>>round]...)...)
			}
			want(t, fmt.Sprintf("checkpoint %d at parallelism %d", id, o.Parallelism), out.Values(), vals...)
		}
	}
}

// Suspended and started at other parallelisms, with timers, again and again.
func TestStateOnDiskIsRescaled(t *testing.T) {
	dir, out := t.TempDir(), collect.NewExactlyOnce[string]()
	keys := numbered("k", 200)
	var gates []*jobtest.Gate
	input := [][]jobtest.Item[string]{records(keys...)}
	for range 4 {
		gates = append(gates, jobtest.NewGate())
		input = append(input, hold(gates[len(gates)-1]))
	}
	input = append(input, []jobtest.Item[string]{jobtest.WM[string](1000)})
	build := func(j *stream.Job) {
		stream.To(stream.Process(stream.KeyBy(jobtest.Splits(j, "in", 0, script(input...)), itself), "owner", newOwner), "out", out)
	}
	local := t.TempDir()
	for i, parallelism := range []int{2, 3, 1} {
		o := embedded.Options{StateBackend: embedded.LSM, LSMMemory: 1000, LSMDir: local, Parallelism: parallelism}
		r := launch(t, dir, o, build)
		r.reach(gates[i])
		r.checkpoint()
		r.suspend()
		want(t, "timers before their time", out.Values())
		gates[i].Open()
	}
	gates[3].Open()
	launch(t, dir, embedded.Options{StateBackend: embedded.LSM, LSMMemory: 1 << 20, LSMDir: local, Parallelism: 2}, build).end()
	var names []string
	for _, k := range keys {
		names = append(names, fmt.Sprintf("name of %s@1000", k))
	}
	want(t, "timers", out.Values(), names...)
	if left, err := os.ReadDir(local); len(left) > 0 || err != nil {
		t.Errorf("left on the local disk: %v, error %v", left, err)
	}
}

// widened counts as newCounter does, and declares a state before it: the rows
// of a job that was declared otherwise are not taken over as they are.
type widened struct {
	*counter
	seen state.Value[bool]
}

func newWidened(r *state.Registry) *widened {
	w := &widened{seen: state.ValueIn[bool](r, "seen")}
	w.counter = newCounter(r)
	return w
}

func TestStatesDeclaredOtherwiseAreRead(t *testing.T) {
	dir, gate, out, keys := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string](), numbered("k", 100)
	input := script(records(keys...), hold(gate), records(keys...))
	r := launch(t, dir, lsm(t), countJob(out, input))
	r.reach(gate)
	r.suspend()
	gate.Open()
	o := lsm(t)
	o.Parallelism = 3
	launch(t, dir, o, func(j *stream.Job) {
		stream.To(stream.Process(stream.KeyBy(jobtest.Splits(j, "in", 0, input), itself), "count", newWidened), "out", out)
	}).end()
	want(t, "counts", out.Values(), counted(1, 2, keys...)...)
}

// A file that is gone, or damaged, is named, and there is no restart that
// tries it again and again.
func TestBadSharedFileIsNamed(t *testing.T) {
	for what, harm := range map[string]func(name string) error{
		"deleted": os.Remove,
		"one bit": func(name string) error {
			b, err := os.ReadFile(name)
			if err == nil {
				b[len(b)/2] ^= 1
				err = os.WriteFile(name, b, 0o600)
			}
			return err
		},
	} {
		for _, parallelism := range []int{1, 2} {
			t.Run(fmt.Sprint(what, " at ", parallelism), func(t *testing.T) {
				dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.New[string]()
				build := countJob(out, script(records(numbered("k", 100)...), hold(gate)))
				r := launch(t, dir, lsm(t), build)
				r.reach(gate)
				id := r.checkpoint()
				r.kill()
				name := filepath.Join(dir, snapshot.CheckpointDir("test", id), sharedOf(meta(t, dir, id))[0])
				if err := harm(name); err != nil {
					t.Fatal(err)
				}
				gate.Open()
				o := lsm(t)
				o.Parallelism, o.Restart = parallelism, checkpoint.FixedDelay{Attempts: 100, Delay: ms}
				o.RestorePath = filepath.Join(dir, snapshot.CheckpointDir("test", id))
				wantError(t, launch(t, t.TempDir(), o, build).result(), filepath.Base(name))
			})
		}
	}
}

// batchEnd is a watermark: the next record is in another batch, for which room may have
// to be made.
var batchEnd = []jobtest.Item[string]{jobtest.WM[string](1)}

// While all state is in memory its checkpoints are what has changed, and when it has
// outgrown that, files of the databases. Each of them is restored, at any parallelism and
// in either backend.
func TestStateOutgrowsMemory(t *testing.T) {
	few, many := numbered("k", 60), numbered("m", 400)
	dir, open := t.TempDir(), jobtest.NewGate()
	open.Open()
	gates := []*jobtest.Gate{jobtest.NewGate(), jobtest.NewGate(), jobtest.NewGate()}
	build := func(out *collect.Sink[string], g []*jobtest.Gate) func(*stream.Job) {
		return countJob(out, script(records(few...), hold(g[0]), records(few[:6]...), hold(g[1]), records(many...), hold(g[2]), records(many...), records(few...)))
	}
	o := lsm(t)
	o.LSMMemory = 160 << 10 // enough for the first tables of half of the key groups
	o.Parallelism, o.Checkpoint.Retained = 2, 3
	r := launch(t, dir, o, build(collect.New[string](), gates))
	var ids []int64
	for _, g := range gates {
		r.reach(g)
		ids = append(ids, r.checkpoint())
		g.Open()
	}
	r.kill()
	for i, id := range ids {
		for _, op := range meta(t, dir, id).Operators {
			for _, sub := range op.Subtasks {
				if n := len(sub.Increments); i < 2 && (sub.Native != nil || n > i) || i == 2 && op.KeyFormat != nil && sub.Native == nil {
					t.Errorf("checkpoint %d of operator %s: files of the database %v, changes %d", id, op.ID, sub.Native, n)
				}
			}
		}
		for n, o := range []embedded.Options{lsm(t), lsm(t), lsm(t), {}} {
			out := collect.New[string]()
			o.Parallelism = []int{2, 3, 1, 2}[n]
			o.RestorePath = filepath.Join(dir, snapshot.CheckpointDir("test", id))
			launch(t, t.TempDir(), o, build(out, []*jobtest.Gate{open, open, open})).end()
			vals := slices.Concat(counted(2, 2, many...), counted(3, 3, few[:6]...), counted(2, 2, few[6:]...))
			if i < 2 {
				vals = append(vals, counted(1, 1, many...)...)
			}
			if i == 0 {
				vals = append(vals, counted(2, 2, few[:6]...)...)
			}
			want(t, fmt.Sprintf("checkpoint %d at parallelism %d", id, o.Parallelism), out.Values(), vals...)
		}
	}
}

// A native savepoint has all of its files beside it, and restores from where it
// was moved to, into either backend and at any parallelism.
func TestNativeSavepointIsSelfContained(t *testing.T) {
	gate, keys := jobtest.NewGate(), numbered("k", 200)
	input := script(records(keys[:100]...), batchEnd, records(keys[100:]...), records(keys...), hold(gate), records(keys...))
	dir := t.TempDir()
	o := lsm(t)
	o.Parallelism = 2
	r := launch(t, dir, o, countJob(collect.New[string](), input))
	r.reach(gate)
	r.checkpoint()
	path, err := r.job.SavepointWith(r.ctx, embedded.SavepointOptions{Dir: t.TempDir(), Native: true})
	if err != nil {
		t.Fatal(err)
	}
	r.kill()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	m, err := snapshot.Load(t.Context(), file.New(filepath.Dir(moved)), "moved")
	if err != nil {
		t.Fatal(err)
	}
	native := 0
	for _, op := range m.Operators {
		for _, sub := range op.Subtasks {
			if sub.Native != nil {
				native++
			}
		}
	}
	if shared := sharedOf(m); native != 2 || len(shared) > 0 {
		t.Errorf("%d subtasks are stored as files, want 2; files elsewhere: %v", native, shared)
	}
	gate.Open()
	for _, o := range []embedded.Options{lsm(t), {}} {
		for _, parallelism := range []int{2, 3} {
			out := collect.New[string]()
			o.Parallelism, o.RestorePath = parallelism, moved
			launch(t, t.TempDir(), o, countJob(out, input)).end()
			want(t, fmt.Sprint(o.StateBackend, " at ", parallelism), out.Values(), counted(3, 3, keys...)...)
		}
	}
}
