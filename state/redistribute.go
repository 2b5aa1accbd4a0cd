package state

import (
	"slices"

	"github.com/weirstream/weir/internal/snapshot"
)

// Redistribute hands the operator states of the old subtasks out to subtasks
// of a new parallelism, as Flink does.
//
// Of operator lists and raw state, with equal parallelism, each subtask has its
// own back. Otherwise the elements of each, in order of the old subtasks, are
// cut into runs whose lengths differ by one at most; the longer runs of one
// list begin where those of the list before it ended, so that several short
// lists do not all fall to the first subtask. They are taken in the order in
// which the old subtasks name them.
//
// Of a union list every subtask has the elements of all, in order of the old
// subtasks. Of broadcast state, which all old subtasks hold alike, subtask i
// has the copy of subtask i, modulo the old parallelism.
//
// It is for the engine.
func Redistribute(old [][]snapshot.ListState, parallelism int) [][]snapshot.ListState {
	next := make([][]snapshot.ListState, parallelism)
	if len(old) == 0 {
		return next
	}
	first := 0
	for _, s := range concatenate(old) {
		switch {
		case s.Kind == snapshot.UnionList:
			for i := range next {
				next[i] = append(next[i], s)
			}
		case s.Kind == snapshot.BroadcastMap || len(old) == parallelism:
			for i := range next {
				next[i] = append(next[i], partOf(old[i%len(old)], s))
			}
		default:
			first = dealOut(s, next, first)
		}
	}
	return next
}

// dealOut cuts a list into runs. The longer ones begin at subtask first; it
// returns where they end.
func dealOut(s snapshot.ListState, next [][]snapshot.ListState, first int) int {
	share, more := len(s.Items)/len(next), len(s.Items)%len(next)
	for i := range next {
		n := share
		if i < more {
			n++
		}
		to := (first + i) % len(next)
		part := s
		part.Items = s.Items[:n:n]
		next[to] = append(next[to], part)
		s.Items = s.Items[n:]
	}
	return (first + more) % len(next)
}

// partOf returns what one subtask stored of a state, which may be nothing.
func partOf(stored []snapshot.ListState, s snapshot.ListState) snapshot.ListState {
	s.Items = nil
	for _, p := range stored {
		if p.Name == s.Name {
			s = p
		}
	}
	return s
}

// concatenate returns each state with the items of all subtasks.
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
