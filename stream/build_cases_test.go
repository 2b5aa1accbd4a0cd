package stream_test

import (
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// buildFails returns the error of a job that must not build.
func buildFails(t *testing.T, build func(*stream.Job)) error {
	t.Helper()
	j := stream.NewJob("test")
	build(j)
	if _, err := j.Build(); err != nil {
		return err
	}
	t.Fatal("the job was built")
	return nil
}

type countsBy[K comparable] struct{ n state.Value[int64] }

func newCounts[K comparable](r *state.Registry) *countsBy[K] {
	return &countsBy[K]{state.ValueIn[int64](r, "n")}
}

func (f *countsBy[K]) Process(c *stream.Ctx[K, K], _ string) error {
	n, err := f.n.Get()
	if err == nil {
		err = f.n.Set(n + 1)
	}
	if n == 0 {
		c.Emit(c.Key())
	}
	return err
}

// A key that can be nil is refused when the job is built; "" is a key.
func TestS10NilKey(t *testing.T) {
	err := buildFails(t, func(j *stream.Job) {
		s := stream.FromSlice(j, "in", []string{"a"})
		k := stream.KeyBy(s, func(v string) *string { return &v })
		stream.To(stream.Process(k, "by-pointer", newCounts[*string]), "out", connector.Discard[*string]())
	})
	wantError(t, err, "*string", "cannot be a key", "build_cases_test.go")
	err = buildFails(t, func(j *stream.Job) {
		s := stream.FromSlice(j, "in", []string{"a"})
		k := stream.KeyBy(s, func(v string) any { return nil })
		stream.To(stream.Process(k, "by-interface", newCounts[any]), "out", connector.Discard[any]())
	})
	wantError(t, err, "interface {}", "cannot be a key", "build_cases_test.go")

	out := collect.New[string]()
	jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
		s := stream.FromSlice(j, "in", []string{"", "a", "", "a"})
		k := stream.KeyBy(s, func(v string) string { return v })
		stream.To(stream.Process(k, "by-string", newCounts[string]), "out", out)
	})
	want(t, "keys", out.Values(), "", "a")
}

func TestC12DuplicateOperatorIDs(t *testing.T) {
	err := buildFails(t, func(j *stream.Job) {
		s := stream.FromSlice(j, "in", []string{"a"})
		stream.To(s, "twice", connector.Discard[string]())
		stream.To(s, "twice", connector.Discard[string]())
	})
	wantError(t, err, `"twice"`, "build_cases_test.go")

	out := collect.New[string]()
	jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
		s := stream.FromSlice(j, "in", []string{"a"})
		stream.To(s, "one", out, stream.Named("same name"))
		stream.To(s, "two", out, stream.Named("same name"))
	})
	want(t, "records", out.Values(), "a", "a")
}
