package runner

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/stream"
)

// socket is a source that says whether it can go back.
type socket struct {
	*datagen.Sequence[int]
	rewinds bool
}

func (s socket) CanRewind() bool { return s.rewinds }

func TestRule17SourceThatCannotGoBack(t *testing.T) {
	same := func(n int) int { return n }
	build := func(j *stream.Job) {
		from := func(id string, rewinds bool) stream.Stream[int] {
			return stream.From(j, id, socket{datagen.FromSlice([]int{1}), rewinds})
		}
		lost, also := from("lost", false), from("also-lost", false)
		kept, elsewhere := from("kept", true), from("elsewhere", false)
		plain := stream.FromSlice(j, "plain", []int{1})
		stream.To(stream.Map(stream.Union(lost, kept, plain), same), "once", collect.NewExactlyOnce[int]())
		stream.To(also, "again", collect.NewExactlyOnce[int]())
		stream.To(stream.Union(elsewhere, lost), "nowhere", connector.Discard[int]())
	}
	maker, _ := fake(finish)
	for _, command := range []string{"run", "graph"} {
		h := newHarness(build, maker)
		if code := h.run(strings.Fields(command + " --checkpoint-interval 1s --checkpoint-dir memory:")); code != exitDone {
			t.Fatalf("%s: exit code %d: %s", command, code, h.err.String())
		}
		text := strings.ReplaceAll(h.err.String(), `\"`, `"`)
		if n := strings.Count(text, "cannot go back"); n != 2 {
			t.Errorf("%s: %d warnings, want 2:\n%s", command, n, text)
		}
		for _, want := range []string{`rewind_test.go:`, `source "lost" cannot go back, but sink "once"`, `source "also-lost" cannot go back, but sink "again"`, "missing from the output"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: stderr lacks %q:\n%s", command, want, text)
			}
		}
	}
}
