package embedded_test

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// sum adds numbers up, over all records: their key is one.
type sum struct{ total state.Value[int64] }

func newSum(r *state.Registry) *sum { return &sum{total: state.ValueIn[int64](r, "total")} }

func (f *sum) Process(c *stream.Ctx[string, string], v string) error {
	var n int64
	if _, err := fmt.Sscan(v, &n); err != nil {
		return err
	}
	total, err := f.total.Get()
	if err != nil {
		return err
	}
	c.Emit(fmt.Sprint(total + n))
	return f.total.Set(total + n)
}

// stall blocks the stage at the record "0", so that its barrier is late.
func stall(s stream.Stream[string], reached, release *jobtest.Gate) stream.Stream[string] {
	return stream.Map(s, func(v string) string {
		if v == "0" {
			reached.Open()
			release.Wait()
		}
		return v
	}, stream.ID("stall"))
}

func TestC16RecordBehindTheBarrier(t *testing.T) {
	for _, tc := range []struct {
		mode checkpoint.Mode
		want string // the sum after the restore
	}{{checkpoint.ExactlyOnce, "13"}, {checkpoint.AtLeastOnce, "15"}} {
		t.Run(string(tc.mode), func(t *testing.T) {
			dir, out := t.TempDir(), collect.New[string]()
			afterOne, afterTwo := jobtest.NewGate(), jobtest.NewGate()
			stalled, release, end := jobtest.NewGate(), jobtest.NewGate(), jobtest.NewGate()
			build := func(j *stream.Job) {
				a := jobtest.Script(j, "a", script(records("1"), hold(afterOne), records("2"), hold(afterTwo), hold(end))...)
				b := stall(jobtest.Script(j, "b", script(records("10", "0"), hold(end))...), stalled, release)
				k := stream.KeyBy(stream.Union(a, b), func(string) string { return "all" })
				stream.To(stream.Process(k, "sum", newSum), "out", out)
			}
			r := launch(t, dir, embedded.Options{Checkpoint: checkpoint.Options{Mode: tc.mode}}, build)
			r.reach(afterOne)
			stalled.Wait()
			id := make(chan error, 1)
			go func() {
				_, err := r.job.TakeCheckpoint(r.ctx)
				id <- err
			}()
			// a passes its barrier, and 2 is behind it.
			r.passed(t, "a")
			afterOne.Open()
			r.reach(afterTwo)
			if tc.mode == checkpoint.AtLeastOnce {
				visible(t, out, 2) // 1 and 2; b's records wait in its stage
			}
			release.Open()
			if err := <-id; err != nil {
				t.Fatal(err)
			}
			visible(t, out, 4)
			r.kill()
			before := len(out.Values())
			afterTwo.Open()
			end.Open()
			launch(t, dir, embedded.Options{}, build).end()
			want(t, "after the restore", out.Values()[before:], tc.want)
		})
	}
}

func TestC18ChannelEndsDuringAlignment(t *testing.T) {
	dir, out := t.TempDir(), collect.NewExactlyOnce[string]()
	gate, stalled, release := jobtest.NewGate(), jobtest.NewGate(), jobtest.NewGate()
	build := func(j *stream.Job) {
		a := jobtest.Script(j, "a", script(records("1"), hold(gate))...)
		b := stall(jobtest.Script(j, "b", records("10", "0")...), stalled, release)
		k := stream.KeyBy(stream.Union(a, b), func(string) string { return "all" })
		stream.To(stream.Process(k, "sum", newSum), "out", out)
	}
	r := launch(t, dir, embedded.Options{}, build)
	r.reach(gate)
	stalled.Wait()
	id := make(chan error, 1)
	go func() {
		_, err := r.job.TakeCheckpoint(r.ctx)
		id <- err
	}()
	r.passed(t, "a")
	release.Open()
	if err := <-id; err != nil {
		t.Fatal(err)
	}
	visible(t, out, 3)
	r.kill()
	gate.Open()
	launch(t, dir, embedded.Options{}, build).end()
	got := out.Values()
	if len(got) != 3 || got[2] != "11" {
		t.Errorf("sums %v, want three that end in 11", got)
	}
}

// slowDisk holds up writes of files whose name has a part, until released.
type slowDisk struct {
	storage.Blobs
	mu      sync.Mutex
	part    string
	reached chan struct{}
	release chan struct{}
}

func (d *slowDisk) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	d.mu.Lock()
	slow := d.part != "" && strings.Contains(name, d.part)
	if slow {
		d.part = ""
	}
	d.mu.Unlock()
	if slow {
		close(d.reached)
		<-d.release
	}
	return d.Blobs.Put(context.WithoutCancel(ctx), name, write)
}

func TestC01AcknowledgementAfterExpiry(t *testing.T) {
	disk := &slowDisk{Blobs: mem.New(), part: "chk-1/count-1", reached: make(chan struct{}), release: make(chan struct{})}
	gate, out := jobtest.NewGate(), collect.NewExactlyOnce[string]()
	keys := numbered("k", 40)
	build := countJob(out, script(records(keys...), hold(gate), records(keys...)))
	o := embedded.Options{Parallelism: 2, Storage: disk, Checkpoint: checkpoint.Options{
		Timeout: 300 * ms, TolerableFailures: checkpoint.Unlimited,
	}}
	r := launch(t, checkpoint.Memory, o, build)
	r.reach(gate)
	_, err := r.job.TakeCheckpoint(r.ctx)
	wantError(t, err, "timed out")
	<-disk.reached
	close(disk.release) // the late file is written, and acknowledged
	id := r.checkpoint()
	visible(t, out, len(keys))
	r.kill() // waits for the writers
	gate.Open()
	r = launch(t, checkpoint.Memory, o, build)
	if e := r.wait(embedded.Started); e.Checkpoint != id {
		t.Errorf("restored from %d, want %d", e.Checkpoint, id)
	}
	r.end()
	want(t, "counts", out.Values(), counted(1, 2, keys...)...)
	if left := blobs(t, disk, "test/chk-1/"); len(left) > 0 {
		t.Errorf("%v is left of an expired checkpoint", left)
	}
}

func blobs(t *testing.T, b storage.Blobs, prefix string) []string {
	t.Helper()
	var names []string
	dir, _ := path.Split(prefix)
	err := b.List(t.Context(), dir, func(name string, _ int64) error {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestR01NoSavepointDirectory(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	r := launch(t, dir, embedded.Options{}, countJob(out, script(records("a"), hold(gate), records("a"))))
	r.reach(gate)
	_, err := r.job.TakeSavepoint(r.ctx, "")
	wantError(t, err, "no savepoint directory", "execution.checkpointing.savepoint-dir")
	_, err = r.job.TakeLastSavepoint(r.ctx, "")
	wantError(t, err, "no savepoint directory")
	if s := r.job.Status().State; s != "running" {
		t.Errorf("the job is %s, want running", s)
	}
	path, err := r.job.TakeLastSavepoint(r.ctx, dir+"/savepoints")
	if err != nil {
		t.Fatalf("a second call with a path: %v", err)
	}
	r.end()
	gate.Open()
	launch(t, dir, embedded.Options{RestorePath: path}, countJob(out, script(records("a"), hold(gate), records("a")))).end()
	want(t, "counts", out.Values(), "a=1", "a=2")
}

func TestR05StopsAreHarmless(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	build := countJob(out, script(records("a"), hold(gate)))
	r := launch(t, dir, embedded.Options{}, build)
	r.reach(gate)
	r.job.Suspend()
	r.suspend() // twice
	r.job.Suspend()
	if _, err := r.job.TakeCheckpoint(t.Context()); err == nil {
		t.Error("a checkpoint after the end")
	}
	if s := r.job.Status().State; s != "suspended" {
		t.Errorf("the job is %s, want suspended", s)
	}

	// Cancelled while it waits to restart, it ends at once.
	r = launch(t, t.TempDir(), embedded.Options{Restart: checkpoint.FixedDelay{Attempts: 1, Delay: time.Hour}}, func(j *stream.Job) {
		stream.To(failOnce(jobtest.Script(j, "in", records("a")...), "a"), "out", out)
	})
	r.wait(embedded.Failed)
	r.kill()

	// Suspended while it waits, it takes its final snapshot once it runs.
	end := jobtest.NewGate()
	r = launch(t, t.TempDir(), embedded.Options{Restart: checkpoint.FixedDelay{Attempts: 1, Delay: ms}}, func(j *stream.Job) {
		stream.To(failOnce(jobtest.Script(j, "in", script(records("a"), hold(end))...), "a"), "out", out)
	})
	r.wait(embedded.Failed)
	r.suspend()
}
