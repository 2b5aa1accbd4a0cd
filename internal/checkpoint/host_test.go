package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

var (
	source = stage.TaskID{Stage: "src"}
	sink0  = stage.TaskID{Stage: "rows"}
	sink1  = stage.TaskID{Stage: "rows", Subtask: 1}
)

// job is one attempt of a job with a source and a sink of two subtasks, in a
// synctest bubble. Its tasks answer barriers at once unless told otherwise.
type job struct {
	t       *testing.T
	blobs   storage.Blobs
	attempt *Attempt
	c       *Coordinator
	sink    *fakeCommitter
	result  chan error
	cancel  context.CancelFunc
	log     bytes.Buffer

	mu sync.Mutex
	// silent tasks do not answer.
	silent   map[stage.TaskID]bool
	barriers []*stage.Barrier
	events   []string
	notices  []Notice
	// empty sinks pre-commit nothing.
	empty bool
}

// launch starts an attempt and runs its coordinator.
func launch(t *testing.T, blobs storage.Blobs, o checkpoint.Options, silent ...stage.TaskID) *job {
	t.Helper()
	j := prepare(t, blobs, o)
	for _, s := range silent {
		j.silent[s] = true
	}
	j.run()
	return j
}

func prepare(t *testing.T, blobs storage.Blobs, o checkpoint.Options) *job {
	t.Helper()
	j := &job{t: t, blobs: blobs, sink: &fakeCommitter{}, silent: map[stage.TaskID]bool{}, result: make(chan error, 1)}
	a, err := Start(t.Context(), StartOptions{
		Job: "job", Blobs: blobs, ExactlyOnceSinks: true, Host: "here", PID: 1, NewLineage: func() string { return "L" },
		OpenPath: func(string) (storage.Blobs, string, error) { return nil, "", errors.New("nowhere") },
	})
	if err != nil {
		t.Fatal(err)
	}
	j.attempt = a
	committers := map[string]stage.Committer{"rows": j.sink}
	if err := a.ResolveSinks(t.Context(), committers); err != nil {
		t.Fatal(err)
	}
	o.Dir = checkpoint.Memory
	o.EnsureDefaults()
	j.c, err = New(Config{
		Attempt: a, Options: o, Job: "job", Blobs: blobs, Host: j, Committers: committers,
		OpenDir: func(dir string) (storage.Blobs, error) { return under{blobs, dir[1:]}, nil },
		Logger:  slog.New(slog.NewTextHandler(&j.log, nil)), Version: "test", KeyHash: "hash/v1",
		OnEvent: func(n Notice) { j.notices = append(j.notices, n) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (j *job) run() {
	ctx, cancel := context.WithCancel(context.Background())
	j.cancel = cancel
	j.t.Cleanup(cancel)
	go func() { j.result <- j.c.Run(ctx) }()
	synctest.Wait()
}

// crash ends the attempt as the failure of a task does.
func (j *job) crash() {
	j.t.Helper()
	j.cancel()
	if err := <-j.result; !errors.Is(err, context.Canceled) {
		j.t.Errorf("run ended with %v", err)
	}
}

func (j *job) say(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, fmt.Sprintf(format, args...))
}

func (j *job) Tasks() []stage.TaskID { return []stage.TaskID{source, sink0, sink1} }

func (j *job) Drain() { j.say("drain") }

func (j *job) Trigger(b *stage.Barrier, enumerators func(string, []byte, codec.Format, error)) {
	j.barriers = append(j.barriers, b)
	enumerators("src", fmt.Appendf(nil, "splits at %d", b.ID), codec.Format{ID: "splits", Version: 1}, nil)
	for _, task := range j.Tasks() {
		if !j.silent[task] {
			j.answer(task, b.ID)
		}
	}
}

// answer takes a task's part in a snapshot: a data file of its own and, for
// sinks, a transaction named after the checkpoint and subtask.
func (j *job) answer(task stage.TaskID, id int64) { j.c.Ack(j.part(task, id)) }

func (j *job) part(task stage.TaskID, id int64) Ack {
	name := snapshot.Name(task.Stage, task.Subtask, j.attempt.Number)
	a := Ack{Task: task, ID: id, Bytes: 4, BarrierNanos: int64(10 + task.Subtask), AsyncNanos: 5, SyncNanos: 2,
		Files: []snapshot.File{{Name: name}}}
	if blobs, dir, ok := j.c.Target(id); ok {
		f, err := putFile(j.t.Context(), blobs, dir, name)
		if err != nil {
			j.t.Error(err)
		}
		a.Files[0] = f
	}
	op := snapshot.Operator{ID: task.Stage, Parallelism: 1, Subtasks: []snapshot.Subtask{{Index: task.Subtask, File: name}}}
	if task.Stage == "rows" && !j.empty {
		op.Parallelism = 2
		op.CommittableFormat = &codec.Format{ID: "txn", Version: 1}
		op.Committables = []snapshot.Committable{{Checkpoint: id, Subtask: task.Subtask, Data: fmt.Appendf(nil, "%d.%d", id, task.Subtask)}}
	}
	a.Operators = []snapshot.Operator{op}
	return a
}

// putFile stores a data file without key groups.
func putFile(ctx context.Context, blobs storage.Blobs, dir, name string) (snapshot.File, error) {
	f := snapshot.File{Name: name}
	err := blobs.Put(ctx, path.Join(dir, name), func(w io.Writer) (err error) {
		f.Size, f.CRC, err = snapshot.NewFileWriter(w, snapshot.None).Close()
		return err
	})
	return f, err
}

func (j *job) CheckpointComplete(id int64) { j.say("complete %d", id) }
func (j *job) CheckpointAborted(id int64)  { j.say("aborted %d", id) }
func (j *job) Committed(id int64)          { j.say("committed %d", id) }

func (j *job) wantEvents(want ...string) {
	j.t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.events, want) {
		j.t.Errorf("events %q, want %q", j.events, want)
	}
}

// trigger takes a snapshot and waits for it.
func (j *job) trigger(r Request) (Result, error) {
	return j.c.Trigger(j.t.Context(), r)
}

func (j *job) checkpoint() {
	j.t.Helper()
	if _, err := j.trigger(Request{Kind: snapshot.Checkpoint}); err != nil {
		j.t.Fatal(err)
	}
	synctest.Wait()
}

func (j *job) load(dir string) *snapshot.Metadata {
	j.t.Helper()
	m, err := snapshot.Load(j.t.Context(), j.blobs, dir)
	if err != nil {
		j.t.Fatal(err)
	}
	return m
}

// files lists what lies below a directory, without it.
func files(t *testing.T, blobs storage.Blobs, dir string) (names []string) {
	t.Helper()
	err := blobs.List(t.Context(), dir, func(name string, _ int64) error {
		names = append(names, strings.TrimPrefix(name, dir+"/"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func committables(m *snapshot.Metadata) (data []string) {
	for _, op := range m.Operators {
		for _, c := range op.Committables {
			data = append(data, string(c.Data))
		}
	}
	return data
}

func wantStrings(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// fakeCommitter notes what it commits. A gate, if set, holds commits back.
type fakeCommitter struct {
	mu        sync.Mutex
	committed []string
	swept     int
	gate      chan struct{}
	err       error
	sweepErr  error
	// onSweep, if set, is called as a sweep begins, sweptWith is how the last
	// one was told the ledger stands.
	onSweep   func()
	sweptWith error
}

func (f *fakeCommitter) sweeps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.swept
}

func (f *fakeCommitter) Commit(ctx context.Context, data [][]byte) error {
	f.mu.Lock()
	gate, err := f.gate, f.err
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range data {
		f.committed = append(f.committed, string(d))
	}
	return nil
}

func (f *fakeCommitter) Sweep(_ context.Context, stillNewest func() error) error {
	f.mu.Lock()
	f.swept++
	err, begun := f.sweepErr, f.onSweep
	f.mu.Unlock()
	if begun != nil {
		begun()
	}
	newest := stillNewest()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sweptWith = newest
	return errors.Join(err, newest)
}

func (*fakeCommitter) Close() error { return nil }

func (f *fakeCommitter) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.committed)
}

// under is a directory of a storage as a storage.
type under struct {
	storage.Blobs
	dir string
}

func (u under) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	return u.Blobs.Put(ctx, path.Join(u.dir, name), write)
}
func (u under) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return u.Blobs.PutIfAbsent(ctx, path.Join(u.dir, name), data)
}
func (u under) Get(ctx context.Context, name string) ([]byte, error) {
	return u.Blobs.Get(ctx, path.Join(u.dir, name))
}
func (u under) Delete(ctx context.Context, name string) error {
	return u.Blobs.Delete(ctx, path.Join(u.dir, name))
}

func newStore() *mem.Blobs { return mem.New() }

const second = time.Second
