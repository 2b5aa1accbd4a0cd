package embedded_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// enum and shifted are one enumeration in two versions of a program: the
// second has a new constant in front. Both are stored by name.
type (
	enum    int
	shifted int
)

var (
	names        = []string{"PROVINCE", "AGE"}
	shiftedNames = []string{"COUNTRY", "PROVINCE", "AGE"}
)

func (e enum) MarshalText() ([]byte, error)     { return []byte(names[e]), nil }
func (e *enum) UnmarshalText(b []byte) error    { return parse(names, b, (*int)(e)) }
func (e shifted) MarshalText() ([]byte, error)  { return []byte(shiftedNames[e]), nil }
func (e *shifted) UnmarshalText(b []byte) error { return parse(shiftedNames, b, (*int)(e)) }
func (e enum) String() string                   { return names[e] }
func (e shifted) String() string                { return shiftedNames[e] }
func (e enum) Next(name string) enum            { return enum(slices.Index(names, name)) }
func (e shifted) Next(name string) shifted      { return shifted(slices.Index(shiftedNames, name)) }

func parse(names []string, b []byte, into *int) error {
	if *into = slices.Index(names, string(b)); *into < 0 {
		return errors.New("no such constant: " + string(b))
	}
	return nil
}

// tallyBy counts by constant of an enumeration E.
type tallyBy[E interface {
	comparable
	fmt.Stringer
	Next(string) E
}] struct{ counts state.Map[E, int64] }

func (f *tallyBy[E]) Process(c *stream.Ctx[string, string], v string) error {
	var e E
	e = e.Next(v)
	n, _, err := f.counts.Get(e)
	if err != nil {
		return err
	}
	c.Emit(fmt.Sprintf("%v=%d", e, n+1))
	return f.counts.Put(e, n+1)
}

func tallyJob[E interface {
	comparable
	fmt.Stringer
	Next(string) E
}](out *collect.Sink[string], items []jobtest.Item[string]) func(*stream.Job) {
	return func(j *stream.Job) {
		k := stream.KeyBy(jobtest.Script(j, "in", items...), func(string) string { return "k" })
		stream.To(stream.Process(k, "tally", func(r *state.Registry) *tallyBy[E] {
			return &tallyBy[E]{state.MapIn[E, int64](r, "counts")}
		}), "out", out)
	}
}

// Either the values are found under their names, or the restore is refused.
func TestS12EnumerationGetsAConstantInFront(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	items := script(records("PROVINCE", "AGE", "AGE"), hold(gate), records("PROVINCE", "AGE"))
	r := launch(t, dir, embedded.Options{}, tallyJob[enum](out, items))
	r.reach(gate)
	r.suspend()
	gate.Open()
	launch(t, dir, embedded.Options{}, tallyJob[shifted](out, items)).end()
	want(t, "counts", out.Values(), "PROVINCE=1", "AGE=1", "AGE=2", "PROVINCE=2", "AGE=3")
}

// keeper keeps its records in an operator list and notes what it is given at
// a restore.
type keeper struct {
	held state.OperatorList[string]
	note func(subtask int, held []string, restored bool)
}

func (f *keeper) Initialize(r *stream.Runtime) error {
	f.note(r.Subtask(), f.held.Get(), r.IsRestored())
	return nil
}

func (f *keeper) Process(_ *stream.Ctx[stream.NoKey, string], v string) error {
	f.held.Add(v)
	return nil
}

func TestO01ListStateIsDealtOut(t *testing.T) {
	dir := t.TempDir()
	gate, end := jobtest.NewGate(), jobtest.NewGate()
	var mu sync.Mutex
	given := map[int]string{}
	build := func(j *stream.Job) {
		s := jobtest.Script(j, "in", script(records("a", "b", "c", "d", "e", "f", "g"), hold(gate), hold(end))...)
		stream.To(stream.ProcessUnkeyed(s, "keeper", func(r *state.Registry) *keeper {
			return &keeper{state.OperatorListIn[string](r, "held"), func(subtask int, held []string, restored bool) {
				mu.Lock()
				defer mu.Unlock()
				if restored {
					given[subtask] = strings.Join(held, "")
				}
			}}
		}), "out", collect.New[string]())
	}
	r := launch(t, dir, embedded.Options{}, build)
	r.reach(gate)
	r.suspend()
	for _, tc := range []struct {
		parallelism int
		want        []string
	}{
		{3, []string{"abc", "de", "fg"}}, {1, []string{"abcdefg"}}, {2, []string{"abcd", "efg"}},
		{2, []string{"abcd", "efg"}}, {3, []string{"abc", "de", "fg"}}, {5, []string{"ab", "cd", "e", "f", "g"}},
	} {
		clear(given)
		r := launch(t, dir, embedded.Options{Parallelism: tc.parallelism}, build)
		r.wait(embedded.Started)
		r.suspend()
		for i, w := range tc.want {
			if given[i] != w {
				t.Errorf("parallelism %d: subtask %d was given %q, want %q", tc.parallelism, i, given[i], w)
			}
		}
	}
}
