package graph

import (
	"fmt"
	"slices"
	"testing"
)

func TestRegions(t *testing.T) {
	source := func(id string) *Node { return &Node{ID: id, Role: Source} }
	a, b := source("a"), source("b")
	one := &Node{ID: "one", Role: Operator, Parallelism: 1, Inputs: in(a, Forward)}
	keyed := &Node{ID: "keyed", Role: Operator, Inputs: in(a, Hash)}
	union := &Node{ID: "union", Role: Operator, Inputs: []Edge{{From: a, Partition: Forward}, {From: b, Partition: Forward}}}
	after := &Node{ID: "after", Role: Operator, Inputs: []Edge{{From: union, Partition: Forward}, {From: a, Partition: Forward}}}
	chained := &Node{ID: "chained", Role: Operator, Inputs: in(b, Forward)}
	spread := &Node{ID: "spread", Role: Operator, Inputs: in(b, Broadcast)}
	for name, tc := range map[string]struct {
		nodes []*Node
		want  string
	}{
		"each subtask for itself":   {[]*Node{b, chained}, "[b/0] [b/1] [b/2]"},
		"two sources":               {[]*Node{a, b}, "[a/0] [a/1] [a/2] [b/0] [b/1] [b/2]"},
		"a shuffle beside a chain":  {[]*Node{a, b, keyed, chained}, "[a/0 a/1 a/2 keyed/0 keyed/1 keyed/2] [b/0] [b/1] [b/2]"},
		"a broadcast":               {[]*Node{b, spread}, "[b/0 b/1 b/2 spread/0 spread/1 spread/2]"},
		"forward edges, two inputs": {[]*Node{a, b, union, after}, "[a/0 b/0 union/0 after/0] [a/1 b/1 union/1 after/1] [a/2 b/2 union/2 after/2]"},
		"less parallelism":          {[]*Node{a, one}, "[a/0 a/1 a/2 one/0]"},
	} {
		p, err := (&Graph{Nodes: tc.nodes}).Plan(3, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for i, r := range p.Regions() {
			var names []string
			for _, task := range r {
				names = append(names, fmt.Sprintf("%s/%d", task.Stage.ID, task.Subtask))
			}
			if i > 0 {
				got += " "
			}
			got += fmt.Sprint(slices.Clip(names))
		}
		if got != tc.want {
			t.Errorf("%s: the regions are %s, want %s", name, got, tc.want)
		}
	}
}
