package stream_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/window"
)

const ms = time.Millisecond

// counts runs a count per key over windows and returns the results in order,
// as "start-end=count@time".
func counts(t *testing.T, w window.Assigner, opts []stream.Option, items ...jobtest.Item[string]) (results, late []string) {
	t.Helper()
	out, lateOut := collect.New[string](), collect.New[string]()
	tag := stream.NewTag[string]("late")
	jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
		s := jobtest.Script(j, "in", items...)
		k := stream.KeyBy(s, func(string) string { return "k" })
		r := stream.Aggregate(k, "count", w, agg.Count[string](), func(_ string, w window.Span, n int64) string {
			return fmt.Sprintf("%d-%d=%d", w.Start, w.End, n)
		}, append(opts, stream.LateTo(tag))...)
		stream.To(r, "out", out)
		stream.To(stream.SideOutput(r, tag), "late", lateOut)
	})
	for _, r := range out.Records() {
		results = append(results, fmt.Sprintf("%s@%d", r.Value, r.Time))
	}
	return results, lateOut.Values()
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func TestW01NegativeTimestamps(t *testing.T) {
	var items []jobtest.Item[string]
	for _, at := range []int64{-1, -10, -11, 0, 9, 10} {
		items = append(items, jobtest.R("x", at))
	}
	r, late := counts(t, window.Tumbling(10*ms), nil, items...)
	want(t, "results", r, "-20--10=1@-11", "-10-0=2@-1", "0-10=2@9", "10-20=1@19")
	want(t, "late", late)
}

func TestW04SlideLargerThanSize(t *testing.T) {
	var items []jobtest.Item[string]
	for _, at := range []int64{0, 2, 3, 4, 5} {
		items = append(items, jobtest.R("x", at))
	}
	r, late := counts(t, window.Sliding(3*ms, 5*ms), nil, items...)
	want(t, "results", r, "0-3=2@2", "5-8=1@7")
	want(t, "late", late)
}

func TestW06RecordExactlyAtTheWindowEnd(t *testing.T) {
	r, late := counts(t, window.Tumbling(10*ms), nil,
		jobtest.R("a", 9), jobtest.R("b", 10), jobtest.WM[string](8), jobtest.R("a", 9), jobtest.WM[string](9), jobtest.R("late", 9))
	want(t, "results", r, "0-10=2@9", "10-20=1@19")
	want(t, "late", late, "late")
}

func TestW15AllowedLatenessFiresAgain(t *testing.T) {
	r, late := counts(t, window.Tumbling(10*ms), []stream.Option{stream.AllowedLateness(5 * ms)},
		jobtest.R("a", 1), jobtest.WM[string](9), jobtest.R("b", 2), jobtest.WM[string](12), jobtest.R("c", 3),
		jobtest.WM[string](14), jobtest.R("d", 4), jobtest.WM[string](30))
	want(t, "results", r, "0-10=1@9", "0-10=2@9", "0-10=3@9")
	want(t, "late", late, "d")
}

func TestW23HugeJump(t *testing.T) {
	year := int64(365 * 24 * 3600 * 1000)
	r, _ := counts(t, window.Sliding(60*time.Second, time.Second), nil,
		jobtest.R("a", 0), jobtest.WM[string](0), jobtest.R("b", 50*year), jobtest.WM[string](50*year))
	if len(r) != 120 {
		t.Fatalf("%d results, want 60 windows for each record: %v", len(r), r)
	}
	want(t, "first", r[:1], "-59000-1000=1@999")
}
