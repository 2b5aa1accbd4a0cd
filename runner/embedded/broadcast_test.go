package embedded_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// matcher pairs each record of a key with each rule, once, whichever comes first.
type matcher struct {
	rules   state.Broadcast[string, int64]
	records state.List[string]
	given   *given
}

func newMatcher(g *given) func(*state.Registry) *matcher {
	return func(r *state.Registry) *matcher {
		return &matcher{state.BroadcastIn[string, int64](r, "rules"), state.ListIn[string](r, "records"), g}
	}
}

func (f *matcher) Initialize(r *stream.Runtime) error {
	if f.given == nil {
		return nil
	}
	var rules []string
	for rule := range f.rules.All() {
		rules = append(rules, rule)
	}
	slices.Sort(rules) // they come by way of two subtasks
	f.given.note(r, rules)
	return nil
}

func (f *matcher) Process(c *stream.Ctx[string, string], v string) error {
	for rule := range f.rules.All() {
		c.EmitAt(v+" by "+rule, time.UnixMilli(0))
	}
	return f.records.Add(v)
}

func (f *matcher) ProcessBroadcast(c *stream.Ctx[string, string], rule string) error {
	if has, err := f.rules.Contains(rule); err != nil || has {
		return fmt.Errorf("rule %q comes twice: %v, %w", rule, has, err)
	}
	if err := f.rules.Put(rule, 1); err != nil {
		return err
	}
	return c.EachKey(func(string) error {
		for v := range f.records.All() {
			c.EmitAt(v+" by "+rule, time.UnixMilli(0))
		}
		return f.records.Err()
	})
}

func isRule(v string) bool { return strings.HasPrefix(v, "k0-") && strings.HasSuffix(v, "5") }

func matched(in stream.Stream[string], g *given) stream.Stream[string] {
	rules := stream.Filter(in, isRule, stream.ID("rules"))
	records := stream.Filter(in, func(v string) bool { return !isRule(v) }, stream.ID("records"))
	return stream.KeyedBroadcastProcess(stream.Connect(stream.KeyBy(records, key), stream.Broadcast(rules)), "matcher", newMatcher(g))
}

// Every subtask gets all rules at a restore, at any parallelism, also where the
// snapshot holds more of them than fit into _metadata itself.
func TestBroadcastStateIsRestoredEverywhere(t *testing.T) {
	for _, n := range []int{3, 400} {
		dir, gate, end, out, g := t.TempDir(), jobtest.NewGate(), jobtest.NewGate(), collect.NewExactlyOnce[string](), &given{held: map[int]string{}}
		rules := make([]string, n)
		for i := range rules {
			rules[i] = fmt.Sprintf("k0-%d5", i)
		}
		build := func(j *stream.Job) {
			s := jobtest.Script(j, "in", script(records(rules...), hold(gate), records("k1-1", "k2-2"), hold(end))...)
			stream.To(matched(s, g), "out", out)
		}
		r := launch(t, dir, embedded.Options{Parallelism: 2}, build)
		r.reach(gate)
		r.checkpoint()
		r.kill()
		all := strings.Join(slices.Sorted(slices.Values(rules)), "")
		for _, parallelism := range []int{2, 5, 1} {
			r := launch(t, dir, embedded.Options{Parallelism: parallelism}, build)
			r.wait(embedded.Started)
			r.suspend()
			g.want(t, fmt.Sprintf("%d rules at %d", n, parallelism), slices.Repeat([]string{all}, parallelism)...)
		}
		gate.Open()
		end.Open()
		launch(t, dir, embedded.Options{Parallelism: 3}, build).end()
		if got := len(out.Values()); got != 2*n {
			t.Errorf("%d pairs of %d rules and 2 records", got, n)
		}
	}
}

// The lower event time of both inputs is that of the function; at the end of
// both it is over.
func TestEventTimeOfABroadcastFunction(t *testing.T) {
	out := collect.New[string]()
	gates := []*jobtest.Gate{jobtest.NewGate(), jobtest.NewGate()}
	build := func(j *stream.Job) {
		in := jobtest.Script(j, "in", script([]jobtest.Item[string]{jobtest.R("k-1", 5), jobtest.WM[string](100)}, hold(gates[0]))...)
		rules := jobtest.Script(j, "rules", script([]jobtest.Item[string]{jobtest.R("r", 1), jobtest.WM[string](20)}, hold(gates[1]))...)
		connected := stream.Connect(stream.KeyBy(in, key), stream.Broadcast(rules))
		stream.To(stream.KeyedBroadcastProcess(connected, "alarm", newAlarm), "out", out)
	}
	r := launch(t, t.TempDir(), embedded.Options{}, build)
	r.reach(gates...)
	r.checkpoint() // behind all that lies before the gates
	want(t, "timers at 20", out.Values(), "k at 10")
	gates[0].Open()
	gates[1].Open()
	r.end()
	want(t, "timers", out.Values(), "k at 10", "k at 50")
}

// alarm sets two timers for each record.
type alarm struct{ timers state.Timers }

func newAlarm(r *state.Registry) *alarm { return &alarm{state.EventTimers(r)} }

func (f *alarm) Process(*stream.Ctx[string, string], string) error {
	return errors.Join(f.timers.SetMillis(10), f.timers.SetMillis(50))
}

func (f *alarm) OnTimer(c *stream.Ctx[string, string], at time.Time) error {
	c.Emit(fmt.Sprintf("%s at %d", c.Key(), at.UnixMilli()))
	return nil
}

func (f *alarm) ProcessBroadcast(*stream.Ctx[string, string], string) error { return nil }
