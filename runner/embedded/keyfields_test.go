package embedded_test

import (
	"fmt"
	"testing"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// route is a key, byTarget the same with its fields exchanged, and renamedRoute
// with other names.
type (
	route        struct{ From, To string }
	byTarget     struct{ To, From string }
	renamedRoute struct{ From, Target string }
)

// trips counts by key K, and by M within it.
type trips[K, M comparable] struct {
	mine func(string) M
	n    state.Map[M, int64]
}

func (f *trips[K, M]) Process(c *stream.Ctx[K, string], v string) error {
	n, _, err := f.n.Get(f.mine(v))
	if err != nil {
		return err
	}
	c.Emit(fmt.Sprintf("%s=%d", v, n+1))
	return f.n.Put(f.mine(v), n+1)
}

func tripsJob[K, M comparable](out *collect.Sink[string], items []jobtest.Item[string], key func(string) K, mine func(string) M) func(*stream.Job) {
	return func(j *stream.Job) {
		k := stream.KeyBy(jobtest.Script(j, "in", items...), key)
		stream.To(stream.Process(k, "trips", func(r *state.Registry) *trips[K, M] {
			return &trips[K, M]{mine, state.MapIn[M, int64](r, "by")}
		}), "out", out)
	}
}

// Fields of a key that have exchanged their places are refused: its state would
// be found under another one.
func TestAKeyWhoseFieldsChangePlacesIsRefused(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	items := script(records("a", "a"), hold(gate), records("a"))
	plain := func(v string) route { return route{v, "x"} }
	exchanged := func(v string) byTarget { return byTarget{From: v, To: "x"} }
	r := launch(t, dir, embedded.Options{}, tripsJob(out, items, plain, plain))
	r.reach(gate)
	r.suspend()
	gate.Open()

	err := failsAtOnce(t, dir, embedded.Options{}, tripsJob(out, items, exchanged, plain))
	wantError(t, err, `operator "trips"`, "incompatible state", "keys of type struct{From string; To string}", "keys of type struct{To string; From string}")
	err = failsAtOnce(t, dir, embedded.Options{}, tripsJob(out, items, plain, exchanged))
	wantError(t, err, `operator "trips"`, `state "by"`, "map of struct{From string; To string} to int64", "map of struct{To string; From string} to int64", "the keys of a map cannot change")

	renamed := func(v string) renamedRoute { return renamedRoute{v, "x"} }
	launch(t, dir, embedded.Options{}, tripsJob(out, items, renamed, renamed)).end()
	want(t, "counts", out.Values(), "a=1", "a=2", "a=3")
}
