package streamtest_test

import (
	"math"
	"testing"
	"time"

	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/streamtest"
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
		}, []string{"cannot be built", "has no side outputs"}},
		{"build error", func(t testing.TB) {
			streamtest.Process(t, word.self, func(r *state.Registry) *tally {
				state.ValueIn[int64](r, "n")
				return newTally(r)
			})
		}, []string{"cannot be built", `state "n": it is declared twice`}},
		{"timestamps of another type", func(t testing.TB) {
			streamtest.Process(t, word.self, newTally, streamtest.Timestamps(func(int) time.Time { return at(0) }))
		}, []string{"the option Timestamps is a func(int) time.Time; the records are of type streamtest_test.word"}},
		{"parallelism of none", func(t testing.TB) { streamtest.Process(t, word.self, newTally, streamtest.Parallelism(-1)).Push("a") },
			[]string{"parallelism -1: it must be at least 1"}},
		{"parallelism above the key groups", func(t testing.TB) {
			h := streamtest.Process(t, word.self, newTally, streamtest.MaxParallelism(4))
			h.Push("a")
			h.Rescale(5)
		}, []string{"parallelism 5 is above the max parallelism 4"}},
	} {
		t.Run(c.name, func(t *testing.T) { mustSay(t, failing(t, c.test), c.says...) })
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
