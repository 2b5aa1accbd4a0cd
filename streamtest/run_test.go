package streamtest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/streamtest"
	"github.com/weirstream/weir/watermark"
	"github.com/weirstream/weir/window"
)

// words are n words of seven kinds.
func words(n int) []word {
	ws := make([]word, n)
	for i := range ws {
		ws[i] = word(fmt.Sprint("word-", i%7))
	}
	return ws
}

// counting is a job that counts words with a function.
func counting[P stream.Processor[string, word, string]](n int, newP func(*state.Registry) P) func(*stream.Job) stream.Stream[string] {
	return func(job *stream.Job) stream.Stream[string] {
		return stream.Process(stream.KeyBy(stream.FromSlice(job, "words", words(n)), word.self), "count", newP)
	}
}

func TestRunReturnsTheOutput(t *testing.T) {
	for _, opts := range [][]streamtest.RunOption{
		nil,
		{streamtest.Parallelism(3)},
		{streamtest.AtRecord(5), streamtest.CheckpointEvery(3)},
	} {
		got := streamtest.Run(t, counting(9, newTally), opts...)
		slices.Sort(got)
		want := []string{"word-0 1", "word-0 2", "word-1 1", "word-1 2", "word-2 1", "word-3 1", "word-4 1", "word-5 1", "word-6 1"}
		if !slices.Equal(got, want) {
			t.Errorf("options %v: got %q, want %q", opts, got, want)
		}
	}
}

func TestStateSurvivesCrashes(t *testing.T) {
	for _, crashes := range [][]streamtest.RunOption{
		{streamtest.AtRecord(1)},
		{streamtest.AtRecord(700)},
		{streamtest.AfterCheckpoint(1)},
		{streamtest.CheckpointEvery(50), streamtest.AfterCheckpoint(3).Then(3), streamtest.AtRecord(70).Then(1), streamtest.AtRecord(33).Then(4)},
		{streamtest.Parallelism(2), streamtest.AtRandom(1), streamtest.AtRandom(2), streamtest.AtRandom(3), streamtest.AtRandom(4)},
	} {
		if got := streamtest.Survives(t, counting(700, newTally), crashes...); len(got) != 700 {
			t.Errorf("%v: %d records, 700 went in", crashes, len(got))
		}
	}
}

// The bugs that Survives is there for.
func TestWhatDoesNotSurvive(t *testing.T) {
	message := failing(t, func(t testing.TB) {
		streamtest.Survives(t, counting(70, newForgetful), streamtest.AtRecord(40))
	})
	mustSay(t, message, "with crashes the job emits other records than without", "32 records lost, 32 records too many", "lost [word-0 6,", "word-6 1")

	// What a start leaves out is lost, what it makes up is too many.
	starts := 0
	message = failing(t, func(t testing.TB) {
		streamtest.Survives(t, func(job *stream.Job) stream.Stream[int] {
			starts++
			off := 0
			if starts == 3 { // straight, until the crash, after it
				off = 10
			}
			return stream.Map(stream.FromSlice(job, "numbers", []int{1, 2, 3, 4}), func(v int) int { return v + off })
		}, streamtest.AfterCheckpoint(1), streamtest.CheckpointEvery(2))
	})
	mustSay(t, message, "2 records lost, 2 records too many", "lost [3, 4]", "too many [13, 14]")
}

func TestWindowsSurviveCrashes(t *testing.T) {
	clicks := thousandClicks()
	build := func(job *stream.Job) stream.Stream[string] {
		one := stream.FromSlice(job, "one", clicks, watermark.Bounded(50*time.Millisecond, Click.Time))
		more := stream.From(job, "more", datagen.Source(500, func(i int64) Click {
			return Click{ID: fmt.Sprint("request-", i%100), At: time.UnixMilli(2 * i)}
		}, datagen.Interleaved()), watermark.Monotonous(Click.Time))
		return stream.Aggregate(stream.KeyBy(stream.Union(one, more), Click.RequestID), "count",
			window.Sliding(200*time.Millisecond, 100*time.Millisecond), agg.Count[Click](),
			func(id string, w window.Span, n int64) string { return fmt.Sprint(id, " ", w.End, " ", n) })
	}
	got := streamtest.Survives(t, build, streamtest.Parallelism(2),
		streamtest.AtRecord(900), streamtest.AfterCheckpoint(2).Then(3), streamtest.AtRandom(11), streamtest.AtRandom(12).Then(1))
	if slices.Sort(got); len(got) < 1000 || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("%d windows, some of them twice", len(got))
	}
}

// Records with pointers are compared by what they point to.
func TestRecordsWithPointersSurvive(t *testing.T) {
	type boxed struct{ V *int }
	streamtest.Survives(t, func(job *stream.Job) stream.Stream[boxed] {
		return stream.Map(stream.FromSlice(job, "numbers", []int{1, 2, 3, 3}), func(v int) boxed { return boxed{&v} })
	}, streamtest.AtRecord(2))
}

// Differences that no text of a record shows are found.
func TestRecordsThatLookAlikeAreToldApart(t *testing.T) {
	for _, c := range []struct {
		before, after closed
		says          []string
	}{
		{closed{Tags: []string{"a", "b"}}, closed{Tags: []string{"a b"}}, []string{`lost [streamtest_test.closed{Tags:[]string{"a", "b"}`, `too many [streamtest_test.closed{Tags:[]string{"a b"}`}},
		{closed{n: 1}, closed{n: 2}, []string{"n:1}", "n:2}"}},
	} {
		starts := 0
		mustSay(t, failing(t, func(t testing.TB) {
			streamtest.Survives(t, func(job *stream.Job) stream.Stream[closed] {
				starts++
				out := c.before
				if starts == 3 { // straight, until the crash, after it
					out = c.after
				}
				return stream.Map(stream.FromSlice(job, "numbers", []int{1, 2}), func(int) closed { return out })
			}, streamtest.AfterCheckpoint(1), streamtest.CheckpointEvery(1))
		}), append(c.says, "1 record lost, 1 record too many")...)
	}
}

func TestWrongRuns(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(testing.TB)
		says []string
	}{
		{"no crash", func(t testing.TB) { streamtest.Survives(t, counting(7, newTally)) },
			[]string{"Survives needs a crash"}},
		{"a crash behind the end", func(t testing.TB) {
			streamtest.Survives(t, counting(70, newTally), streamtest.AtRecord(20), streamtest.AtRecord(71))
		}, []string{"the crash at record 71 of start 2 was not reached: its sources emitted", "to their end"}},
		{"a crash behind the last checkpoint", func(t testing.TB) {
			streamtest.Run(t, counting(70, newTally), streamtest.AfterCheckpoint(8), streamtest.CheckpointEvery(10))
		}, []string{"the crash after checkpoint 8 of start 1 was not reached"}},
		{"record 0", func(t testing.TB) { streamtest.Run(t, counting(7, newTally), streamtest.AtRecord(0)) },
			[]string{"the crash at record 0 cannot be", "count from 1"}},
		{"parallelism below 0", func(t testing.TB) {
			streamtest.Run(t, counting(7, newTally), streamtest.AtRecord(1).Then(-2))
		}, []string{"Then(-2): an operator has 1 subtask or more"}},
		{"parallelism of none", func(t testing.TB) {
			streamtest.Run(t, counting(7, newTally), streamtest.AtRandom(1).Then(0))
		}, []string{"Then(0): an operator has 1 subtask or more"}},
		{"parallelism of a run of none", func(t testing.TB) { streamtest.Run(t, counting(7, newTally), streamtest.Parallelism(0)) },
			[]string{"Parallelism(0): an operator has 1 subtask or more"}},
		{"checkpoints at every 0", func(t testing.TB) {
			streamtest.Run(t, counting(7, newTally), streamtest.CheckpointEvery(0))
		}, []string{"CheckpointEvery(0)"}},
		{"nil option", func(t testing.TB) { streamtest.Run(t, counting(7, newTally), nil) }, []string{"option 1 is nil"}},
		{"nil build", func(t testing.TB) { streamtest.Run[int](t, nil) }, []string{"the build function is nil"}},
		{"zero stream", func(t testing.TB) {
			streamtest.Run(t, func(*stream.Job) (none stream.Stream[int]) { return none })
		}, []string{"the build function returns a zero Stream"}},
		{"a source without end", func(t testing.TB) {
			streamtest.Run(t, func(job *stream.Job) stream.Stream[int64] {
				return stream.From(job, "numbers", datagen.Source(-1, func(i int64) int64 { return i }))
			})
		}, []string{`source "numbers" never ends`}},
		{"build error", func(t testing.TB) {
			streamtest.Run(t, func(job *stream.Job) stream.Stream[int] { return stream.FromSlice(job, "no id!", []int{1}) })
		}, []string{"the job cannot be built", "no id!"}},
		{"a job that fails", func(t testing.TB) {
			streamtest.Run(t, func(job *stream.Job) stream.Stream[word] {
				return stream.TryMap(stream.FromSlice(job, "words", words(3)), func(word) (word, error) { return "", errors.New("broken") }, stream.ID("breaker"))
			})
		}, []string{"the job failed", `operator "breaker"`, "broken"}},
		{"a job that fails after a crash", func(t testing.TB) {
			starts := 0
			streamtest.Run(t, func(job *stream.Job) stream.Stream[word] {
				starts++
				third := starts == 3
				return stream.Map(stream.FromSlice(job, "words", words(30)), func(w word) word {
					if third {
						panic("out of paper")
					}
					return w
				})
			}, streamtest.AtRecord(10))
		}, []string{"start 2: the job failed", "panic: out of paper", "run_test.go"}},
	} {
		t.Run(c.name, func(t *testing.T) { mustSay(t, failing(t, c.test), c.says...) })
	}
}

// Random crashes are drawn from what is left, and come.
func TestRandomCrashesCome(t *testing.T) {
	for seed := range uint64(40) {
		starts := 0
		logged := logs(t, func(t testing.TB) {
			streamtest.Survives(t, func(job *stream.Job) stream.Stream[int] {
				starts++
				return stream.FromSlice(job, "numbers", make([]int, 100))
			}, streamtest.AtRandom(seed), streamtest.AtRandom(seed+1000), streamtest.AtRandom(seed+2000))
		})
		none := strings.Contains(logged, "behind record 100 of 100") && strings.Contains(logged, "was not reached")
		if starts != 5 && !none { // nothing was left for the last
			t.Errorf("seed %d: %d starts, want the straight one and four; logged:\n%s", seed, starts, logged)
		}
	}
}

func TestTheLogTellsWhichCrashesCame(t *testing.T) {
	logged := logs(t, func(t testing.TB) {
		streamtest.Run(t, counting(70, newTally), streamtest.CheckpointEvery(10), streamtest.AtRecord(25).Then(3), streamtest.AfterCheckpoint(2),
			streamtest.AfterCheckpoint(3), streamtest.AtRandom(5))
	})
	if strings.Contains(logged, "level=") {
		t.Errorf("the engine talks of the crashes:\n%s", logged)
	}
	mustSay(t, logged,
		"start 1: the crash at record 25 has come; the next one begins behind record 20 of 70, with parallelism 3",
		"start 2: the crash after checkpoint 2 has come; the next one begins behind record 40 of 70, with parallelism 3",
		"start 3: the crash after checkpoint 3 has come; the next one begins behind record 70 of 70",
		"the crash at random, of seed 5, of start 4 was not reached: its sources emitted 0 records")
}

func TestACrashSaysWhere(t *testing.T) {
	got := fmt.Sprint(streamtest.AtRecord(3), ", ", streamtest.AfterCheckpoint(2).Then(4))
	if want := "the crash at record 3, the crash after checkpoint 2"; strings.TrimSpace(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// where emits on which start, and with how many others, it works.
type where struct{ rt *stream.Runtime }

func newWhere(*state.Registry) *where { return &where{} }

func (w *where) Open(rt *stream.Runtime) error {
	w.rt = rt
	return nil
}

func (w *where) Process(ctx *stream.Ctx[string, string], _ word) error {
	ctx.Emit(fmt.Sprintf("start %d of %d", w.rt.Attempt(), w.rt.Parallelism()))
	return nil
}

func TestCrashesComeWhereTheyAreAskedFor(t *testing.T) {
	inCode := func(job *stream.Job) stream.Stream[string] {
		job.Parallelism(3)
		return counting(6, newWhere)(job)
	}
	const one, two, three = "start 1 of 3", "start 2 of 3", "start 3 of 3"
	for _, c := range []struct {
		opts []streamtest.RunOption
		want []string
	}{
		{nil, []string{one, one, one, one, one, one}},
		{[]streamtest.RunOption{streamtest.AtRecord(1)}, []string{two, two, two, two, two, two}},
		{[]streamtest.RunOption{streamtest.AtRecord(5), streamtest.CheckpointEvery(2)}, []string{one, one, one, one, two, two}},
		{[]streamtest.RunOption{streamtest.AfterCheckpoint(2), streamtest.CheckpointEvery(1)}, []string{one, one, two, two, two, two}},
		{[]streamtest.RunOption{streamtest.AfterCheckpoint(1), streamtest.AtRecord(3), streamtest.CheckpointEvery(2)},
			[]string{one, one, two, two, three, three}},
		{[]streamtest.RunOption{streamtest.Parallelism(2), streamtest.AfterCheckpoint(1).Then(4), streamtest.CheckpointEvery(5)},
			[]string{"start 1 of 2", "start 1 of 2", "start 1 of 2", "start 1 of 2", "start 1 of 2", "start 2 of 4"}},
	} {
		got := streamtest.Run(t, inCode, c.opts...)
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.opts, got, c.want)
		}
	}
}
