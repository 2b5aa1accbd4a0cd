package stream_test

import (
	"math"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/window"
)

func TestOperatorsCountTheirRecords(t *testing.T) {
	var job *embedded.Job
	var seen embedded.Status
	o := embedded.Options{Checkpoint: checkpoint.Options{Interval: time.Hour, Dir: checkpoint.Memory}, Restart: checkpoint.None{}}
	o.OnEvent = func(e embedded.Event) {
		if e.Kind == embedded.CheckpointCompleted { // the final one: all is counted
			seen = job.Status()
		}
	}
	job = jobtest.Job(t, o, func(j *stream.Job) {
		s := jobtest.Script(j, "in", jobtest.R(1.0, 1), jobtest.R(math.NaN(), 2), jobtest.R(-1.0, 3), jobtest.WM[float64](9), jobtest.R(5.0, 4))
		kept := stream.Filter(s, func(v float64) bool { return v != -1 }, stream.ID("kept"))
		k := stream.KeyBy(kept, func(float64) string { return "k" })
		avg := stream.Aggregate(k, "avg", window.Tumbling(10*ms), agg.Avg(func(v float64) float64 { return v }),
			func(_ string, _ window.Span, v float64) float64 { return v })
		stream.To(avg, "out", connector.Discard[float64]())
	})
	if err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	type counts struct{ in, out, late, leftOut int64 }
	want := map[string]counts{
		"in": {out: 5}, "in-records": {in: 5, out: 4}, "kept": {in: 4, out: 3}, "avg": {in: 3, out: 1, late: 1, leftOut: 1}, "out": {in: 1, out: 1},
	}
	for _, op := range seen.Operators {
		got := counts{op.RecordsIn, op.RecordsOut, op.Late, op.Counters["valuesLeftOut"]}
		if got != want[op.ID] {
			t.Errorf("%s: got %+v, want %+v", op.ID, got, want[op.ID])
		}
	}
	if len(seen.Operators) != len(want) {
		t.Errorf("%d operators, want %d", len(seen.Operators), len(want))
	}
}
