package streamtest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/streamtest"
	"github.com/weirstream/weir/window"
)

func TestOutputIsThereWhenPushReturns(t *testing.T) {
	h := streamtest.Process(t, word.self, newTally)
	h.Push("a", "b", "a")
	h.Expect("a 1", "b 1", "a 2")
	h.Expect()
	h.PushAt(at(7), "b")
	got := h.TakeRecords()
	want := []streamtest.Record[string]{{Value: "b 2", Time: at(7)}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	h.Push("c")
	if r := h.TakeRecords(); !r[0].Time.IsZero() {
		t.Errorf("a record pushed without a time has %v", r[0].Time)
	}
}

func TestKeysAreRoutedAsInAJob(t *testing.T) {
	h := streamtest.Process(t, word.self, newTally, streamtest.Parallelism(3))
	hasher, err := keygroup.NewHasher[string]()
	if err != nil {
		t.Fatal(err)
	}
	subtasks := map[int]bool{}
	for i := range 50 {
		key := fmt.Sprint("key-", i)
		h.Push(word(key))
		r := h.TakeRecords()
		want := keygroup.Subtask(keygroup.Group(hasher.Hash(key), 128), 3, 128)
		if len(r) != 1 || r[0].Subtask != want {
			t.Errorf("%s: got %v, want subtask %d", key, r, want)
		}
		subtasks[want] = true
	}
	if len(subtasks) != 3 {
		t.Errorf("only subtasks %v were used", subtasks)
	}
}

func TestStateAndTimersSurviveRescaling(t *testing.T) {
	pipeline := func(in stream.Stream[alarm]) stream.Stream[string] {
		fired := stream.Process(stream.KeyBy(in, alarm.key), "alarms", newAlarms)
		words := stream.Map(fired, func(s string) word { return word(s[:1]) })
		return stream.Process(stream.KeyBy(words, word.self), "tally", newTally)
	}
	h := streamtest.New(t, pipeline)
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		h.Push(alarm{key, at(10), false}, alarm{key, at(20), false}, alarm{key, at(30), true})
	}
	h.Watermark(at(10))
	first := h.Take() // keys whose timers are at one time come in no fixed order
	slices.Sort(first)
	if want := []string{"a 1", "b 1", "c 1", "d 1", "e 1", "f 1"}; !slices.Equal(first, want) {
		t.Errorf("got %v, want %v", first, want)
	}
	for _, parallelism := range []int{4, 1, 3} {
		h.Rescale(parallelism)
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			if n, ok := streamtest.Value[int64](h, "n", key); n != 1 || !ok {
				t.Errorf("parallelism %d: %s has %d, %v", parallelism, key, n, ok)
			}
			if got := streamtest.Timers(h, stream.EventTime, key, "alarms"); !slices.Equal(got, []time.Time{at(20)}) {
				t.Errorf("parallelism %d: %s has event timers %v", parallelism, key, got)
			}
			if got := streamtest.Timers(h, stream.ProcessingTime, key, "alarms"); !slices.Equal(got, []time.Time{at(30)}) {
				t.Errorf("parallelism %d: %s has wall timers %v", parallelism, key, got)
			}
		}
	}
	h.Watermark(at(20))
	h.AdvanceClock(30 * time.Second)
	got := h.Take()
	slices.Sort(got)
	want := []string{"a 2", "a 3", "b 2", "b 3", "c 2", "c 3", "d 2", "d 3", "e 2", "e 3", "f 2", "f 3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if keys := streamtest.Keys[string](h, "tally/n"); len(keys) != 6 {
		t.Errorf("state is held for %v", keys)
	}
}

// The bug the harness is there for.
func TestStateInAFieldIsLostAtARestore(t *testing.T) {
	message := failing(t, func(t testing.TB) {
		h := streamtest.Process(t, word.self, newForgetful)
		h.Push("a", "a")
		h.Expect("a 1", "a 2")
		h.Rescale(1)
		h.Push("a")
		h.Expect("a 3")
	})
	mustSay(t, message, "the output differs from record 0 on", "got [a 1]", "want [a 3]")
}

func TestTimersFireAtTheirTimes(t *testing.T) {
	h := streamtest.Process(t, alarm.key, newAlarms, streamtest.StartAt(at(100)))
	h.Push(alarm{"a", at(130), true}, alarm{"b", at(110), true}, alarm{"a", at(120), true}, alarm{"c", at(50), true})
	h.Expect("c 50 wall at 100") // one in the past fires at once
	h.AdvanceClock(9 * time.Second)
	h.Expect()
	h.AdvanceClock(15 * time.Second)
	h.Expect("b 110 wall at 110", "a 120 wall at 120")
	if now := h.Now(); !now.Equal(at(124)) {
		t.Errorf("the clock is at %v", now)
	}
	h.Push(alarm{"a", at(5), false}, alarm{"a", at(3), false}, alarm{"b", at(4), false}, alarm{"a", at(6), false})
	if got, want := streamtest.Timers(h, stream.EventTime, "a"), []time.Time{at(3), at(5), at(6)}; !slices.Equal(got, want) {
		t.Errorf("timers are %v, want %v", got, want)
	}
	h.Watermark(at(5))
	h.Expect("a 3 event", "b 4 event", "a 5 event")
	h.End()
	h.Expect("a 6 event", "end")
	if n := h.Counter("processingTimersDropped"); n != 1 {
		t.Errorf("%d processing-time timers were dropped, one was left", n)
	}
}

func TestWindowsLatenessAndSideOutput(t *testing.T) {
	late := stream.NewTag[alarm]("late ones")
	h := streamtest.New(t, func(in stream.Stream[alarm]) stream.Stream[string] {
		return stream.Aggregate(stream.KeyBy(in, alarm.key), "count", window.Tumbling(10*time.Second), agg.Count[alarm](),
			func(key string, w window.Span, n int64) string {
				return fmt.Sprintf("%s %d %d", key, w.EndTime().Unix(), n)
			},
			stream.LateTo(late))
	}, streamtest.Timestamps(func(a alarm) time.Time { return a.At }), streamtest.Parallelism(2))
	side := streamtest.Side(h, late)
	h.Push(alarm{Key: "a", At: at(1)}, alarm{Key: "a", At: at(9)}, alarm{Key: "a", At: at(11)})
	if got := streamtest.Timers(h, stream.EventTime, "a"); len(got) != 1 || got[0].UnixMilli() != 9999 {
		t.Errorf("the window's timer is %v", got)
	}
	h.Watermark(at(10))
	h.Expect("a 10 2")
	h.Rescale(3)
	h.Push(alarm{Key: "a", At: at(8)}) // late still, by what the snapshot holds
	side.Expect(alarm{Key: "a", At: at(8)})
	if h.Late() != 1 {
		t.Errorf("%d late records are counted", h.Late())
	}
	h.End()
	h.Expect("a 20 1")
}

func TestSideOutputsOfAFunction(t *testing.T) {
	even := stream.NewTag[int64]("even")
	h := streamtest.New(t, func(in stream.Stream[int64]) stream.Stream[string] {
		return stream.ProcessUnkeyed(in, "split", func(*state.Registry) splitter { return splitter{even} })
	})
	side := streamtest.Side(h, even)
	h.Push(1, 2, 3, 4)
	h.Expect("odd 1", "odd 3")
	side.Expect(2, 4)
}

type splitter struct{ even stream.Tag[int64] }

func (s splitter) Process(ctx *stream.Ctx[stream.NoKey, string], v int64) error {
	if v%2 == 0 {
		stream.EmitTo(ctx, s.even, v)
		return nil
	}
	ctx.Emit(fmt.Sprint("odd ", v))
	return nil
}

func TestHooksAndOperatorState(t *testing.T) {
	var calls []string
	h := streamtest.ProcessUnkeyed(t, newBuffer(&calls))
	h.Push("a", "b", "c", "d", "e")
	if got := streamtest.OperatorList[string](h, "stored"); got != nil {
		t.Errorf("a look runs the hook Snapshot: %v", got)
	}
	h.Rescale(2)
	if got := streamtest.OperatorList[string](h, "process/stored"); !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("the list is %v", got)
	}
	h.End()
	got := h.TakeRecords()
	if len(got) != 5 || got[0].Value != "a" || got[4].Value != "e" || got[4].Subtask != 1 {
		t.Errorf("got %v", got)
	}
	h.Close()
	h.Close()
	want := []string{
		"initialize 0/1 attempt 1 restored false", "snapshot", "close",
		"initialize 0/2 attempt 2 restored true", "initialize 1/2 attempt 2 restored true", "close", "close",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("got %q\nwant %q", calls, want)
	}
}

// A day of microseconds is a day.
func TestTheClockAddsUp(t *testing.T) {
	h := streamtest.Process(t, alarm.key, newAlarms)
	h.Push(alarm{"a", time.UnixMilli(2), true})
	for range 3 {
		h.AdvanceClock(600 * time.Microsecond)
		h.Expect()
	}
	h.AdvanceClock(200 * time.Microsecond)
	h.Expect("a 0 wall at 0")
	if want := time.UnixMilli(2); !h.Now().Equal(want) {
		t.Errorf("the clock is at %v, want %v", h.Now(), want)
	}
}

// An event timer in the past waits for the watermark, one by the wall clock does
// not.
func TestTimersInThePast(t *testing.T) {
	h := streamtest.Process(t, alarm.key, newAlarms, streamtest.StartAt(at(100)))
	h.Watermark(at(10))
	h.Push(alarm{"a", at(3), false}, alarm{"b", at(3), true})
	h.Expect("b 3 wall at 100")
	h.Watermark(at(10))
	h.AdvanceClock(time.Minute)
	h.Expect()
	h.Watermark(at(10).Add(time.Millisecond))
	h.Expect("a 3 event")
}

// site emits in which subtask it works.
type site struct{ rt *stream.Runtime }

func (s *site) Open(rt *stream.Runtime) error { s.rt = rt; return nil }
func (s *site) Process(ctx *stream.Ctx[string, int], _ word) error {
	ctx.Emit(s.rt.Subtask())
	stream.EmitTo(ctx, sited, s.rt.Subtask())
	return nil
}

var sited = stream.NewTag[int]("sited")

// A record tells the subtask of the function, whatever its parallelism.
func TestRecordsTellTheirSubtask(t *testing.T) {
	newSite := func(*state.Registry) *site { return &site{} }
	h := streamtest.New(t, func(in stream.Stream[word]) stream.Stream[int] {
		one := stream.Process(stream.KeyBy(in, word.self), "three", newSite, stream.Parallelism(3))
		two := stream.Process(stream.KeyBy(in, word.self), "two", newSite, stream.Parallelism(2))
		return stream.Rebalance(stream.Union(one, two, stream.Map(one, func(int) int { return 0 })))
	})
	for range 2 {
		subtasks := map[int]bool{}
		for i := range 20 {
			h.Push(word(fmt.Sprint("key-", i)))
			got := h.TakeRecords()
			if len(got) != 3 {
				t.Fatalf("%d records of one", len(got))
			}
			for _, r := range got {
				if r.Subtask != r.Value {
					t.Errorf("subtask %d is said to be %d", r.Value, r.Subtask)
				}
				subtasks[r.Subtask] = true
			}
		}
		if len(subtasks) != 3 {
			t.Errorf("only subtasks %v emit", subtasks)
		}
		h.Rescale(1)
	}
}

func TestSideOutputsTellTheirSubtask(t *testing.T) {
	h := streamtest.New(t, func(in stream.Stream[word]) stream.Stream[int] {
		return stream.Process(stream.KeyBy(in, word.self), "three", func(*state.Registry) *site { return &site{} }, stream.Parallelism(3))
	})
	side := streamtest.Side(h, sited)
	subtasks := map[int]bool{}
	for i := range 20 {
		h.Push(word(fmt.Sprint("key-", i)))
		for _, r := range side.TakeRecords() {
			if r.Subtask != r.Value {
				t.Errorf("subtask %d is said to be %d", r.Value, r.Subtask)
			}
			subtasks[r.Subtask] = true
		}
	}
	if len(subtasks) != 3 {
		t.Errorf("only subtasks %v emit", subtasks)
	}
}

// chatty logs, and cannot be closed.
type chatty struct{ rt *stream.Runtime }

func (c *chatty) Open(rt *stream.Runtime) error { c.rt = rt; return nil }
func (c *chatty) Process(_ *stream.Ctx[stream.NoKey, word], v word) error {
	c.rt.Logger().Debug("met", "word", v)
	return nil
}
func (c *chatty) Close() error { return errors.New("the lid is stuck") }

func newChatty(*state.Registry) *chatty { return &chatty{} }

// What functions log is in the log of the test, and an error of Close fails it.
func TestLogAndClose(t *testing.T) {
	v := observe(t, func(t testing.TB) {
		streamtest.ProcessUnkeyed(t, newChatty).Push("a")
	})
	mustSay(t, strings.Join(v.messages, "\n"), `closing the job: operator "process", subtask 0: the lid is stuck`)
	mustSay(t, v.logged.String(), "level=DEBUG msg=met operator=process subtask=0 word=a\n")
	v = observe(t, func(t testing.TB) {
		streamtest.Run(t, func(job *stream.Job) stream.Stream[word] {
			return stream.ProcessUnkeyed(stream.FromSlice(job, "words", words(1)), "chatty", newChatty)
		})
	})
	mustSay(t, v.logged.String(), "level=DEBUG msg=met operator=chatty subtask=0 word=word-0\n", "the lid is stuck")
	if strings.Contains(v.logged.String(), "level=INFO") {
		t.Errorf("the engine talks:\n%s", &v.logged)
	}
}

// treadmill sets its timer again whenever it fires.
type treadmill struct{ timers state.Timers }

func (m *treadmill) Process(ctx *stream.Ctx[string, string], _ word) error {
	return m.timers.Set(at(60))
}

func (m *treadmill) OnTimer(_ *stream.Ctx[string, string], at time.Time) error {
	return m.timers.Set(at.Add(time.Minute))
}

func TestATimerWithoutEnd(t *testing.T) {
	message := failing(t, func(t testing.TB) {
		h := streamtest.Process(t, word.self, func(r *state.Registry) *treadmill { return &treadmill{state.EventTimers(r)} })
		h.Push("a")
		h.Watermark(at(6_000_000)) // a hundred thousand are no matter
		h.End()
	})
	mustSay(t, message, "does not come to rest", "5 rounds", `of operator "process", key a.`, "smaller steps")
}

// faulty fails in the way its records name.
type faulty struct{ seen state.Value[bool] }

var errBroken = errors.New("broken")

func newFaulty(r *state.Registry) *faulty { return &faulty{state.ValueIn[bool](r, "seen")} }

func (f *faulty) Process(ctx *stream.Ctx[string, string], v word) error {
	switch v {
	case "error":
		return errBroken
	case "panic":
		panic("out of paper")
	}
	ctx.Emit(string(v))
	return f.seen.Set(true)
}

func TestErrorsOfFunctions(t *testing.T) {
	message := failing(t, func(t testing.TB) {
		h := streamtest.Process(t, word.self, newFaulty)
		h.Push("error")
		t.Error("the test goes on")
	})
	mustSay(t, message, "the job failed", `operator "process", subtask 0: key error: broken`)

	message = failing(t, func(t testing.TB) {
		streamtest.Process(t, word.self, newFaulty).Push("panic")
	})
	mustSay(t, message, "the job failed", `stage process, subtask 0, operator "process", key panic: panic: out of paper`, "(*faulty).Process", "harness_test.go")

	h := streamtest.Process(t, word.self, newFaulty)
	h.Push("fine")
	before := h.Snapshot()
	err := h.Try(func() {
		h.Push("good", "error", "never")
		t.Error("the steps go on")
	})
	if !errors.Is(err, errBroken) {
		t.Errorf("the error is %v", err)
	}
	mustSay(t, failing(t, func(tb testing.TB) {
		h := streamtest.Process(tb, word.self, newFaulty)
		_ = h.Try(func() { h.Push("error") })
		h.Push("more")
	}), "Push: the job has failed", "Restore")
	h.Restore(before)
	h.Push("better")
	h.Expect("fine", "good", "better")
	if err := h.Try(func() { h.Push("well") }); err != nil {
		t.Error(err)
	}
}

func TestAFunctionMayEndTheTest(t *testing.T) {
	message := failing(t, func(t testing.TB) {
		h := streamtest.New(t, func(in stream.Stream[word]) stream.Stream[word] {
			return stream.Map(in, func(w word) word { t.Fatal("met ", w); return w })
		})
		h.Push("a")
		t.Error("the test goes on")
	})
	if message != "met a" {
		t.Errorf("got %q", message)
	}
}
