package state

import (
	"slices"

	"github.com/weirstream/weir/internal/snapshot"
)

// Redistribute deals the operator lists of the old subtasks out to subtasks
// of a new parallelism, as Flink does. With equal parallelism each subtask
// has its own lists back. Otherwise the elements of each list, in order of
// the old subtasks, are cut into runs whose lengths differ by one at most; the
// longer runs of one list begin where those of the list before it ended, so
// that several short lists do not all fall to the first subtask. The lists
// are taken in the order in which the old subtasks name them.
//
// It is for the engine.
func Redistribute(old [][]snapshot.ListState, parallelism int) [][]snapshot.ListState {
	if len(old) == parallelism {
		return old
	}
	next := make([][]snapshot.ListState, parallelism)
	first := 0
	for _, list := range concatenate(old) {
		share, more := len(list.Items)/parallelism, len(list.Items)%parallelism
		after := (first + more) % parallelism
		for i := range parallelism {
			n := share
			if i < more {
				n++
			}
			to := (first + i) % parallelism
			part := list
			part.Items = list.Items[:n:n]
			next[to] = append(next[to], part)
			list.Items = list.Items[n:]
		}
		first = after
	}
	return next
}

// concatenate returns each list with the elements of all subtasks.
func concatenate(old [][]snapshot.ListState) []snapshot.ListState {
	var all []snapshot.ListState
	for _, lists := range old {
		for _, l := range lists {
			i := slices.IndexFunc(all, func(a snapshot.ListState) bool { return a.Name == l.Name })
			if i < 0 {
				l.Items = slices.Clone(l.Items)
				all = append(all, l)
			} else {
				all[i].Items = append(all[i].Items, l.Items...)
			}
		}
	}
	return all
}
