package stream_test

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/stream"
)

func TestStatefulOperatorsNeedAnID(t *testing.T) {
	j := stream.NewJob("ids")
	s := stream.FromSlice(j, "", []int{1})
	stream.To(stream.Map(s, func(v int) int { return v }), "", connector.Discard[int]())
	_, err := j.Build()
	if err == nil || strings.Count(err.Error(), "id_test.go:") != 2 {
		t.Errorf("%v; want a refusal of the source and the sink, with their lines", err)
	}
}
