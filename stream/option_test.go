package stream_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

func TestWindowOptionsOfAnOperatorWithoutWindows(t *testing.T) {
	j := stream.NewJob("options")
	s := stream.FromSlice(j, "in", []int{1})
	m := stream.Map(s, func(v int) int { return v }, stream.AllowedLateness(time.Second))
	stream.To(m, "out", connector.Discard[int](), stream.LateTo(stream.NewTag[int]("late")))
	_, err := j.Build()
	if err == nil || strings.Count(err.Error(), "options of Aggregate") != 2 {
		t.Errorf("%v; want a refusal of both", err)
	}
}

type mistagger struct{}

func (mistagger) Process(ctx *stream.Ctx[stream.NoKey, int], v int) error {
	stream.EmitTo(ctx, stream.NewTag[string]("a"), "text")
	return nil
}

func TestTagOfTwoTypes(t *testing.T) {
	job := jobtest.Job(t, embedded.Options{Restart: checkpoint.None{}}, func(j *stream.Job) {
		s := stream.FromSlice(j, "in", []int{1})
		p := stream.ProcessUnkeyed(s, "tagger", func(*state.Registry) mistagger { return mistagger{} })
		stream.To(stream.SideOutput(p, stream.NewTag[int]("a")), "out", connector.Discard[int]())
	})
	err := job.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), `operator "tagger" emits string to tag "a"`) {
		t.Errorf("%v; want operator, tag and type", err)
	}
}
