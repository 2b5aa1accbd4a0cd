package embedded

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

// claim returns what the job takes over of a stored operator: all of it or, if
// the rest is to be dropped, what has a place; nil for nothing. n is the node
// with its id, nil if there is none. Committables are left to ResolveSinks,
// which knows those that are committed.
func (r *restored) claim(op *snapshot.Operator, n *graph.Node, drop bool) (*snapshot.Operator, error) {
	const choices = "or start with --allow-non-restored-state, which drops it for good"
	if n == nil || n.Role != graph.Source && readsInput(op) {
		if !holdsState(op) {
			return op, nil
		}
		if !drop {
			return nil, fmt.Errorf("%s holds state of operator %q (%s), which the job no longer has: give the operator back its id, %s", r.name, op.ID, op.Kind, choices)
		}
		r.dropped = append(r.dropped, fmt.Sprintf("operator %q (%s)", op.ID, op.Kind))
		return nil, nil
	}
	declares := func(string) bool { return false }
	declarer, ok := n.Body.(stage.StateDeclarer)
	if ok {
		declares = declarer.DeclaresState
	}
	lost := unclaimed(op, declares)
	switch {
	case len(lost) == 0, !drop && ok: // it says itself what it lacks
		return op, nil
	case !drop:
		return nil, fmt.Errorf("%s holds state %q of operator %q (%s), which is a %s now and has no such state: give it another id, %s", r.name, lost[0], op.ID, op.Kind, n.Kind, choices)
	}
	for _, name := range lost {
		r.dropped = append(r.dropped, fmt.Sprintf("state %q of operator %q", name, op.ID))
	}
	return without(op, lost), nil
}

// holdsState reports whether a start would need the operator.
func holdsState(op *snapshot.Operator) bool {
	return len(op.States) > 0 || readsInput(op) || slices.ContainsFunc(op.Subtasks, func(s snapshot.Subtask) bool { return len(s.Lists) > 0 })
}

// readsInput reports whether the operator was a source that had begun to read.
func readsInput(op *snapshot.Operator) bool {
	return op.Enumerator != nil || slices.ContainsFunc(op.Subtasks, func(s snapshot.Subtask) bool { return len(s.Splits) > 0 })
}

// unclaimed are the names of stored states that are not declared, each once.
func unclaimed(op *snapshot.Operator, declares func(name string) bool) (names []string) {
	add := func(name string) {
		if !declares(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, s := range op.States {
		add(s.Name)
	}
	for _, sub := range op.Subtasks {
		for _, l := range sub.Lists {
			add(l.Name)
		}
	}
	return names
}

// without is op without the named states. The snapshot itself stays as it is.
func without(op *snapshot.Operator, names []string) *snapshot.Operator {
	kept := *op
	kept.States = slices.DeleteFunc(slices.Clone(op.States), func(s snapshot.State) bool { return slices.Contains(names, s.Name) })
	kept.Subtasks = slices.Clone(op.Subtasks)
	for i := range kept.Subtasks {
		lists := slices.Clone(kept.Subtasks[i].Lists)
		kept.Subtasks[i].Lists = slices.DeleteFunc(lists, func(l snapshot.ListState) bool { return slices.Contains(names, l.Name) })
	}
	if len(kept.States) == 0 {
		kept.KeyFormat, kept.MaxParallelism = nil, 0 // nothing is left that they bind
	}
	return &kept
}
