package stream

import (
	"testing"

	"github.com/weirstream/weir/connector"
)

func TestTimeInWhichAReaderHoldsBackEverything(t *testing.T) {
	const more, nothing, held = connector.More, connector.Nothing, connector.Held
	type poll struct {
		status  connector.Status
		records int
	}
	var h hold
	for i, test := range []struct {
		polls []poll // since the last watermark
		stood bool
	}{
		{[]poll{{nothing, 0}}, false},
		{[]poll{{more, 3}, {held, 0}}, false}, // some came
		{nil, true},                           // still held
		{[]poll{{held, 0}}, true},
		{[]poll{{held, 0}, {more, 1}}, false},
		{nil, false},
		{[]poll{{more, 1}, {nothing, 0}}, false},
		{[]poll{{held, 0}, {nothing, 0}}, true},
		{nil, false},
	} {
		for _, p := range test.polls {
			want := p.status
			if want == held {
				want = nothing
			}
			if got := h.polled(p.status, p.records); got != want {
				t.Errorf("step %d: status %v for the stage, want %v", i, got, want)
			}
		}
		if got := h.stood(); got != test.stood {
			t.Errorf("step %d: stood %t, want %t", i, got, test.stood)
		}
	}
}
