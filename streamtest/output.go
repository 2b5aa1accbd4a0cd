package streamtest

import (
	"context"
	"testing"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// Record is a record that was emitted.
type Record[T any] struct {
	Value T
	// Time is the event time, the zero Time if the record has none.
	Time time.Time
	// Subtask is the subtask that emitted it.
	Subtask int
}

// Output holds what was emitted and not yet taken, in the order of emission:
// by subtask where a step emits in several. Restoring a harness leaves it as
// it is.
type Output[T any] struct {
	t       testing.TB
	name    string
	records []Record[T]
}

// Take returns the values emitted since the last Take, TakeRecords or Expect,
// nil if there are none.
func (o *Output[T]) Take() []T {
	var vals []T
	for _, r := range o.TakeRecords() {
		vals = append(vals, r.Value)
	}
	return vals
}

// TakeRecords is Take with times and subtasks.
func (o *Output[T]) TakeRecords() []Record[T] {
	r := o.records
	o.records = nil
	return r
}

// Expect takes what was emitted, as Take does, and fails the test unless it is
// want, in this order. Records are compared by reflect.DeepEqual, except that
// times are compared as instants, whatever their zones, and NaN is the same as
// NaN. Without arguments it expects that nothing was emitted.
func (o *Output[T]) Expect(want ...T) {
	o.t.Helper()
	got := o.Take()
	for i := range max(len(got), len(want)) {
		form, where := plain, ""
		if i < len(got) && i < len(want) {
			part, differ := difference(got[i], want[i])
			if !differ {
				continue
			}
			form = verb(got[i:i+1], want[i:i+1])
			if part != "" {
				where = ", in its " + part
			}
		}
		o.t.Errorf("%s differs from record %d on%s:\n got %s\nwant %s", o.name, i, where, list(form, got), list(form, want))
		return
	}
}

// sink is the sink that fills an output.
type sink[T any] struct{ out *Output[T] }

func (s sink[T]) Delivery() connector.Delivery { return connector.AtLeastOnce }
func (s sink[T]) CommittableCodec() codec.Codec[connector.NoCommit] {
	return connector.NoCommitCodec{}
}
func (s sink[T]) NewWriter(c connector.SinkContext) (connector.Writer[T, connector.NoCommit], error) {
	return &writer[T]{out: s.out, subtask: c.Subtask()}, nil
}
func (s sink[T]) NewCommitter(connector.CommitterContext) (connector.Committer[connector.NoCommit], error) {
	return nil, nil
}

type writer[T any] struct {
	out     *Output[T]
	subtask int
}

func (w *writer[T]) Write(vals []T, times []int64) error {
	for i, v := range vals {
		r := Record[T]{Value: v, Subtask: w.subtask}
		if times[i] != connector.NoTimestamp {
			r.Time = time.UnixMilli(times[i]).UTC()
		}
		w.out.records = append(w.out.records, r)
	}
	return nil
}

func (w *writer[T]) Flush(context.Context) error                   { return nil }
func (w *writer[T]) PreCommit(int64) ([]connector.NoCommit, error) { return nil, nil }
func (w *writer[T]) Committed(int64) error                         { return nil }
func (w *writer[T]) Close() error                                  { return nil }
