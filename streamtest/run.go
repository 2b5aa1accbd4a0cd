package streamtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// Run runs a whole job to its end, on the engine that runs it in earnest, and
// returns the records of the stream that build returns, as an exactly-once sink
// publishes them: in no fixed order between keys. With crashes among the options the job
// crashes and starts again, each time from the last checkpoint, which is in
// memory. build runs for every start. It makes the job's sources, which must be
// bounded and able to go back, as stream.FromSlice is; what it sets about
// checkpoints and restarts does not count. An error of the job fails the test.
func Run[T any](t testing.TB, build func(*stream.Job) stream.Stream[T], opts ...RunOption) []T {
	t.Helper()
	s, err := scriptOf(opts)
	if err != nil {
		t.Fatal(err)
	}
	got, records := straight(t, build, s)
	if len(s.crashes) > 0 {
		got = crashing(t, build, s, records)
	}
	return got
}

// Survives runs a job straight and once more with the crashes among the
// options, at least one, and fails the test unless both emit the same records, in
// whatever order, compared as by Output.Expect. It returns those of the straight run.
func Survives[T any](t testing.TB, build func(*stream.Job) stream.Stream[T], opts ...RunOption) []T {
	t.Helper()
	s, err := scriptOf(opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.crashes) == 0 {
		t.Fatal("Survives needs a crash: AtRecord, AfterCheckpoint or AtRandom")
	}
	want, records := straight(t, build, s)
	got := crashing(t, build, s, records)
	if lost, extra := compare(want, got); len(lost)+len(extra) > 0 {
		form := verb(head(lost), head(extra))
		t.Errorf("with crashes the job emits other records than without: %s lost, %s too many\nlost %s\ntoo many %s",
			count(lost), count(extra), list(form, head(lost)), list(form, head(extra)))
	}
	return want
}

// straight runs a job once and returns what it emits, and how many records its
// sources do.
func straight[T any](t testing.TB, build func(*stream.Job) stream.Stream[T], s script) ([]T, int64) {
	t.Helper()
	out := collect.NewExactlyOnce[T]()
	job := makeJob(t, build, out, s.parallelism, mem.New(), nil)
	if err := job.Run(t.Context()); err != nil {
		t.Fatalf("the job failed: %v", err)
	}
	return out.Values(), job.Status().RecordsIn
}

// crashing runs a job by a script; its sources emit so many records.
func crashing[T any](t testing.TB, build func(*stream.Job) stream.Stream[T], s script, records int64) []T {
	t.Helper()
	out, blobs := collect.NewExactlyOnce[T](), mem.New()
	if s.every == 0 {
		s.every = max(records/8, 1)
	}
	for i, left := 0, records; ; i++ {
		var crash Crash
		if i < len(s.crashes) {
			crash = s.crashes[i].draw(left, s.every)
		}
		p := newPace(crash.record)
		job := makeJob(t, build, out, s.parallelism, blobs, p)
		covered, crashed, err := drive(t.Context(), job, p, s.every, crash)
		if err != nil {
			t.Fatalf("start %d: the job failed: %v", i+1, err)
		}
		if !crashed {
			unreached(t, s.crashes[min(i, len(s.crashes)):], i+1, p.emitted)
			return out.Values()
		}
		left -= covered
		if crash.then > 0 {
			s.parallelism = crash.then
		}
		t.Logf("start %d: %v has come; the next one begins behind record %d of %d%s", i+1, crash, records-left, records, with(s.parallelism))
	}
}

func with(parallelism int) string {
	if parallelism == 0 {
		return ""
	}
	return fmt.Sprintf(", with parallelism %d", parallelism)
}

// unreached fails the test for crashes that have not come in the last start,
// unless they are drawn.
func unreached(t testing.TB, crashes []Crash, start int, emitted int64) {
	t.Helper()
	for _, c := range crashes {
		text := fmt.Sprintf("%v of start %d was not reached: its sources emitted %d records to their end", c, start, emitted)
		if !c.random {
			t.Fatal(text)
		}
		t.Log(text)
	}
}

// makeJob builds a job that writes to out; p, unless nil, paces its sources.
func makeJob[T any](t testing.TB, build func(*stream.Job) stream.Stream[T], out *collect.Sink[T], parallelism int, blobs storage.Blobs, p *pace) *embedded.Job {
	t.Helper()
	if build == nil {
		t.Fatal("the build function is nil")
	}
	j := stream.NewJob("test")
	s := build(j)
	if reflect.ValueOf(s).IsZero() {
		t.Fatal("the build function returns a zero Stream; it is to return the stream that is looked at")
	}
	stream.To(s, "test-output", out)
	g, err := j.Build()
	if err != nil {
		t.Fatalf("the job cannot be built: %v", err)
	}
	for _, n := range g.Nodes {
		if err := prepare(n, p); err != nil {
			t.Fatal(err)
		}
	}
	code := j.Options()
	if parallelism == 0 {
		parallelism = code.Parallelism
	}
	const never = 24 * time.Hour // checkpoints are asked for
	job, err := embedded.New(g, embedded.Options{
		Parallelism: parallelism, MaxParallelism: code.MaxParallelism, Storage: blobs,
		Checkpoint: checkpoint.Options{Interval: never}, Restart: checkpoint.None{},
		BufferTimeout: code.BufferTimeout, WatermarkInterval: code.WatermarkInterval, RuntimeMode: code.RuntimeMode,
		Logger: logger(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// prepare makes a source follow the pace.
func prepare(n *graph.Node, p *pace) error {
	source, ok := n.Body.(stage.SourceBody)
	if !ok {
		return nil
	}
	if !source.Bounded() {
		return fmt.Errorf("source %q never ends; a run takes sources that do, as stream.FromSlice", n.ID)
	}
	if p != nil {
		n.Body = pacedBody{source, p}
	}
	return nil
}

// drive runs a start of a job, taking checkpoints, until it has crashed or
// finished. The last checkpoint covers so many records of this start.
func drive(ctx context.Context, job *embedded.Job, p *pace, every int64, crash Crash) (covered int64, crashed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- job.Run(ctx) }()
	for taken := 1; ; taken++ {
		p.release(every)
		select {
		case err = <-done:
			crashed, err = verdict(err)
			return covered, crashed, err
		case <-p.reached:
		}
		if _, err := job.Checkpoint(ctx); err != nil {
			cancel()
			return covered, false, errors.Join(err, <-done)
		}
		covered = p.sofar()
		if taken == crash.checkpoint {
			p.crash()
			crashed, err = verdict(<-done)
			return covered, crashed, err
		}
	}
}

// head is what is shown of many records.
func head[T any](vals []T) []T { return vals[:min(len(vals), 10)] }

func count[T any](vals []T) string {
	if len(vals) == 1 {
		return "1 record"
	}
	return fmt.Sprintf("%d records", len(vals))
}
