package embedded

import "slices"

// assignments are the splits that an enumerator has assigned and that no
// completed checkpoint holds as a reader's (Flink's SplitAssignmentTracker). The
// enumerator's goroutine owns them.
type assignments struct {
	list []assignment
	// returned is the checkpoint whose splits of a reader have come back.
	returned map[int]int64
}

type assignment struct {
	subtask int
	splits  [][]byte
	// before is the first snapshot that it lies before, 0 if there is none yet.
	before int64
}

func (a *assignments) add(subtask int, splits [][]byte) {
	if len(splits) > 0 {
		a.list = append(a.list, assignment{subtask: subtask, splits: splits})
	}
}

// snapshot tells that what was assigned so far lies before a snapshot.
func (a *assignments) snapshot(id int64) {
	for i := len(a.list) - 1; i >= 0 && a.list[i].before == 0; i-- {
		a.list[i].before = id
	}
}

// complete forgets what a completed checkpoint holds.
func (a *assignments) complete(id int64) { a.drop(func(l assignment) bool { return l.heldBy(id) }) }

// takeBack removes what a reader was assigned, and returns what of it the
// checkpoint does not hold, behind what that does, if it is to come back: once,
// for from then on it is whose it was assigned to.
func (a *assignments) takeBack(subtask int, checkpoint int64, held [][]byte) (splits [][]byte) {
	if len(held) > 0 && a.returned[subtask] != checkpoint {
		if a.returned == nil {
			a.returned = map[int]int64{}
		}
		a.returned[subtask], splits = checkpoint, slices.Clone(held)
	}
	a.drop(func(l assignment) bool {
		if l.subtask == subtask && !l.heldBy(checkpoint) {
			splits = append(splits, l.splits...)
		}
		return l.subtask == subtask
	})
	return splits
}

func (l assignment) heldBy(checkpoint int64) bool { return l.before != 0 && l.before <= checkpoint }

func (a *assignments) drop(goes func(assignment) bool) {
	kept := a.list[:0]
	for _, l := range a.list {
		if !goes(l) {
			kept = append(kept, l)
		}
	}
	clear(a.list[len(kept):])
	a.list = kept
}
