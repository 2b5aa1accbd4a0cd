package embedded_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
)

// Sources whose times run at different speeds wait for one another, at any
// parallelism and with checkpoints under way, and come to their end.
func TestAlignedSourcesComeToTheirEnd(t *testing.T) {
	const n = 30_000
	for _, parallelism := range []int{1, 3} {
		t.Run(fmt.Sprint(parallelism), func(t *testing.T) {
			out := collect.NewExactlyOnce[string]()
			o := embedded.Options{Parallelism: parallelism, WatermarkInterval: time.Millisecond}
			o.Checkpoint.Interval = 3 * time.Millisecond
			launch(t, t.TempDir(), o, func(j *stream.Job) {
				source := func(id string, pace int64) stream.Stream[string] {
					src := datagen.Source(n, func(i int64) string { return fmt.Sprint(id, i) }, datagen.Timestamps(func(i int64) time.Time { return time.UnixMilli(i * pace) }))
					return stream.From(j, id, src, watermark.Monotonous[string](nil).Align("all", 40*time.Millisecond).AlignInterval(time.Millisecond))
				}
				stream.To(stream.Union(source("a", 1), source("b", 7), source("c", 2)), "out", out)
			}).end()
			seen := map[string]bool{}
			for _, v := range out.Values() {
				seen[v] = true
			}
			if len(seen) != 3*n || len(out.Values()) != 3*n {
				t.Errorf("%d records, %d different ones, want %d", len(out.Values()), len(seen), 3*n)
			}
		})
	}
}
