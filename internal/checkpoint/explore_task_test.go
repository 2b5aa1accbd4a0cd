package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"

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
	// uploads and tables are nil without shared files.
	uploads *snapshot.Uploads
	tables  []*table
}

// table is a file of a model backend: a checkpoint adds one, and the backend
// keeps the newest three.
type table struct {
	content string
	// names are those under which it was uploaded, files the same in full.
	names []string
	files []snapshot.File
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
	if p.u.sc.shared {
		return t, t.openTables()
	}
	return t, nil
}

// openTables reads the files of the restored snapshot.
func (t *task) openTables() error {
	a := t.p.attempt
	var restored []snapshot.File
	if a.Share {
		restored = a.Restored.Files
	}
	t.uploads = snapshot.NewUploads(snapshot.Writer{Lineage: a.Lineage, Attempt: a.Number, Stage: "rows", Subtask: t.id.Subtask}, restored)
	if a.Restored == nil || a.Restored.Operators[0].Subtasks[t.id.Subtask].Native == nil {
		return nil
	}
	files := map[string]snapshot.File{}
	for _, f := range a.Restored.Files {
		files[f.Name] = f
	}
	for _, f := range a.Restored.Operators[0].Subtasks[t.id.Subtask].Native.Files {
		data, err := a.RestoredBlobs.Get(context.Background(), path.Join(a.RestoredDir, f.File))
		if err != nil {
			return fmt.Errorf("task %d: %w", t.id.Subtask, err)
		}
		t.tables = append(t.tables, &table{content: string(data), names: []string{f.File}, files: []snapshot.File{files[f.File]}})
	}
	return nil
}

// usable is the name of a table that an upload may refer to.
func (t *task) usable(up *snapshot.Upload, tab *table) (snapshot.File, bool) {
	for _, name := range tab.names {
		if f, ok := up.Usable(name); ok {
			return f, ok
		}
	}
	if n := len(tab.names); n > 0 && t.p.u.off.has(shareCompleted) {
		return tab.files[n-1], true
	}
	return snapshot.File{}, false
}

// upload stores the tables of a snapshot.
func (t *task) upload(b *stage.Barrier, tables []*table, sub *snapshot.Subtask) (*snapshot.Upload, error) {
	blobs, dir, ok := t.p.c.Target(b.ID)
	if !ok {
		return nil, errors.New("no longer under way")
	}
	ctx := context.Background()
	up := t.uploads.Begin(b.ID, blobs, dir, b.Kind != snapshot.Savepoint)
	sub.Native = &snapshot.Native{Format: "model/1"}
	for i, tab := range tables {
		f, ok := t.usable(up, tab)
		if ok {
			up.Refer(f)
		} else {
			var err error
			f, err = up.Put(ctx, func(w io.Writer) error {
				_, err := io.WriteString(w, tab.content)
				return err
			})
			if err != nil {
				return nil, errors.Join(err, up.Abandon(ctx))
			}
			tab.names, tab.files = append(tab.names, f.Name), append(tab.files, f)
		}
		sub.Native.Files = append(sub.Native.Files, snapshot.NativeFile{Local: strconv.Itoa(i), File: f.Name})
	}
	up.Done()
	return up, nil
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
	if t.uploads != nil {
		t.tables = append(t.tables, &table{content: fmt.Sprintf("%d of attempt %d", b.ID, t.p.attempt.Number)})
		t.tables = t.tables[max(0, len(t.tables)-3):]
	}
	tables := slices.Clone(t.tables)
	t.p.spawn(fmt.Sprintf("store%d.%d", t.id.Subtask, b.ID), 2, func() {
		if t.uploads == nil {
			t.store(b.ID, next, format)
		} else {
			t.storeTables(b, next, format, tables)
		}
	})
	return nil
}

func (t *task) storeTables(b *stage.Barrier, next int, format codec.Format, tables []*table) {
	sub := snapshot.Subtask{Index: t.id.Subtask, Splits: [][]byte{{byte(next)}}}
	up, err := t.upload(b, tables, &sub)
	switch {
	case t.p.u.current.dead:
	case err != nil:
		t.p.c.Decline(t.id, b.ID, err)
	default:
		t.p.c.Ack(Ack{Task: t.id, ID: b.ID, Files: up.Files(), Operators: []snapshot.Operator{{
			ID: "rows", Parallelism: t.p.u.sc.subtasks, CommittableFormat: &format, Subtasks: []snapshot.Subtask{sub},
		}}})
	}
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
