package graph

import (
	"errors"

	"github.com/weirstream/weir/internal/keygroup"
)

// Plan is a graph divided into stages.
type Plan struct {
	Job string
	// Stages are in topological order, sources first.
	Stages []*Stage
}

// Stage is a tree of operators that run on one goroutine per subtask and hand
// batches on by direct call.
type Stage struct {
	// ID is the id of the head, the stage's first operator.
	ID string
	// Nodes are in topological order, the head first.
	Nodes          []*Node
	Parallelism    int
	MaxParallelism int
	// Inputs are the edges into the head, by port; none for a source.
	Inputs []CrossEdge
	// Outputs are the edges out of the stage, by consumer and port.
	Outputs []CrossEdge
}

// CrossEdge is an edge between two stages.
type CrossEdge struct {
	Edge     Edge
	From, To *Stage
	// Producer is a node of From, Consumer the head of To.
	Producer, Consumer *Node
	// Partition is that of Edge, but Rebalance for a Forward edge between
	// stages of different parallelism.
	Partition Partition
	// Port is the index of the edge in Consumer.Inputs.
	Port int
}

// Head is the stage's first operator.
func (s *Stage) Head() *Node { return s.Nodes[0] }

// Plan divides the graph into stages. parallelism holds for nodes that set
// none; maxParallelism 0 derives the number of key groups of each stage from
// its parallelism. The graph must be valid.
//
// A node joins the stage of its producer if it has one input, a Forward edge,
// and equal parallelism; otherwise it heads a stage of its own.
func (g *Graph) Plan(parallelism, maxParallelism int) (*Plan, error) {
	p := &Plan{Job: g.Job}
	home := make(map[*Node]*Stage, len(g.Nodes))
	var v validation
	for _, n := range g.Nodes {
		par := n.Parallelism
		if par == 0 {
			par = parallelism
		}
		if s := chain(n, par, home); s != nil {
			s.Nodes = append(s.Nodes, n)
			home[n] = s
			continue
		}
		s := &Stage{ID: n.ID, Nodes: []*Node{n}, Parallelism: par, MaxParallelism: maxParallelism}
		if maxParallelism == 0 {
			s.MaxParallelism = keygroup.DefaultMax(par)
		}
		if err := keygroup.Check(s.Parallelism, s.MaxParallelism); err != nil {
			v.at(n, "%w", err)
		}
		home[n] = s
		p.Stages = append(p.Stages, s)
	}
	if err := errors.Join(v.errs...); err != nil {
		return nil, err
	}
	p.connect(home)
	return p, nil
}

// chain returns the stage that n joins, or nil.
func chain(n *Node, parallelism int, home map[*Node]*Stage) *Stage {
	if len(n.Inputs) != 1 || n.Inputs[0].Partition != Forward {
		return nil
	}
	if s := home[n.Inputs[0].From]; s.Parallelism == parallelism {
		return s
	}
	return nil
}

// connect adds the edges between stages. Only heads have any: every other
// node has its one input within the stage.
func (p *Plan) connect(home map[*Node]*Stage) {
	for _, to := range p.Stages {
		for port, e := range to.Head().Inputs {
			from := home[e.From]
			c := CrossEdge{Edge: e, From: from, To: to, Producer: e.From, Consumer: to.Head(), Partition: e.Partition, Port: port}
			if e.Partition == Forward && from.Parallelism != to.Parallelism {
				c.Partition = Rebalance
			}
			to.Inputs = append(to.Inputs, c)
			from.Outputs = append(from.Outputs, c)
		}
	}
}
