package streamtest

import (
	"errors"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/watermark"
)

// feed is the source of a harness. It emits what is put into it, by one reader
// on the goroutine of the harness.
type feed[T any] struct {
	records []T
	times   []int64
	wm      int64
	ended   bool
}

// channel is the one split of a feed.
type channel struct{}

// SplitID implements connector.Split.
func (channel) SplitID() string { return "records" }

func (f *feed[T]) Bounded() bool                          { return true }
func (f *feed[T]) SplitCodec() codec.Codec[channel]       { return codec.JSON[channel]() }
func (f *feed[T]) EnumeratorCodec() codec.Codec[struct{}] { return codec.JSON[struct{}]() }

func (f *feed[T]) NewEnumerator(connector.EnumeratorContext[channel], *struct{}) (connector.Enumerator[channel, struct{}], error) {
	return nil, errors.New("streamtest: the input of a harness cannot be the source of a job")
}

func (f *feed[T]) NewReader(connector.ReaderContext) (connector.Reader[T, channel], error) {
	return &feedReader[T]{feed: f}, nil
}

// strategy forwards the watermark that the test sets.
func (f *feed[T]) strategy() watermark.Strategy[T] {
	return watermark.Custom(func() watermark.Generator[T] { return testWatermark[T]{f} }, nil)
}

type testWatermark[T any] struct{ feed *feed[T] }

func (w testWatermark[T]) OnBatch(vals []T, _ []int64) (int, bool) { return len(vals), false }
func (w testWatermark[T]) Current() int64                          { return w.feed.wm }

// put adds a record; the zero Time is none.
func (f *feed[T]) put(v T, at time.Time) {
	millis := connector.NoTimestamp
	if !at.IsZero() {
		millis = at.UnixMilli()
	}
	f.records, f.times = append(f.records, v), append(f.times, millis)
}

type feedReader[T any] struct {
	feed   *feed[T]
	splits []channel
}

func (r *feedReader[T]) Poll(out *connector.Output[T]) (connector.Status, error) {
	f := r.feed
	if len(f.records) == 0 {
		if f.ended {
			return connector.End, nil
		}
		return connector.Nothing, nil
	}
	out.SetSplit(channel{}.SplitID())
	for i, v := range f.records {
		out.EmitAt(v, f.times[i])
	}
	f.records, f.times = f.records[:0], f.times[:0]
	return connector.More, nil
}

func (r *feedReader[T]) AddSplits(s []channel) error { r.splits = append(r.splits, s...); return nil }

func (r *feedReader[T]) Snapshot(int64) ([]channel, error) { return r.splits, nil }

func (r *feedReader[T]) Start() error                    { return nil }
func (r *feedReader[T]) NoMoreSplits() error             { return nil }
func (r *feedReader[T]) HandleEvent(any) error           { return nil }
func (r *feedReader[T]) CheckpointComplete(int64) error  { return nil }
func (r *feedReader[T]) PauseSplits(_, _ []string) error { return nil }
func (r *feedReader[T]) Close() error                    { return nil }
