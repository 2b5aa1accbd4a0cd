package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// aborted is a sink that knows, before it is asked to commit anything, that it
// is lost.
type aborted struct{ *collect.Sink[string] }

func (s aborted) NewCommitter(c connector.CommitterContext) (connector.Committer[collect.Committable], error) {
	inner, err := s.Sink.NewCommitter(c)
	return abortedCommitter{inner}, err
}

type abortedCommitter struct {
	connector.Committer[collect.Committable]
}

func (abortedCommitter) Inspect(_ context.Context, cs []collect.Committable) error {
	var errs []error
	for i, c := range cs {
		errs = append(errs, &connector.CommitError{Index: i, Err: fmt.Errorf("%w: %s was aborted", connector.ErrTransactionLost, c.ID)})
	}
	return errors.Join(errs...)
}

// otherCounter keeps the count in another form.
type otherCounter struct{ n state.Value[string] }

func newOtherCounter(r *state.Registry) *otherCounter {
	return &otherCounter{n: state.ValueIn[string](r, "n")}
}

func (f *otherCounter) Process(c *stream.Ctx[string, string], v string) error {
	c.Emit(v)
	return nil
}

// broken cannot be opened.
type broken struct{ *counter }

func newBroken(r *state.Registry) broken { return broken{newCounter(r)} }
func (broken) Open(*stream.Runtime) error {
	return errors.New("no access")
}

// twoCheckpoints is a job that was killed after its second checkpoint, before
// the end of its input. The build returned is the same job.
func twoCheckpoints(t *testing.T, dir string, sink *collect.Sink[string]) (last *jobtest.Gate, build func(*stream.Job)) {
	t.Helper()
	first, second, last := jobtest.NewGate(), jobtest.NewGate(), jobtest.NewGate()
	build = func(j *stream.Job) {
		in := scripted(j, "in", first, second, last)
		stream.To(stream.Process(stream.KeyBy(in, itself), "count", newCounter), "out", sink)
	}
	r := launch(t, dir, embedded.Options{Parallelism: 1}, build)
	r.reach(first)
	r.checkpoint()
	visible(t, sink, 1)
	first.Open()
	r.reach(second)
	r.checkpoint()
	visible(t, sink, 2)
	r.kill()
	second.Open()
	return last, build
}

func scripted(j *stream.Job, id string, first, second, last *jobtest.Gate) stream.Stream[string] {
	return jobtest.Script(j, id, jobtest.R("a", 1), jobtest.Hold[string](first), jobtest.R("a", 2), jobtest.Hold[string](second), jobtest.R("a", 3), jobtest.Hold[string](last))
}

// A start that goes back, with a job that does not fit the snapshot, has not
// moved the job: the ordinary command goes on from the newest.
func TestGoingBackThatDoesNotFitChangesNothing(t *testing.T) {
	opened := func() *jobtest.Gate {
		g := jobtest.NewGate()
		g.Open()
		return g
	}
	sink := collect.NewExactlyOnce[string]()
	for name, c := range map[string]struct {
		build func(*stream.Job)
		says  string
	}{
		"a source of another id": {func(j *stream.Job) {
			stream.To(stream.Process(stream.KeyBy(scripted(j, "other", opened(), opened(), opened()), itself), "count", newCounter), "out", sink)
		}, `holds state of operator "in"`},
		"state of another form": {func(j *stream.Job) {
			stream.To(stream.Process(stream.KeyBy(scripted(j, "in", opened(), opened(), opened()), itself), "count", newOtherCounter), "out", sink)
		}, `state "n" is stored as`},
		"keys of another type": {func(j *stream.Job) {
			in := stream.KeyBy(scripted(j, "in", opened(), opened(), opened()), func(s string) int64 { return int64(len(s)) })
			stream.To(stream.Process(in, "count", newNumbered), "out", sink)
		}, "a key type cannot change"},
		"a sink that is gone": {func(j *stream.Job) {
			stream.To(stream.Process(stream.KeyBy(scripted(j, "in", opened(), opened(), opened()), itself), "count", newCounter), "renamed", sink)
		}, "the job has no such sink that commits any more"},
		"a sink that has lost it": {func(j *stream.Job) {
			stream.To(stream.Process(stream.KeyBy(scripted(j, "in", opened(), opened(), opened()), itself), "count", newCounter), "out", aborted{sink})
		}, "1 lost, 0 of unknown outcome"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			sink := collect.NewExactlyOnce[string]()
			last, build := twoCheckpoints(t, dir, sink)
			back := embedded.Options{RestorePath: filepath.Join(dir, "test", "chk-1"), Rewind: true}
			if name == "a sink that is gone" || name == "a sink that has lost it" {
				// Of the newest one nothing proves that it is committed.
				back = embedded.Options{RestorePath: filepath.Join(dir, "test", "chk-2")}
			}
			wantError(t, launch(t, dir, back, c.build).result(), c.says)

			r := launch(t, dir, embedded.Options{}, build)
			if e := r.wait(embedded.Started); e.Checkpoint != 2 {
				t.Errorf("the ordinary command began from %d", e.Checkpoint)
			}
			last.Open()
			r.end()
			want(t, "output", sink.Values(), "a=1", "a=2", "a=3")
		})
	}
}

// newNumbered is a counter of keys that are numbers.
func newNumbered(r *state.Registry) *numberedCounter {
	return &numberedCounter{state.ValueIn[int64](r, "n")}
}

type numberedCounter struct{ n state.Value[int64] }

func (f *numberedCounter) Process(c *stream.Ctx[int64, string], v string) error {
	c.Emit(v)
	return nil
}

// What fails once the start is on record says where the job stands since.
func TestGoingBackThatFailsLaterSaysWhereTheJobStands(t *testing.T) {
	dir := t.TempDir()
	sink := collect.NewExactlyOnce[string]()
	last, build := twoCheckpoints(t, dir, sink)
	last.Open()
	err := launch(t, dir, embedded.Options{RestorePath: filepath.Join(dir, "test", "chk-1"), Rewind: true}, func(j *stream.Job) {
		in := scripted(j, "in", last, last, last)
		stream.To(stream.Process(stream.KeyBy(in, itself), "count", newBroken), "out", sink)
	}).result()
	wantError(t, err, "no access", "the job stands at test/chk-1 (id 1, attempt 1) since this start", "no longer from test/chk-2", "There is no way back to that: test/chk-2 (id 2, attempt 1) is void: attempt 2 began from test/chk-1")
	r := launch(t, dir, embedded.Options{}, build)
	if e := r.wait(embedded.Started); e.Checkpoint != 1 {
		t.Errorf("the ordinary command began from %d", e.Checkpoint)
	}
	r.end()
}

// The last of several attempts says it as well, also in another process; but no
// longer once there is a checkpoint.
func TestWhereTheJobStandsIsSaidAfterRestarts(t *testing.T) {
	dir := t.TempDir()
	sink := collect.NewExactlyOnce[string]()
	last, build := twoCheckpoints(t, dir, sink)
	fails := func(j *stream.Job) {
		in := scripted(j, "in", last, last, last)
		stream.To(stream.Process(stream.KeyBy(in, itself), "count", newBroken), "out", sink)
	}
	o := embedded.Options{RestorePath: filepath.Join(dir, "test", "chk-1"), Rewind: true, Restart: checkpoint.FixedDelay{Attempts: 2, Delay: time.Millisecond}}
	says := []string{"no access", "the job stands at test/chk-1 (id 1, attempt 1) since attempt 2", "no longer from test/chk-2", "There is no way back to that: test/chk-2 (id 2, attempt 1) is void: attempt 4 began from test/chk-1"}
	wantError(t, launch(t, dir, o, fails).result(), says...)
	says[3] = "attempt 5 began from test/chk-1"
	wantError(t, launch(t, dir, embedded.Options{}, fails).result(), says...)

	r := launch(t, dir, embedded.Options{}, build)
	r.wait(embedded.Started)
	r.checkpoint()
	r.kill()
	err := launch(t, dir, embedded.Options{}, fails).result()
	wantError(t, err, "no access")
	if strings.Contains(err.Error(), "the job stands") {
		t.Errorf("said of a job that has got further: %v", err)
	}
}
