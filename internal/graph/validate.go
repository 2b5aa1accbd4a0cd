package graph

import (
	"errors"
	"fmt"
	"strings"
)

// maxID is the longest id in bytes: ids become parts of file names and of
// transactional ids, both of which are limited.
const maxID = 128

// Validate reports everything that is wrong with the graph, each problem with
// its place in the user's program. What depends on the job's parallelism is
// left to Plan.
func (g *Graph) Validate() error {
	v := &validation{}
	if err := CheckID(g.Job); err != nil {
		v.addf("job name %w", err)
	}
	v.roles(g.Nodes)
	v.ids(g.Nodes)
	v.edges(g.Nodes)
	for _, n := range g.Nodes {
		if n.Parallelism < 0 {
			v.at(n, "parallelism %d: it must be at least 1", n.Parallelism)
		}
	}
	return errors.Join(v.errs...)
}

// Warnings tells what is legal but likely a mistake: results that nothing
// consumes. A stream that ends in an operator with side effects of its own is
// one of those, so it is no error.
func (g *Graph) Warnings() []string {
	consumed := map[*Node]bool{}
	for _, n := range g.Nodes {
		for _, e := range n.Inputs {
			consumed[e.From] = true
		}
	}
	var out []string
	for _, n := range g.Nodes {
		if n.Role != Sink && !consumed[n] {
			out = append(out, fmt.Sprintf("%s: nothing consumes the output of %s %q; end the stream with a sink, or remove it",
				site(n), kind(n), n.Label()))
		}
	}
	return out
}

// CheckID returns an error unless id may name a job or an operator: 1 to 128
// letters, digits, dots, underscores and hyphens, the first no dot.
func CheckID(id string) error {
	const allowed = "use letters, digits, '.', '_' and '-'"
	switch {
	case id == "":
		return errors.New("is empty: " + allowed)
	case len(id) > maxID:
		return fmt.Errorf("%q… is %d bytes long: at most %d are allowed", id[:20], len(id), maxID)
	case id[0] == '.':
		return fmt.Errorf("%q starts with a dot: begin with a letter, digit, '_' or '-'", id)
	}
	for _, r := range id {
		if !legal(r) {
			return fmt.Errorf("%q contains %q: %s", id, r, allowed)
		}
	}
	return nil
}

func legal(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r)
}

type validation struct{ errs []error }

func (v *validation) addf(format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf(format, args...))
}

// at adds a problem of a node.
func (v *validation) at(n *Node, format string, args ...any) {
	v.addf("%s: %s %q: %w", site(n), kind(n), n.Label(), fmt.Errorf(format, args...))
}

func (v *validation) roles(nodes []*Node) {
	sources, sinks := 0, 0
	for _, n := range nodes {
		switch n.Role {
		case Source:
			sources++
			if len(n.Inputs) > 0 {
				v.at(n, "a source cannot have inputs")
			}
			continue
		case Sink:
			sinks++
		}
		if len(n.Inputs) == 0 {
			v.at(n, "it has no input; every operator and sink needs one")
		}
	}
	if sources == 0 {
		v.addf("the job has no source; begin a stream with stream.From or stream.FromSlice")
	}
	if sinks == 0 {
		v.addf("the job has no sink; end a stream with stream.To or stream.Print")
	}
}

func (v *validation) ids(nodes []*Node) {
	first := map[string]*Node{}
	for _, n := range nodes {
		if n.ID == "" {
			v.at(n, "it has no id; sources, sinks and stateful operators need one, unique in the job and the same at every start")
			continue
		}
		if err := CheckID(n.ID); err != nil {
			v.at(n, "its id %w", err)
		}
		if other := first[n.ID]; other != nil {
			v.at(n, "duplicate operator id %q, first used at %s; give each operator an id of its own (names may be equal)", n.ID, site(other))
			continue
		}
		first[n.ID] = n
	}
}

// edges checks that every input comes from an earlier node of the same job,
// which also rules out cycles.
func (v *validation) edges(nodes []*Node) {
	earlier := map[*Node]bool{}
	for _, n := range nodes {
		for i, e := range n.Inputs {
			switch {
			case e.From == nil:
				v.at(n, "input %d has no producer", i)
			case !earlier[e.From]:
				v.at(n, "input %d is %s %q (%s), which was not created before it in this job; do not mix streams of two jobs",
					i, kind(e.From), e.From.Label(), site(e.From))
			case e.From.Role == Sink:
				v.at(n, "input %d is sink %q (%s), which has no output", i, e.From.Label(), site(e.From))
			}
			switch e.Partition {
			case Forward, Hash, Rebalance, Broadcast:
			default:
				v.at(n, "input %d has unknown partition %q", i, e.Partition)
			}
		}
		earlier[n] = true
	}
}

func site(n *Node) string {
	if n.Site == "" {
		return "unknown place"
	}
	return n.Site
}

func kind(n *Node) string {
	if n.Kind == "" {
		return string(n.Role)
	}
	return n.Kind
}
