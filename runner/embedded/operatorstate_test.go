package embedded_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// given is what the subtasks of a function were given at a restore.
type given struct {
	mu   sync.Mutex
	held map[int]string
}

func (g *given) note(r *stream.Runtime, held []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.IsRestored() {
		g.held[r.Subtask()] = strings.Join(held, "")
	}
}

func (g *given) want(t *testing.T, what string, want ...string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) != len(want) {
		t.Errorf("%s: %d subtasks were given something, want %d", what, len(g.held), len(want))
	}
	for i, w := range want {
		if g.held[i] != w {
			t.Errorf("%s: subtask %d was given %q, want %q", what, i, g.held[i], w)
		}
	}
	clear(g.held)
}

// claimer keeps one letter of its own in a union list, by its index.
type claimer struct {
	letters state.UnionList[string]
	given   *given
}

func (f *claimer) Initialize(r *stream.Runtime) error {
	all := f.letters.Get()
	f.given.note(r, all)
	mine := string(rune('a' + r.Subtask()))
	f.letters.Clear()
	if !r.IsRestored() || slices.Contains(all, mine) {
		f.letters.Add(mine)
	}
	return nil
}

func (f *claimer) Process(*stream.Ctx[stream.NoKey, string], string) error { return nil }

func TestO03UnionListDoesNotGrow(t *testing.T) {
	dir, end, g := t.TempDir(), jobtest.NewGate(), &given{held: map[int]string{}}
	build := func(j *stream.Job) {
		s := jobtest.Script(j, "in", script(records("x"), hold(end))...)
		stream.To(stream.ProcessUnkeyed(s, "claimer", func(r *state.Registry) *claimer {
			return &claimer{state.UnionListIn[string](r, "letters"), g}
		}), "out", collect.New[string]())
	}
	restart := func(parallelism int) {
		r := launch(t, dir, embedded.Options{Parallelism: parallelism}, build)
		r.wait(embedded.Started)
		r.suspend()
	}
	restart(2)
	g.want(t, "fresh")
	for i := range 10 {
		restart(2)
		g.want(t, fmt.Sprintf("restore %d", i+1), "ab", "ab")
	}
	restart(3)
	g.want(t, "restore at 3", "ab", "ab", "ab")
	restart(1)
	g.want(t, "restore at 1", "ab")
	restart(2)
	g.want(t, "restore at 2, when subtask 0 alone had kept anything", "a", "a")
}

// shards gets every record in every subtask, which keeps those of its share of
// the keys in a union list, and emits them at the end.
type shards struct {
	kept state.UnionList[string]
	mine func(v string) bool
}

func newShards(r *state.Registry) *shards { return &shards{kept: state.UnionListIn[string](r, "kept")} }

func (f *shards) Initialize(r *stream.Runtime) error {
	f.mine = func(v string) bool { return int(v[1])%r.Parallelism() == r.Subtask() }
	f.kept.Update(slices.DeleteFunc(f.kept.Get(), func(v string) bool { return !f.mine(v) }))
	return nil
}

func (f *shards) Process(_ *stream.Ctx[stream.NoKey, string], v string) error {
	if f.mine(v) {
		f.kept.Add(v)
	}
	return nil
}

func (f *shards) EndInput(c *stream.Ctx[stream.NoKey, string]) error {
	for v := range f.kept.All() {
		c.EmitAt(v, time.UnixMilli(0))
	}
	f.kept.Clear()
	return nil
}

// pass passes records on; what it declares is what counts.
type pass struct{}

func (pass) Process(c *stream.Ctx[string, string], v string) error      { c.Emit(v); return nil }
func (pass) ProcessBroadcast(*stream.Ctx[string, string], string) error { return nil }

// A state that is stored as another kind is refused before anything is begun.
func TestOperatorStateOfAnotherKindIsRefused(t *testing.T) {
	kinds := []struct {
		form    string
		declare func(*state.Registry)
	}{
		{"value of string", func(r *state.Registry) { state.ValueIn[string](r, "x") }},
		{"operator list of string", func(r *state.Registry) { state.OperatorListIn[string](r, "x") }},
		{"union list of string", func(r *state.Registry) { state.UnionListIn[string](r, "x") }},
		{"raw state", func(r *state.Registry) { state.RawIn(r, "x") }},
		{"raw state of key groups", func(r *state.Registry) { state.KeyedRawIn(r, "x") }},
		{"broadcast state of int64 to string", func(r *state.Registry) { state.BroadcastIn[int64, string](r, "x") }},
		{"broadcast state of int64 to int64", func(r *state.Registry) { state.BroadcastIn[int64, int64](r, "x") }},
	}
	gate := jobtest.NewGate()
	build := func(declare func(*state.Registry)) func(*stream.Job) {
		return func(j *stream.Job) {
			s := jobtest.Script(j, "in", script(records("k-1", "k-2"), hold(gate))...)
			connected := stream.Connect(stream.KeyBy(s, key), stream.Broadcast(s))
			stream.To(stream.KeyedBroadcastProcess(connected, "pass", func(r *state.Registry) pass { declare(r); return pass{} }), "out", collect.New[string]())
		}
	}
	for _, was := range kinds {
		dir := t.TempDir()
		r := launch(t, dir, embedded.Options{}, build(was.declare))
		r.wait(embedded.Started)
		r.suspend()
		for _, is := range kinds {
			if is.form == was.form {
				continue
			}
			err := launch(t, dir, embedded.Options{Parallelism: 2}, build(is.declare)).result()
			wantError(t, err, `operator "pass"`, `state "x" is stored as `+was.form+" and declared as "+is.form)
			if !errors.Is(err, state.ErrIncompatible) {
				t.Errorf("%v is no ErrIncompatible", err)
			}
		}
	}
}
