package checkpoint

import (
	"cmp"
	"path"
	"slices"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
)

// barrier is what the driver knows of one snapshot from its trigger until all
// tasks have answered and it has ended.
type barrier struct {
	*stage.Barrier
	target
	// tasks is how many take part; missing are those that have not answered.
	tasks   int
	missing map[stage.TaskID]bool
	// prepared are the sinks' subtasks whose committables are in the pool.
	prepared map[sinkTask]bool
	acks     map[stage.TaskID]Ack
	// enumerators by the id of their source.
	enumerators map[string]enumeratorState
	// dead: it will not be completed; what still comes is deleted.
	dead bool
}

type sinkTask struct {
	task     stage.TaskID
	operator string
}

type enumeratorState struct {
	state  []byte
	format codec.Format
}

// target is where a snapshot goes.
type target struct {
	blobs storage.Blobs
	dir   string
	// path is the directory as a user would give it; external tells that it
	// lies outside the job's storage.
	path     string
	external bool
}

// metadata puts the snapshot together of what the tasks acknowledged and what
// the sinks have not confirmed.
func (b *barrier) metadata(p *pool) *snapshot.Metadata {
	m := &snapshot.Metadata{ID: b.ID, Kind: b.Kind, Triggered: b.Triggered}
	acks := make([]Ack, 0, len(b.acks))
	for _, task := range sortedTasks(b.acks) {
		acks = append(acks, b.acks[task])
	}
	m.Operators, m.Files = Assemble(acks)
	for i := range m.Operators {
		b.finish(&m.Operators[i], p)
	}
	return m
}

// Assemble puts together what tasks acknowledged of one snapshot: operators in
// order of the acks, their subtasks by index, files by name. A file that several
// tasks refer to is listed once.
func Assemble(acks []Ack) ([]snapshot.Operator, []snapshot.File) {
	ops, files := []snapshot.Operator{}, []snapshot.File{}
	at := map[string]int{}
	for _, ack := range acks {
		files = append(files, ack.Files...)
		for _, op := range ack.Operators {
			i, ok := at[op.ID]
			if !ok {
				i = len(ops)
				at[op.ID] = i
				ops = append(ops, snapshot.Operator{})
			}
			merge(&ops[i], op)
		}
	}
	for _, op := range ops {
		slices.SortFunc(op.Subtasks, func(a, b snapshot.Subtask) int { return cmp.Compare(a.Index, b.Index) })
	}
	slices.SortFunc(files, func(a, b snapshot.File) int { return cmp.Compare(a.Name, b.Name) })
	files = slices.CompactFunc(files, func(a, b snapshot.File) bool { return a.Name == b.Name })
	return ops, files
}

// merge adds one subtask's part of an operator.
func merge(into *snapshot.Operator, part snapshot.Operator) {
	if into.ID == "" {
		subtasks := slices.Clone(part.Subtasks)
		*into = part
		into.Subtasks = subtasks
		return
	}
	into.Subtasks = append(into.Subtasks, part.Subtasks...)
	if len(into.States) == 0 {
		into.States = part.States
	}
	into.MaxParallelism = max(into.MaxParallelism, part.MaxParallelism)
	into.KeyFormat = cmp.Or(into.KeyFormat, part.KeyFormat)
	into.SplitFormat = cmp.Or(into.SplitFormat, part.SplitFormat)
	into.CommittableFormat = cmp.Or(into.CommittableFormat, part.CommittableFormat)
}

// finish adds what is not a subtask's.
func (b *barrier) finish(op *snapshot.Operator, p *pool) {
	if e, ok := b.enumerators[op.ID]; ok {
		op.Enumerator, op.EnumeratorFormat = e.state, &e.format
	}
	op.Committables = p.upTo(op.ID, b.ID)
	op.CommittableFormat = cmp.Or(op.CommittableFormat, p.sink(op.ID).format)
}

// files are the names, in the storage, of the files in the snapshot's directory.
func (b *barrier) files() []string {
	var names []string
	for _, task := range sortedTasks(b.acks) {
		names = append(names, b.filesOf(b.acks[task])...)
	}
	return names
}

// sharedOf are the names, in the storage, of the shared files that a task refers
// to.
func (t target) sharedOf(ack Ack) []string {
	m := snapshot.Metadata{Files: ack.Files}
	return m.SharedFiles(t.dir)
}

func (t target) filesOf(ack Ack) []string {
	var names []string
	for _, f := range ack.Files {
		if !snapshot.IsShared(f.Name) {
			names = append(names, path.Join(t.dir, f.Name))
		}
	}
	return names
}

// notice sums up what the tasks reported; now is in ms.
func (b *barrier) notice(now int64) Notice {
	n := Notice{
		ID: b.ID, Kind: b.Kind, Path: b.path, Triggered: b.Triggered, Tasks: b.tasks, Acked: len(b.acks),
		Duration: time.Duration(now-b.Triggered) * time.Millisecond,
	}
	for _, ack := range b.acks {
		n.Bytes += ack.Bytes
		n.SyncNanos += ack.SyncNanos
		n.AsyncNanos += ack.AsyncNanos
		n.BarrierNanos = max(n.BarrierNanos, ack.BarrierNanos)
	}
	return n
}

func sortedTasks[V any](m map[stage.TaskID]V) []stage.TaskID {
	tasks := make([]stage.TaskID, 0, len(m))
	for t := range m {
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, func(a, b stage.TaskID) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Subtask, b.Subtask))
	})
	return tasks
}
