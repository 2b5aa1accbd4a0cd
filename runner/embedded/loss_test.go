package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// losingCommits is a sink that can lose what it is to commit: the outside
// world has aborted it.
type losingCommits struct {
	*collect.Sink[string]
	mu   sync.Mutex
	all  bool            // what comes now is lost,
	lost map[string]bool // and stays lost
}

func (s *losingCommits) losing(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = all
}

func (s *losingCommits) loses(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[id] = s.lost[id] || s.all
	return s.lost[id]
}

func (s *losingCommits) NewCommitter(c connector.CommitterContext) (connector.Committer[collect.Committable], error) {
	inner, err := s.Sink.NewCommitter(c)
	return &losingCommitter{inner, s}, err
}

type losingCommitter struct {
	connector.Committer[collect.Committable]
	sink *losingCommits
}

func (c *losingCommitter) Commit(ctx context.Context, cs []collect.Committable) error {
	var errs []error
	for i, one := range cs {
		err := fmt.Errorf("%w: %s timed out", connector.ErrTransactionLost, one.ID)
		if !c.sink.loses(one.ID) {
			err = c.Committer.Commit(ctx, cs[i:i+1])
		}
		if err != nil {
			errs = append(errs, &connector.CommitError{Index: i, Err: err})
		}
	}
	return errors.Join(errs...)
}

// A snapshot names its exactly-once sinks though they have nothing to commit: who
// looks at an idle job learns what going back costs.
func TestSnapshotNamesExactlyOnceSinks(t *testing.T) {
	dir := t.TempDir()
	hold := jobtest.NewGate()
	r := launch(t, dir, embedded.Options{Parallelism: 1}, func(j *stream.Job) {
		in := jobtest.Script(j, "in", jobtest.Hold[string](hold))
		stream.To(in, "exact", collect.NewExactlyOnce[string]())
		stream.To(in, "other", collect.New[string]())
	})
	r.reach(hold)
	r.checkpoint()
	r.kill()
	look, err := coord.Look(t.Context(), coord.LookOptions{Job: "test", Blobs: file.New(dir)})
	if err != nil || !slices.Equal(look.ExactlyOnceSinks, []string{"exact"}) {
		t.Errorf("%v: exactly-once sinks %v", err, look.ExactlyOnceSinks)
	}
}

// A transaction of the newest checkpoint is lost. The job ends, a start says
// what is lost and what can be done, and both ways do what it says.
func TestLostTransactions(t *testing.T) {
	for name, way := range map[string]struct {
		flags func(dir string) embedded.Options
		want  []string
	}{
		"going back is exact": {func(dir string) embedded.Options {
			return embedded.Options{RestorePath: filepath.Join(dir, "test", "chk-1"), Rewind: true}
		}, []string{"a", "b", "c", "d"}},
		"going on loses it": {func(string) embedded.Options { return embedded.Options{AcceptLoss: 2} }, []string{"a", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			sink := &losingCommits{Sink: collect.NewExactlyOnce[string](), lost: map[string]bool{}}
			first, second, last := jobtest.NewGate(), jobtest.NewGate(), jobtest.NewGate()
			build := func(j *stream.Job) {
				j.Parallelism(1)
				in := jobtest.Script(j, "in", jobtest.R("a", 1), jobtest.Hold[string](first), jobtest.R("b", 2), jobtest.R("c", 3), jobtest.Hold[string](second), jobtest.R("d", 4), jobtest.Hold[string](last))
				stream.To(in, "out", sink)
			}
			r := launch(t, dir, embedded.Options{}, build)
			r.reach(first)
			r.checkpoint()
			visible(t, sink.Sink, 1)
			sink.losing(true)
			first.Open()
			r.reach(second)
			_, _ = r.job.TakeCheckpoint(r.ctx) // completes, and the commit then ends the job
			if err := r.result(); !errors.Is(err, connector.ErrTransactionLost) {
				t.Fatalf("the job ended with %v", err)
			}
			sink.losing(false)

			for range 2 { // a supervisor
				err := launch(t, dir, embedded.Options{}, build).result()
				wantError(t, err, "start refused", "chk-2", "1 lost", "subtask 0, checkpoint 2", "timed out", "source in, 0 from", "-s "+dir+"/test/chk-1 --rewind: exact", "--accept-loss 2")
				if !errors.Is(err, coord.ErrRefused) {
					t.Errorf("got %v", err)
				}
			}
			wrong := launch(t, dir, embedded.Options{AcceptLoss: 1}, build).result()
			wantError(t, wrong, "--accept-loss 1 was for another snapshot")

			second.Open()
			last.Open()
			launch(t, dir, way.flags(dir), build).end()
			want(t, "output", sink.Values(), way.want...)
		})
	}
}
