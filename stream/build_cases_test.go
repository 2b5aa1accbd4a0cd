package stream_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/window"
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

// What is nil is refused when the job is built, with its place.
func TestNilFunctions(t *testing.T) {
	discard := func(s stream.Stream[string]) { stream.To(s, "out", connector.Discard[string]()) }
	type key = func(string) string
	for want, build := range map[string]func(stream.Stream[string]){
		"the function of the map is nil": func(s stream.Stream[string]) { discard(stream.Map[string, string](s, nil)) },
		"function of the map":            func(s stream.Stream[string]) { discard(stream.TryMap[string, string](s, nil)) },
		"the function of the flatmap is nil": func(s stream.Stream[string]) {
			discard(stream.FlatMap[string, string](s, nil))
		},
		"the function of the filter is nil": func(s stream.Stream[string]) { discard(stream.Filter(s, nil)) },
		"KeyBy: the key function is nil": func(s stream.Stream[string]) {
			discard(stream.Process(stream.KeyBy(s, key(nil)), "p", newCounts[string]))
		},
		`operator "p": its constructor is nil`: func(s stream.Stream[string]) {
			discard(stream.Process(stream.KeyBy(s, strings.ToUpper), "p", (func(*state.Registry) *countsBy[string])(nil)))
		},
		`operator "p": its constructor returns nil`: func(s stream.Stream[string]) {
			discard(stream.Process(stream.KeyBy(s, strings.ToUpper), "p", func(*state.Registry) *countsBy[string] { return nil }))
		},
		`operator "w": emit is nil`: func(s stream.Stream[string]) {
			discard(stream.Aggregate(stream.KeyBy(s, strings.ToUpper), "w", window.Tumbling(time.Second), agg.Count[string](),
				(func(string, window.Span, int64) string)(nil)))
		},
		"option 2 of the filter is nil": func(s stream.Stream[string]) {
			discard(stream.Filter(s, func(string) bool { return true }, stream.ID("f"), nil))
		},
	} {
		err := buildFails(t, func(j *stream.Job) { build(stream.FromSlice(j, "in", []string{"a"})) })
		wantError(t, err, want, "build_cases_test.go")
	}
}

func TestZeroStream(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "build_cases_test.go") || !strings.Contains(text, "a zero Stream or Keyed is used") {
			t.Errorf("got %s", text)
		}
	}()
	stream.To(stream.Stream[string]{}, "out", connector.Discard[string]())
}

// Of an aggregate nothing but late records has a tag.
func TestSideOutputsOfAnAggregate(t *testing.T) {
	for want, opts := range map[string][]stream.Option{
		`"late": the option LateTo is missing`:             nil,
		`"late": the tag for late records is "later ones"`: {stream.LateTo(stream.NewTag[string]("later ones"))},
	} {
		err := buildFails(t, func(j *stream.Job) {
			s := stream.KeyBy(stream.FromSlice(j, "in", []string{"a"}), strings.ToUpper)
			w := stream.Aggregate(s, "w", window.Tumbling(time.Second), agg.Count[string](),
				func(string, window.Span, int64) string { return "" }, opts...)
			stream.To(w, "out", connector.Discard[string]())
			stream.To(stream.SideOutput(w, stream.NewTag[string]("late")), "side", connector.Discard[string]())
		})
		wantError(t, err, `side output of "w"`, want, "build_cases_test.go")
	}
}
