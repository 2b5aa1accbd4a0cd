// Command ownmeters keeps the elements of a union list, each in one subtask:
// every subtask sees all readings and adds up those of its own meters. At a
// restore each is given the meters of all and keeps its own, whatever the
// parallelism is then.
//
//	go run ./examples/ownmeters run --checkpoint-dir /tmp/ownmeters
package main

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/runner"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// options are the flags of the job.
type options struct {
	readings int
	meters   int
	rate     float64
}

func (o *options) define(f *flag.FlagSet) {
	f.IntVar(&o.readings, "readings", 12, "number of readings")
	f.IntVar(&o.meters, "meters", 4, "number of meters they come from, in turn")
	f.Float64Var(&o.rate, "rate", 0, "readings per second; 0 is as fast as possible")
}

// reading is what one meter counted.
type reading struct{ Meter, Count int }

// meter is what a meter has counted so far.
type meter struct{ Number, Total int }

func (m meter) String() string { return fmt.Sprintf("meter %d has counted %d", m.Number, m.Total) }

// totals adds up the readings of the subtask's own meters.
type totals struct {
	mine   func(number int) bool
	own    map[int]int
	stored state.UnionList[meter]
}

func newTotals(r *state.Registry) *totals {
	return &totals{own: map[int]int{}, stored: state.UnionListIn[meter](r, "meters")}
}

// Initialize takes its own meters out of those of all subtasks.
func (t *totals) Initialize(rt *stream.Runtime) error {
	t.mine = func(number int) bool { return number%rt.Parallelism() == rt.Subtask() }
	for m := range t.stored.All() {
		if t.mine(m.Number) {
			t.own[m.Number] = m.Total
		}
	}
	return nil
}

func (t *totals) Process(ctx *stream.Ctx[stream.NoKey, meter], r reading) error {
	if !t.mine(r.Meter) {
		return nil
	}
	t.own[r.Meter] += r.Count
	ctx.Emit(meter{r.Meter, t.own[r.Meter]})
	return nil
}

// Snapshot stores the subtask's own meters and no others: the list would grow
// with every restore.
func (t *totals) Snapshot() error {
	t.stored.Clear()
	for _, number := range slices.Sorted(maps.Keys(t.own)) {
		t.stored.Add(meter{number, t.own[number]})
	}
	return nil
}

func (o *options) build(job *stream.Job) stream.Stream[meter] {
	job.Parallelism(2)
	job.Checkpoints(checkpoint.Options{Interval: 500 * time.Millisecond})
	readings := make([]reading, o.readings)
	for i := range readings {
		readings[i] = reading{Meter: i % o.meters, Count: i + 1}
	}
	var limit []datagen.Option
	if o.rate > 0 {
		limit = append(limit, datagen.Rate(o.rate))
	}
	s := stream.From(job, "readings", datagen.FromSlice(readings, limit...))
	return stream.ProcessUnkeyed(stream.Broadcast(s), "totals", newTotals)
}

func main() {
	var o options
	runner.Main("ownmeters", func(job *stream.Job) {
		stream.Print(o.build(job), "total")
	}, runner.Flags(o.define))
}
