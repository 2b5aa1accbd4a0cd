package embedded_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// tallyState has state of most kinds for a key. A record "key" counts, "key-"
// clears all, "key?" emits what there is.
type tallyState struct {
	n       state.Value[int64]
	seen    state.List[string]
	byShape state.Map[string, int64]
	timers  state.Timers
}

func newTallied(r *state.Registry) *tallyState {
	return &tallyState{state.ValueIn[int64](r, "n"), state.ListIn[string](r, "seen"), state.MapIn[string, int64](r, "by shape"), state.EventTimers(r)}
}

func tallied(v string) string { return strings.TrimRight(v, "-?") }

func (f *tallyState) Process(c *stream.Ctx[string, string], v string) error {
	n, err := f.n.Get()
	switch {
	case err != nil:
		return err
	case strings.HasSuffix(v, "-"):
		for _, clear := range []func() error{f.n.Clear, f.seen.Clear, f.byShape.Clear, func() error { return f.timers.Delete(time.UnixMilli(1 << 40)) }} {
			if err := clear(); err != nil {
				return err
			}
		}
		return nil
	case strings.HasSuffix(v, "?"):
		seen, err := f.seen.Get()
		if err != nil {
			return err
		}
		shape, _, err := f.byShape.Get("round")
		c.Emit(fmt.Sprintf("%s %d %d %d", c.Key(), n, len(seen), shape))
		return err
	}
	if err := f.seen.Add(v); err != nil {
		return err
	}
	if err := f.byShape.Put("round", n+1); err != nil {
		return err
	}
	if err := f.timers.Set(time.UnixMilli(1 << 40)); err != nil {
		return err
	}
	return f.n.Set(n + 1)
}

func (f *tallyState) OnTimer(c *stream.Ctx[string, string], _ time.Time) error {
	c.Emit("timer of " + c.Key())
	return nil
}

// chainJob holds its input between the rounds.
type chainJob struct {
	out   *collect.Sink[string]
	gates []*jobtest.Gate
	input []jobtest.Item[string]
	dir   string
	o     embedded.Options
}

func newChainJob(t *testing.T, rounds ...[]string) *chainJob {
	j := &chainJob{out: collect.NewExactlyOnce[string](), dir: t.TempDir(),
		o: embedded.Options{StateBackend: embedded.Heap, Parallelism: 2, MaxParallelism: 16, Checkpoint: checkpoint.Options{Incremental: true}}}
	for _, r := range rounds {
		g := jobtest.NewGate()
		j.gates = append(j.gates, g)
		j.input = script(j.input, records(r...), hold(g))
	}
	return j
}

func (j *chainJob) launch(t *testing.T) *run {
	return launch(t, j.dir, j.o, func(job *stream.Job) {
		s := jobtest.Splits(job, "in", 0, j.input)
		stream.To(stream.Process(stream.KeyBy(s, tallied), "tally", newTallied), "out", j.out)
	})
}

// checkpoint takes a checkpoint at the gate of a round and returns the files of
// the operator's subtasks.
func (j *chainJob) checkpoint(t *testing.T, r *run, round int) [][]string {
	t.Helper()
	r.reach(j.gates[round])
	return j.files(t, r.checkpoint())
}

func (j *chainJob) files(t *testing.T, id int64) [][]string {
	t.Helper()
	m, err := snapshot.Load(t.Context(), file.New(j.dir), snapshot.CheckpointDir("test", id))
	if err != nil {
		t.Fatal(err)
	}
	if err := snapshot.Verify(t.Context(), file.New(j.dir), snapshot.CheckpointDir("test", id), m); err != nil {
		t.Error(err)
	}
	var files [][]string
	for _, op := range m.Operators {
		for _, s := range op.Subtasks {
			if op.ID == "tally" {
				files = append(files, s.DataFiles())
			}
		}
	}
	return files
}

func suffixed(keys []string, s string) []string {
	var out []string
	for _, k := range keys {
		out = append(out, k+s)
	}
	return out
}

// Checkpoints go on from the one before, and the next attempt from the one it
// was restored from, whatever was changed, removed and made anew between; one
// of another parallelism begins anew.
func TestIncrementalCheckpoints(t *testing.T) {
	keys := numbered("k", 400)
	j := newChainJob(t, keys, slices.Concat(keys[:10], suffixed(keys[10:20], "-")), slices.Concat(keys[15:18], suffixed(keys[5:8], "-")),
		keys[:1], suffixed(keys, "?"), []string{"more"}, suffixed(keys, "?"))
	r := j.launch(t)
	base := j.checkpoint(t, r, 0)
	j.gates[0].Open()
	second := j.checkpoint(t, r, 1)
	for i := range base {
		if len(base[i]) != 1 || len(second[i]) != 2 || second[i][0] != base[i][0] || !snapshot.IsShared(base[i][0]) {
			t.Fatalf("the files of subtask %d are %v, then %v", i, base[i], second[i])
		}
	}
	r.kill()
	j.gates[1].Open()
	r = j.launch(t)
	third := j.checkpoint(t, r, 2)
	for i := range third {
		if len(third[i]) != 3 || !slices.Equal(third[i][:2], second[i]) {
			t.Errorf("after a restore the files of subtask %d are %v, before %v", i, third[i], second[i])
		}
	}
	j.gates[2].Open()
	idle := j.checkpoint(t, r, 3)
	if again := j.files(t, r.checkpoint()); !slices.EqualFunc(again, idle, slices.Equal) {
		t.Errorf("nothing has changed, and the files are %v, before %v", again, idle)
	}
	r.kill()
	j.o.Parallelism = 3
	j.gates[3].Open()
	r = j.launch(t)
	moved := j.checkpoint(t, r, 4)
	for i := range moved {
		if len(moved[i]) != 1 {
			t.Errorf("at another parallelism the files of subtask %d are %v", i, moved[i])
		}
	}
	var wants []string
	for i, k := range keys {
		n := 1
		switch {
		case i == 0:
			n = 3
		case i < 5, i == 8, i == 9:
			n = 2
		case i >= 5 && i < 8, i >= 10 && i < 15, i >= 18 && i < 20:
			n = 0
		}
		wants = append(wants, fmt.Sprintf("%s %d %d %d", k, n, n, n))
	}
	visible(t, j.out, len(wants))
	want(t, "all state", j.out.Values(), wants...)
	r.kill()
}
