package connectortest

import (
	"errors"
	"slices"

	"github.com/weirstream/weir/connector"
)

// assignment is a split that was assigned to a reader.
type assignment[S connector.Split] struct {
	subtask int
	split   S
}

// taken is what a snapshot froze, for a reader that fails alone.
type taken[S connector.Split] struct {
	records  int // emitted before it
	assigned int // assignments before it
	splits   [][]S
}

// complete makes a snapshot the one that a failed reader goes back to.
func (r *SourceRun[T, S, E]) complete(id int64) {
	t, ok := r.taken[id]
	if !ok {
		return
	}
	r.completed = t
	for n, other := range r.taken {
		if n <= id {
			delete(r.taken, n)
			continue
		}
		other.assigned -= t.assigned
		r.taken[n] = other
	}
	r.assigned = slices.Delete(r.assigned, 0, t.assigned)
	r.completed.assigned = 0
}

// FailReader lets the reader of a subtask fail while the enumerator and the
// other readers live on: what it emitted since the last complete checkpoint is
// taken back, the enumerator gets back what was assigned to it since, and a new
// reader goes on from the checkpoint.
func (r *SourceRun[T, S, E]) FailReader(subtask int) error {
	failed := r.readers[subtask]
	r.registered = slices.DeleteFunc(r.registered, func(s int) bool { return s == subtask })
	err := failed.reader.Close()

	kept := r.records[:r.completed.records:r.completed.records]
	for _, e := range r.records[r.completed.records:] {
		if e.Subtask != subtask {
			kept = append(kept, e)
		}
	}
	r.records = kept
	clear(r.taken) // they go with the attempt of the reader

	var back []S
	r.assigned = slices.DeleteFunc(r.assigned, func(a assignment[S]) bool {
		if a.subtask == subtask {
			back = append(back, a.split)
		}
		return a.subtask == subtask
	})
	if len(back) > 0 {
		err = errors.Join(err, r.enumerator.AddSplitsBack(back, subtask))
	}
	if err != nil {
		return err
	}
	if err := r.open(subtask, len(r.readers)); err != nil {
		return err
	}
	r.registered = append(r.registered, subtask)
	slices.Sort(r.registered)
	return r.enumerator.AddReader(subtask)
}

// Pause stops and resumes splits of a reader by id.
func (r *SourceRun[T, S, E]) Pause(subtask int, pause, resume []string) error {
	rd := r.readers[subtask]
	rd.idle = false
	return rd.reader.PauseSplits(pause, resume)
}
