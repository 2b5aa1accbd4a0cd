package streamtest_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/streamtest"
	"github.com/weirstream/weir/watermark"
	"github.com/weirstream/weir/window"
)

// t stands for the *testing.T of a test.
var t = &example{}

type example struct{ testing.TB }

func (*example) Helper()                   {}
func (*example) Cleanup(func())            {}
func (*example) Context() context.Context  { return context.Background() }
func (*example) Errorf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (*example) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (*example) Fatal(a ...any)            { panic(fmt.Sprint(a...)) }
func (*example) Logf(string, ...any)       {}
func (*example) Log(...any)                {}
func (*example) Output() io.Writer         { return io.Discard }

// Click is a click on a page.
type Click struct {
	ID, Page string
	At       time.Time
}

func (c Click) RequestID() string { return c.ID }
func (c Click) PageName() string  { return c.Page }
func (c Click) Time() time.Time   { return c.At }

// dedupe passes the first click of each request.
type dedupe struct{ seen state.Value[bool] }

func newDedupe(r *state.Registry) *dedupe {
	return &dedupe{seen: state.ValueIn[bool](r, "seen", state.TTL(24*time.Hour))}
}

func (d *dedupe) Process(ctx *stream.Ctx[string, Click], c Click) error {
	dup, err := d.seen.Get()
	if err != nil || dup {
		return err
	}
	ctx.Emit(c)
	return d.seen.Set(true)
}

// A process function is tested in five lines.
func ExampleProcess() {
	a, b := Click{ID: "a"}, Click{ID: "b"}
	h := streamtest.Process(t, Click.RequestID, newDedupe)
	h.Push(a, b, a)
	h.Expect(a, b)
	h.AdvanceClock(24 * time.Hour) // the time to live
	h.Push(a)
	h.Expect(a)
	h.Close() // in a test this is done at its end
	// Output:
}

// Any part of a job is tested as the job has it: here windows, with a side
// output of what comes too late.
func ExampleNew() {
	late := stream.NewTag[Click]("late")
	visits := func(clicks stream.Stream[Click]) stream.Stream[string] {
		return stream.Aggregate(stream.KeyBy(clicks, Click.PageName), "visits", window.Tumbling(time.Minute),
			agg.Count[Click](), func(page string, _ window.Span, n int64) string { return fmt.Sprint(page, " ", n) },
			stream.LateTo(late))
	}
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }

	h := streamtest.New(t, visits, streamtest.Timestamps(Click.Time))
	tooLate := streamtest.Side(h, late)
	h.Push(Click{Page: "home", At: at(1)}, Click{Page: "home", At: at(59)}, Click{Page: "home", At: at(60)})
	h.Expect() // nothing yet
	h.Watermark(at(60))
	fmt.Println(h.Take())
	h.Push(Click{Page: "home", At: at(2)})
	fmt.Println(len(tooLate.Take()), h.Late())
	h.End()
	fmt.Println(h.Take())
	h.Close()
	// Output:
	// [home 2]
	// 1 1
	// [home 1]
}

// State and timers can be looked at, and must survive a restart.
func ExampleHarness_Rescale() {
	h := streamtest.Process(t, Click.RequestID, newDedupe)
	h.Push(Click{ID: "a"})
	h.Take()
	fmt.Println(streamtest.Value[bool](h, "seen", "a"))
	fmt.Println(streamtest.Value[bool](h, "seen", "b"))
	h.Rescale(3)
	h.Push(Click{ID: "a"}, Click{ID: "b"})
	fmt.Println(len(h.Take()))
	h.Close()
	// Output:
	// true true
	// false false
	// 1
}

// A whole job has the same output however often it crashes.
func ExampleSurvives() {
	unique := func(job *stream.Job) stream.Stream[Click] {
		clicks := stream.FromSlice(job, "clicks", thousandClicks(), watermark.Monotonous(Click.Time))
		return stream.Process(stream.KeyBy(clicks, Click.RequestID), "dedupe", newDedupe)
	}
	got := streamtest.Survives(t, unique,
		streamtest.AtRecord(300), streamtest.AfterCheckpoint(2).Then(3), streamtest.AtRandom(7))
	fmt.Println(len(got))
	// Output: 300
}

func thousandClicks() []Click {
	clicks := make([]Click, 1000)
	for i := range clicks {
		clicks[i] = Click{ID: fmt.Sprint("request-", i%300), At: time.UnixMilli(int64(i))}
	}
	return clicks
}
