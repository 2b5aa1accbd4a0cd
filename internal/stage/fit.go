package stage

import (
	"context"

	"github.com/weirstream/weir/internal/snapshot"
)

// What a start asks before anything is begun from a snapshot: once it is on
// record there is no going back from it without a cost.

// RestoreChecker is a Body that tells whether its operator can take over what
// a snapshot holds, as far as that shows without reading data. The operator
// refuses the same as it opens.
type RestoreChecker interface {
	CheckRestore(op *snapshot.Operator) error
}

// RestoreNoter is a Body that says in words how what a snapshot holds would be
// converted, if CheckRestore accepts it.
type RestoreNoter interface {
	RestoreNotes(op *snapshot.Operator) []string
}

// StateDeclarer is a Body that tells which states its operator declares, by
// name: keyed ones, timers, and those of subtasks. One that is none declares
// none.
type StateDeclarer interface {
	DeclaresState(name string) bool
}

// Inspector is a Committer that tells what a commit would find.
type Inspector interface {
	// Inspect answers as Commit would, and changes nothing. What cannot be told
	// without trying is no error.
	Inspect(ctx context.Context, committables [][]byte) error
}
