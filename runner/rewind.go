package runner

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
)

// unrepeatable warns of sources that cannot go back and feed exactly-once
// sinks: the weakest part of a job decides what it delivers.
func unrepeatable(g *graph.Graph) []string {
	feeds := map[*graph.Node]*graph.Node{} // the exactly-once sink behind a node
	var out []string
	for i := len(g.Nodes) - 1; i >= 0; i-- { // consumers first
		n := g.Nodes[i]
		if b, ok := n.Body.(stage.SinkBody); ok && b.Delivery() == connector.ExactlyOnce {
			feeds[n] = n
		}
		sink := feeds[n]
		if sink == nil {
			continue
		}
		for _, e := range n.Inputs {
			feeds[e.From] = sink
		}
		if r, ok := n.Body.(connector.Rewinder); ok && !r.CanRewind() {
			out = append(out, fmt.Sprintf("%s: source %q cannot go back, but sink %q, which it feeds, is exactly-once: after a failure what the source brought since the last checkpoint is missing from the output. Read from something that keeps its records, as Kafka does, or accept the loss",
				n.Site, n.ID, sink.ID))
		}
	}
	slices.Reverse(out)
	return out
}
