package jobtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// SameInBatch runs a job in both runtime modes, which must give the same
// results, in any order, and some.
func SameInBatch[T any](t *testing.T, build func(*stream.Job) stream.Stream[T]) {
	t.Helper()
	results := func(m stream.RuntimeMode) (texts []string) {
		out := collect.New[T]()
		o := embedded.Options{RuntimeMode: m}
		o.Checkpoint.Dir = t.TempDir()
		Run(t, o, func(j *stream.Job) { stream.To(build(j), "out", out) })
		for _, v := range out.Values() {
			texts = append(texts, fmt.Sprint(v))
		}
		slices.Sort(texts)
		return texts
	}
	streaming, batch := results(stream.Streaming), results(stream.Batch)
	if len(streaming) == 0 || !slices.Equal(streaming, batch) {
		t.Errorf("streaming gives %q, batch %q", streaming, batch)
	}
}
