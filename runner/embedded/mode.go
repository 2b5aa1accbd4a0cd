package embedded

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/stream"
)

// IsBatch says whether a job runs in batch mode; the error names the sources
// that never end of one which cannot.
func IsBatch(g *graph.Graph, m stream.RuntimeMode) (bool, error) {
	var endless []error
	for _, n := range g.Nodes {
		if b, ok := n.Body.(stage.SourceBody); ok && !b.Bounded() {
			endless = append(endless, fmt.Errorf("%s: source %q never ends, and execution.runtime-mode is BATCH: give the source an end, or use STREAMING or AUTOMATIC", n.Site, n.ID))
		}
	}
	switch m {
	case "", stream.Streaming:
		return false, nil
	case stream.Automatic:
		return endless == nil, nil
	case stream.Batch:
		return true, errors.Join(endless...)
	}
	return false, fmt.Errorf("execution.runtime-mode is %q; it is one of STREAMING, BATCH, AUTOMATIC", m)
}

// chunk is how often a batch job takes checkpoints if no interval is set.
const chunk = time.Minute

// Chunk lets a batch job that has a directory for checkpoints take them, so
// that it need not begin anew after a failure, and no transaction of a sink lasts
// as long as the job.
func Chunk(o *checkpoint.Options) {
	if o.Enabled() && o.Interval == 0 {
		o.Interval = chunk
	}
}
