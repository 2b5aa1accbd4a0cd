package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/twophase"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

// task is a source and a writer in one subtask; its state is its position.
type task struct {
	p       *proc
	id      stage.TaskID
	writer  connector.Writer[int, twophase.Committable[handle]]
	next    int // the record to read
	credit  int
	stopped bool
	over    bool // the end was reported
	mail    []func() error
}

const unlimited = 1 << 30

func (p *proc) newTask(i int) (*task, error) {
	w, err := p.sink().NewWriter(sinkContext{p, p.attempt, i})
	if err != nil {
		return nil, err
	}
	t := &task{p: p, id: stage.TaskID{Stage: "rows", Subtask: i}, writer: w}
	if p.attempt.Restored != nil {
		t.next = positions(p.attempt.Restored)[i]
	}
	return t, nil
}

// positions are those of the subtasks in a snapshot.
func positions(m *snapshot.Metadata) []int {
	next := make([]int, len(m.Operators[0].Subtasks))
	for i, s := range m.Operators[0].Subtasks {
		next[i] = int(s.Splits[0][0])
	}
	return next
}

func (t *task) atEnd() bool   { return t.next >= t.p.u.sc.records }
func (t *task) reading() bool { return t.credit > 0 && !t.atEnd() && !t.stopped }

func (t *task) run() {
	f := t.p.u.current
	idle := func() bool { return len(t.mail) > 0 || t.reading() || t.atEnd() && !t.over }
	for f.wait(idle) {
		var err error
		switch {
		case len(t.mail) > 0:
			do := t.mail[0]
			t.mail = t.mail[1:]
			err = do()
		case t.reading():
			if err = t.writer.Write([]int{record(t.id.Subtask, t.next)}, []int64{0}); err == nil {
				t.next++
				t.credit--
			}
		default:
			t.over = true
			t.p.c.Ended(t.id)
		}
		if f.dead {
			return
		}
		if err != nil {
			t.p.fail(fmt.Errorf("task %d: %w", t.id.Subtask, err))
			return
		}
	}
}

// record is the value of a record, never 0.
func record(subtask, n int) int { return 1 + subtask<<5 + n }

// barrier pre-commits, then stores the task's part beside what it does next.
func (t *task) barrier(b *stage.Barrier) error {
	if err := t.writer.Flush(context.Background()); err != nil {
		return err
	}
	cs, err := t.writer.PreCommit(b.ID)
	if err != nil {
		return err
	}
	t.stopped = t.stopped || b.Stop
	sink := t.p.sink().CommittableCodec()
	format := sink.Format()
	var data [][]byte
	for _, c := range cs {
		d, err := sink.Append(nil, c)
		if err != nil {
			return err
		}
		data = append(data, d)
	}
	t.p.c.Prepared(t.id, b.ID, "rows", &format, data)
	next := t.next
	t.p.spawn(fmt.Sprintf("store%d.%d", t.id.Subtask, b.ID), 2, func() { t.store(b.ID, next, format) })
	return nil
}

func (t *task) store(id int64, next int, format codec.Format) {
	blobs, dir, ok := t.p.c.Target(id)
	if !ok {
		t.p.c.Decline(t.id, id, errors.New("no longer under way"))
		return
	}
	name := snapshot.Name("rows", t.id.Subtask, t.p.attempt.Number)
	file, err := putFile(context.Background(), blobs, dir, name)
	switch {
	case t.p.u.current.dead:
	case err != nil:
		t.p.c.Decline(t.id, id, fmt.Errorf("write %s: %w", path.Join(dir, name), err))
	default:
		t.p.c.Ack(Ack{Task: t.id, ID: id, Files: []snapshot.File{file}, Operators: []snapshot.Operator{{
			ID: "rows", Parallelism: t.p.u.sc.subtasks, CommittableFormat: &format,
			Subtasks: []snapshot.Subtask{{Index: t.id.Subtask, Splits: [][]byte{{byte(next)}}}},
		}}})
	}
}
