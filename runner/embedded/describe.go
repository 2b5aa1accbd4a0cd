package embedded

import (
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
)

// describer puts into words what only the job's connectors can read.
type describer struct{ bodies map[string]any }

func newDescriber(g *graph.Graph) describer {
	d := describer{map[string]any{}}
	for _, n := range g.Nodes {
		d.bodies[n.ID] = n.Body
	}
	return d
}

// Split implements coord.Describer.
func (d describer) Split(operator string, data []byte) (id, position string) {
	b, ok := d.bodies[operator].(stage.SplitDescriber)
	if !ok {
		return "", ""
	}
	// A split that cannot be read fails the start later, with its own message.
	_ = guarded(func() (err error) {
		id, position, err = b.DescribeSplit(data)
		return err
	})
	return id, position
}

// Committable implements coord.Describer.
func (d describer) Committable(operator string, data []byte) (text string) {
	b, ok := d.bodies[operator].(stage.CommittableDescriber)
	if !ok {
		return ""
	}
	_ = guarded(func() (err error) {
		text, err = b.DescribeCommittable(data)
		return err
	})
	return text
}
