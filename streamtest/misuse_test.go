package streamtest_test

import (
	"math"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/streamtest"
	"github.com/weirstream/weir/window"
)

func TestWrongSteps(t *testing.T) {
	tallied := func(t testing.TB) *streamtest.Harness[word, string] {
		return streamtest.Process(t, word.self, newTally)
	}
	for _, c := range []struct {
		name string
		test func(testing.TB)
		says []string
	}{
		{"watermark back", func(t testing.TB) {
			h := tallied(t)
			h.Watermark(at(10))
			h.Watermark(at(10))
			h.Watermark(at(9))
		}, []string{"Watermark(1970-01-01T00:00:09.000Z) goes back behind 1970-01-01T00:00:10.000Z"}},
		{"push after the end", func(t testing.TB) {
			h := tallied(t)
			h.End()
			h.Push("a")
		}, []string{"Push after End", "Restore"}},
		{"watermark after the end", func(t testing.TB) {
			h := tallied(t)
			h.End()
			h.Watermark(at(1))
		}, []string{"Watermark after End"}},
		{"end twice", func(t testing.TB) {
			h := tallied(t)
			h.End()
			h.End()
		}, []string{"End comes twice"}},
		{"clock back", func(t testing.TB) { tallied(t).AdvanceClock(-time.Second) },
			[]string{"AdvanceClock(-1s)", "never goes back"}},
		{"after close", func(t testing.TB) {
			h := tallied(t)
			h.Close()
			h.Push("a")
		}, []string{"Push after Close"}},
		{"restore after close", func(t testing.TB) {
			h := tallied(t)
			s := h.Snapshot()
			h.Close()
			h.Restore(s)
		}, []string{"Restore after Close"}},
		{"restore of nothing", func(t testing.TB) { tallied(t).Restore(nil) }, []string{"Restore from nil", "Snapshot"}},
		{"side output too late", func(t testing.TB) {
			h := tallied(t)
			h.Push("a")
			streamtest.Side(h, stream.NewTag[int]("late"))
		}, []string{`side output "late" is asked for after the first step`, "right after New"}},
		{"side output of a map", func(t testing.TB) {
			h := streamtest.New(t, func(in stream.Stream[word]) stream.Stream[word] {
				return stream.Map(in, func(w word) word { return w })
			})
			streamtest.Side(h, stream.NewTag[int]("late"))
		}, []string{"Side asks the operator whose output the pipeline returns: misuse_test.go:", ": the map of misuse_test.go:", "has no side outputs", "within the pipeline, by stream.SideOutput"}},
		{"side output that nothing emits to", func(t testing.TB) {
			streamtest.Side(windowed(t, stream.LateTo(stream.NewTag[alarm]("late"))), stream.NewTag[alarm]("lated"))
		}, []string{`nothing is emitted to tag "lated": the tag for late records is "late"`}},
		{"build error", func(t testing.TB) {
			streamtest.Process(t, word.self, func(r *state.Registry) *tally {
				state.ValueIn[int64](r, "n")
				return newTally(r)
			})
		}, []string{"cannot be built", `state "n": it is declared twice`}},
		{"timestamps of another type", func(t testing.TB) {
			streamtest.Process(t, word.self, newTally, streamtest.Timestamps(func(int) time.Time { return at(0) }))
		}, []string{"the option Timestamps is a func(int) time.Time; the records are of type streamtest_test.word"}},
		{"parallelism of none", func(t testing.TB) { streamtest.Process(t, word.self, newTally, streamtest.Parallelism(0)) },
			[]string{"Parallelism(0): an operator has 1 subtask or more"}},
		{"max parallelism of none", func(t testing.TB) { streamtest.Process(t, word.self, newTally, streamtest.MaxParallelism(-1)) },
			[]string{"MaxParallelism(-1): there is 1 key group or more"}},
		{"rescale to none", func(t testing.TB) { tallied(t).Rescale(0) }, []string{"Rescale(0): an operator has 1 subtask or more"}},
		{"restore with none", func(t testing.TB) {
			h := tallied(t)
			h.Restore(h.Snapshot(), streamtest.Parallelism(0))
		}, []string{"Restore: Parallelism(0): an operator has 1 subtask or more"}},
		{"restore with a nil option", func(t testing.TB) {
			h := tallied(t)
			h.Restore(h.Snapshot(), nil)
		}, []string{"Restore: option 1 is nil"}},
		{"from nothing", func(t testing.TB) { streamtest.Process(t, word.self, newTally, streamtest.From(nil)) },
			[]string{"From(nil): take a Snapshot first"}},
		{"nil option", func(t testing.TB) {
			streamtest.Process(t, word.self, newTally, streamtest.Parallelism(1), nil)
		}, []string{"option 2 is nil"}},
		{"nil timestamps", func(t testing.TB) {
			streamtest.Process(t, word.self, newTally, streamtest.Timestamps[word](nil))
		}, []string{"the function of the option Timestamps is nil"}},
		{"nil pipeline", func(t testing.TB) { streamtest.New[int, int](t, nil) }, []string{"the pipeline is nil"}},
		{"zero stream", func(t testing.TB) {
			streamtest.New(t, func(stream.Stream[int]) (none stream.Stream[int]) { return none })
		}, []string{"the pipeline returns a zero Stream"}},
		{"nil key", func(t testing.TB) { streamtest.Process(t, nil, newTally) },
			[]string{"cannot be built: misuse_test.go:", "the key function is nil"}},
		{"nil constructor", func(t testing.TB) {
			streamtest.Process(t, word.self, (func(*state.Registry) *tally)(nil))
		}, []string{"cannot be built: misuse_test.go:", "its constructor is nil"}},
		{"windows without time", func(t testing.TB) { windowed(t).Push(alarm{Key: "a", At: at(1)}) },
			[]string{"give the harness streamtest.Timestamps, or use PushAt: ", `operator "count"`, "has no timestamp"}},
		{"parallelism above the key groups", func(t testing.TB) {
			h := streamtest.Process(t, word.self, newTally, streamtest.MaxParallelism(4))
			h.Push("a")
			h.Rescale(5)
		}, []string{"parallelism 5 is above the max parallelism 4"}},
	} {
		t.Run(c.name, func(t *testing.T) { mustSay(t, failing(t, c.test), c.says...) })
	}
}

// windowed counts alarms by key and window, without a timestamp.
func windowed(t testing.TB, opts ...stream.Option) *streamtest.Harness[alarm, int64] {
	return streamtest.New(t, func(in stream.Stream[alarm]) stream.Stream[int64] {
		return stream.Aggregate(stream.KeyBy(in, alarm.key), "count", window.Tumbling(time.Minute), agg.Count[alarm](),
			func(_ string, _ window.Span, n int64) int64 { return n }, opts...)
	})
}

// caller is a function that does what it is told to.
type caller struct{ call func() }

func (c caller) Process(*stream.Ctx[string, string], word) error { c.call(); return nil }
func (c caller) Close() error                                    { return nil }

// A harness is driven by its test, not by what it runs.
func TestStepsWithinTheCodeUnderTest(t *testing.T) {
	type harness = streamtest.Harness[word, string]
	for step, call := range map[string]func(*harness, *streamtest.Snapshot){
		"Push":               func(h *harness, _ *streamtest.Snapshot) { h.Push("b") },
		"Watermark":          func(h *harness, _ *streamtest.Snapshot) { h.Watermark(at(1)) },
		"AdvanceClock":       func(h *harness, _ *streamtest.Snapshot) { h.AdvanceClock(time.Second) },
		"End":                func(h *harness, _ *streamtest.Snapshot) { h.End() },
		"Snapshot":           func(h *harness, _ *streamtest.Snapshot) { h.Snapshot() },
		"Restore":            func(h *harness, s *streamtest.Snapshot) { h.Restore(s) },
		"Close":              func(h *harness, _ *streamtest.Snapshot) { h.Close() },
		"a look at counters": func(h *harness, _ *streamtest.Snapshot) { h.Late() },
		"Timers":             func(h *harness, _ *streamtest.Snapshot) { streamtest.Timers(h, stream.EventTime, "a") },
		"OperatorList":       func(h *harness, _ *streamtest.Snapshot) { streamtest.OperatorList[int](h, "n") },
	} {
		mustSay(t, failing(t, func(t testing.TB) {
			var h *harness
			var s *streamtest.Snapshot
			h = streamtest.Process(t, word.self, func(*state.Registry) caller { return caller{func() { call(h, s) }} })
			s = h.Snapshot()
			h.Push("a")
			t.Error("the test goes on")
		}), step+" is called by the code under test")
	}
}

// closed is a record whose text tells nothing.
type closed struct {
	Tags []string
	n    int
}

func (closed) String() string { return "closed" }

// Records that look alike are printed in Go syntax, with the part that differs.
func TestExpectShowsWhatDiffers(t *testing.T) {
	for _, c := range []struct {
		push, want closed
		says       []string
	}{
		{closed{n: 1}, closed{n: 2}, []string{"from record 0 on, in its .n", "n:1}]", "n:2}]"}},
		{closed{Tags: []string{}}, closed{}, []string{"in its .Tags", "Tags:[]string{}", "Tags:[]string(nil)"}},
		{closed{Tags: []string{"a b"}}, closed{Tags: []string{"a", "b"}}, []string{"in its .Tags", `{"a b"}`, `{"a", "b"}`}},
	} {
		mustSay(t, failing(t, func(t testing.TB) {
			h := streamtest.New(t, func(in stream.Stream[closed]) stream.Stream[closed] { return in })
			h.Push(c.push)
			h.Expect(c.want)
		}), c.says...)
	}
}

// Times of any zone are one, and NaN is NaN.
func TestExpectTakesWhatIsTheSame(t *testing.T) {
	type reading struct {
		At time.Time
		V  float64
	}
	h := streamtest.New(t, func(in stream.Stream[reading]) stream.Stream[reading] { return in })
	h.Push(reading{at(5).In(time.FixedZone("east", 3600)), math.NaN()})
	h.Expect(reading{at(5), math.NaN()})
}

func TestExpectShowsBoth(t *testing.T) {
	for _, c := range []struct {
		push []word
		want []string
		says []string
	}{
		{[]word{"a"}, nil, []string{"from record 0 on", "got [a 1]", "want nothing"}},
		{nil, []string{"a 1"}, []string{"got nothing", "want [a 1]"}},
		{[]word{"a", "b"}, []string{"a 1", "b 2"}, []string{"from record 1 on"}},
	} {
		mustSay(t, failing(t, func(t testing.TB) {
			h := streamtest.Process(t, word.self, newTally)
			h.Push(c.push...)
			h.Expect(c.want...)
		}), c.says...)
	}
}
