package embedded_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/window"
)

// shape is a job over two sources; what it writes must not depend on
// checkpoints, failures, restores or parallelism.
type shape struct {
	name string
	// ordered tells that what the job writes depends on the order of the two
	// sources: it then reads one.
	ordered bool
	// splits makes one source with two splits of the two, at the parallelism
	// of the job.
	splits bool
	build  func(in stream.Stream[string], w *writer)
}

// writer adds exactly-once sinks to a job.
type writer struct {
	sinks map[string]*collect.Sink[string]
}

func (w *writer) to(s stream.Stream[string], id string) {
	if w.sinks[id] == nil {
		w.sinks[id] = collect.NewExactlyOnce[string]()
	}
	stream.To(s, id, w.sinks[id])
}

// output is everything written, sorted.
func (w *writer) output() []string {
	var all []string
	for id, s := range w.sinks {
		for _, r := range s.Records() {
			all = append(all, fmt.Sprintf("%s: %s@%d", id, r.Value, r.Time))
		}
	}
	slices.Sort(all)
	return all
}

// five uses every kind of keyed state and emits what they hold.
type five struct {
	value       state.Value[string]
	list        state.List[string]
	entries     state.Map[string, int64]
	reducing    state.Reducing[int64]
	aggregating state.Aggregating[string, int64, int64]
}

func newFive(r *state.Registry) *five {
	return &five{
		value:       state.ValueIn[string](r, "value"),
		list:        state.ListIn[string](r, "list"),
		entries:     state.MapIn[string, int64](r, "map"),
		reducing:    state.ReducingIn(r, "reducing", func(a, b int64) int64 { return max(a, b) }),
		aggregating: state.AggregatingIn(r, "aggregating", agg.Count[string]()),
	}
}

func (f *five) Process(c *stream.Ctx[string, string], v string) error {
	before, err := f.value.Get()
	if err != nil {
		return err
	}
	list, err := f.list.Get()
	if err != nil {
		return err
	}
	if len(list) == 5 {
		list = list[1:]
		if err := f.list.Update(list); err != nil {
			return err
		}
	}
	digit := v[len(v)-1:]
	n, _, err := f.entries.Get(digit)
	if err != nil {
		return err
	}
	if n == 3 {
		err = f.entries.Remove(digit)
	} else {
		err = f.entries.Put(digit, n+1)
	}
	if err != nil {
		return err
	}
	size, err := f.entries.Len()
	if err != nil {
		return err
	}
	largest, err := f.reducing.Get()
	if err != nil {
		return err
	}
	count, _, err := f.aggregating.Get()
	if err != nil {
		return err
	}
	c.Emit(fmt.Sprintf("%s after %s %v %d/%d %d %d", v, before, list, n, size, largest, count))
	for _, err := range []error{f.value.Set(v), f.list.Add(v), f.reducing.Add(int64(len(v)) + n), f.aggregating.Add(v)} {
		if err != nil {
			return err
		}
	}
	return nil
}

// reminder sets a timer per record, deletes some, and counts at each how many
// fired before.
type reminder struct {
	timers state.Timers
	fired  state.Value[int64]
}

func newReminder(r *state.Registry) *reminder {
	return &reminder{timers: state.EventTimers(r), fired: state.ValueIn[int64](r, "fired")}
}

func (f *reminder) Process(c *stream.Ctx[string, string], v string) error {
	if strings.HasSuffix(v, "7") {
		return f.timers.Delete(time.UnixMilli(c.Millis() + 20))
	}
	return f.timers.Set(time.UnixMilli(c.Millis() + 40 - c.Millis()%10))
}

func (f *reminder) OnTimer(c *stream.Ctx[string, string], at time.Time) error {
	n, err := f.fired.Get()
	if err != nil {
		return err
	}
	c.Emit(fmt.Sprintf("%s, timer %d at %d", c.Key(), n+1, at.UnixMilli()))
	return f.fired.Set(n + 1)
}

var oddTag = stream.NewTag[string]("odd")

// splitter sends every other record of a key to a side output.
type splitter struct{ n state.Value[int32] }

func newSplitter(r *state.Registry) *splitter {
	return &splitter{state.ValueIn[int32](r, "n")}
}

func (f *splitter) Process(c *stream.Ctx[string, string], v string) error {
	n, err := f.n.Get()
	if err != nil {
		return err
	}
	if n%2 == 1 {
		stream.EmitTo(c, oddTag, v)
	} else {
		c.Emit(v)
	}
	return f.n.Set(n + 1)
}

// buffer keeps records in an operator list and passes them on in threes, the
// rest at the end.
type buffer struct{ held state.OperatorList[string] }

func newBuffer(r *state.Registry) *buffer {
	return &buffer{state.OperatorListIn[string](r, "held")}
}

func (f *buffer) Process(c *stream.Ctx[stream.NoKey, string], v string) error {
	f.held.Add(v)
	if f.held.Len() < 3 {
		return nil
	}
	return f.EndInput(c)
}

func (f *buffer) EndInput(c *stream.Ctx[stream.NoKey, string]) error {
	for v := range f.held.All() {
		c.EmitAt(v, time.UnixMilli(0)) // which record completes a three is open
	}
	f.held.Clear()
	return nil
}

func windowed(in stream.Stream[string], id string, w window.Assigner, opts ...stream.Option) stream.Stream[string] {
	size := func(v string) int64 { return int64(len(v)) }
	return stream.Aggregate(stream.KeyBy(in, key), id, w, agg.Pair(agg.Count[string](), agg.Sum(size)),
		func(k string, s window.Span, r agg.Both[int64, int64]) string {
			return fmt.Sprintf("%s [%d,%d) %d %d", k, s.Start, s.End, r.First, r.Second)
		}, opts...)
}

// key is the part before the dash.
func key(v string) string { k, _, _ := strings.Cut(v, "-"); return k }

var shapes = []shape{
	{"five kinds of state", true, false, func(in stream.Stream[string], w *writer) {
		w.to(stream.Process(stream.KeyBy(in, key), "five", newFive), "out")
	}},
	{"timers", true, false, func(in stream.Stream[string], w *writer) {
		w.to(stream.Process(stream.KeyBy(in, key), "reminder", newReminder), "out")
	}},
	{"tumbling windows", false, false, func(in stream.Stream[string], w *writer) {
		w.to(windowed(in, "tumbling", window.Tumbling(50*ms)), "out")
	}},
	{"sliding windows with lateness", true, false, func(in stream.Stream[string], w *writer) {
		late := stream.NewTag[string]("late")
		r := windowed(in, "sliding", window.Sliding(60*ms, 10*ms), stream.AllowedLateness(15*ms), stream.LateTo(late))
		w.to(r, "out")
		w.to(stream.SideOutput(r, late), "late")
	}},
	{"side outputs and two sinks", true, false, func(in stream.Stream[string], w *writer) {
		even := stream.Process(stream.KeyBy(in, key), "splitter", newSplitter)
		w.to(stream.Filter(even, func(v string) bool { return !strings.HasSuffix(v, "3") }), "even")
		w.to(stream.SideOutput(even, oddTag), "odd")
	}},
	{"operator list", false, true, func(in stream.Stream[string], w *writer) {
		w.to(stream.ProcessUnkeyed(stream.Rebalance(in), "buffer", newBuffer), "out")
	}},
	{"union list", false, true, func(in stream.Stream[string], w *writer) {
		w.to(stream.ProcessUnkeyed(stream.Broadcast(in), "shards", newShards), "out")
	}},
	{"broadcast state", false, true, func(in stream.Stream[string], w *writer) {
		w.to(matched(in, nil), "out")
	}},
	{"raw state", false, true, func(in stream.Stream[string], w *writer) {
		w.to(stream.ProcessUnkeyed(stream.Rebalance(in), "bundle", newBundle), "out")
	}},
	{"raw state of key groups", false, true, func(in stream.Stream[string], w *writer) {
		w.to(stream.Process(stream.KeyBy(in, key), "census", newCensus), "out")
	}},
	{"one stage after another", false, true, func(in stream.Stream[string], w *writer) {
		r := windowed(in, "inner", window.Tumbling(20*ms))
		k := stream.KeyBy(r, func(v string) string { return v[:1] })
		outer := stream.Aggregate(k, "outer", window.Tumbling(100*ms), agg.Count[string](),
			func(k string, s window.Span, n int64) string {
				return fmt.Sprintf("%s [%d,%d) %d", k, s.Start, s.End, n)
			})
		w.to(outer, "out")
		w.to(r, "inner-out")
	}},
}

// input makes the scripts of the sources. Times are out of order by up to
// late beyond what the watermarks promise if the shape reads one source: then
// which records are late does not depend on a race.
func input(seed uint64, ordered bool) [][]jobtest.Item[string] {
	random := rand.New(rand.NewPCG(seed, 7))
	sources := 2
	if ordered {
		sources = 1
	}
	scripts := make([][]jobtest.Item[string], sources)
	for i := range scripts {
		var s []jobtest.Item[string]
		now, wm := int64(-100), int64(-1000)
		for n := range 400 {
			now += random.Int64N(4)
			at := now
			if ordered {
				at -= random.Int64N(40)
			}
			s = append(s, jobtest.R(fmt.Sprintf("k%d-%d.%d", random.IntN(17), i, n), at))
			if random.IntN(5) == 0 && now-10 > wm {
				wm = now - 10
				s = append(s, jobtest.WM[string](wm))
			}
		}
		scripts[i] = s
	}
	return scripts
}

// job builds a shape. Sources have one subtask, so that the order of records
// and watermarks is that of the scripts, unless the shape does not mind.
// failAt is the record of all at which it fails once, 0 for never.
func (s shape) job(w *writer, scripts [][]jobtest.Item[string], failAt int64) func(*stream.Job) {
	var seen atomic.Int64
	fail := func(v string) (string, error) {
		if seen.Add(1) == failAt {
			return "", fmt.Errorf("failing at %s", v)
		}
		return v, nil
	}
	return func(j *stream.Job) {
		if s.splits {
			s.build(stream.TryMap(jobtest.Splits(j, "in", 0, scripts...), fail, stream.ID("fail-once")), w)
			return
		}
		var ins []stream.Stream[string]
		for i, script := range scripts {
			ins = append(ins, jobtest.Script(j, fmt.Sprint("in", i), script...))
		}
		s.build(stream.TryMap(stream.Union(ins[0], ins[1:]...), fail, stream.ID("fail-once"), stream.Parallelism(1)), w)
	}
}

func newWriter() *writer { return &writer{sinks: map[string]*collect.Sink[string]{}} }

// TestThreeWays runs each shape straight, with checkpoints and a failure, and
// stopped and restored at other parallelisms.
func TestThreeWays(t *testing.T) {
	for _, s := range shapes {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s, seed %d", s.name, seed), func(t *testing.T) {
				scripts := input(seed, s.ordered)
				straight := newWriter()
				launch(t, t.TempDir(), embedded.Options{}, s.job(straight, scripts, 0)).end()
				expected := straight.output()
				if len(expected) < 50 {
					t.Fatalf("only %d results: %v", len(expected), expected)
				}
				for _, parallelism := range []int{1, 3} {
					crashed := newWriter()
					s.crash(t, crashed, scripts, parallelism, 1+rand.New(rand.NewPCG(seed, uint64(parallelism))).Int64N(390))
					same(t, fmt.Sprintf("with a failure at parallelism %d", parallelism), crashed.output(), expected)
				}
				for _, path := range []bool{false, true} {
					moved := newWriter()
					s.move(t, moved, scripts, path)
					same(t, fmt.Sprintf("restored at other parallelisms, by path %v", path), moved.output(), expected)
				}
			})
		}
	}
}

// crash runs with frequent checkpoints and a failure.
func (s shape) crash(t *testing.T, w *writer, scripts [][]jobtest.Item[string], parallelism int, at int64) {
	t.Helper()
	r := launch(t, t.TempDir(), embedded.Options{
		Parallelism: parallelism, Restart: checkpoint.FixedDelay{Attempts: 1, Delay: ms},
		Checkpoint: checkpoint.Options{Interval: ms}, BufferTimeout: ms,
	}, s.job(w, scripts, at))
	r.end()
	if n := r.job.Status().Restarts; n != 1 {
		t.Errorf("%d restarts, want 1", n)
	}
}

// move stops the job twice on its way, and kills it once after a checkpoint;
// it goes on at other parallelisms, in the same directory or from a path.
func (s shape) move(t *testing.T, w *writer, scripts [][]jobtest.Item[string], byPath bool) {
	t.Helper()
	dir, path := t.TempDir(), ""
	scripts, gates := interrupted(scripts, 3)
	build := s.job(w, scripts, 0)
	for i, parallelism := range []int{1, 3, 2} {
		r := launch(t, dir, embedded.Options{Parallelism: parallelism, RestorePath: path}, build)
		r.wait(embedded.Started)
		r.reach(gates[i]...)
		path = ""
		switch {
		case i == 1:
			r.checkpoint()
		case byPath:
			p, err := r.job.TakeLastSavepoint(r.ctx, filepath.Join(dir, "savepoints"))
			if err != nil {
				t.Fatal(err)
			}
			path = p
			r.end()
		default:
			r.suspend()
		}
		for _, g := range gates[i] {
			g.Open()
		}
		if i == 1 {
			r.kill() // somewhere behind the checkpoint
		}
	}
	launch(t, dir, embedded.Options{Parallelism: 4, RestorePath: path}, build).end()
}

// interrupted puts n gates into each script, and returns them by number.
func interrupted(scripts [][]jobtest.Item[string], n int) (with [][]jobtest.Item[string], gates [][]*jobtest.Gate) {
	gates = make([][]*jobtest.Gate, n)
	for _, s := range scripts {
		var parts []jobtest.Item[string]
		at := 0
		for i := range n {
			g := jobtest.NewGate()
			gates[i] = append(gates[i], g)
			next := (i + 1) * len(s) / (n + 1)
			parts = append(append(parts, s[at:next]...), jobtest.Hold[string](g))
			at = next
		}
		with = append(with, append(parts, s[at:]...))
	}
	return with, gates
}

// same compares sorted outputs and tells what is lost and what is new.
func same(t *testing.T, what string, got, expected []string) {
	t.Helper()
	if slices.Equal(got, expected) {
		return
	}
	count := map[string]int{}
	for _, v := range expected {
		count[v]--
	}
	for _, v := range got {
		count[v]++
	}
	var differ []string
	for v, n := range count {
		if n != 0 {
			differ = append(differ, fmt.Sprintf("%+d %s", n, v))
		}
	}
	slices.Sort(differ)
	t.Errorf("%s: %d results, want %d; more and fewer than without: %v", what, len(got), len(expected), differ[:min(len(differ), 10)])
}
