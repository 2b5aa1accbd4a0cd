// Package jobtest runs whole jobs in tests: scripted sources whose records and
// watermarks come in an exact order, and runs on the embedded host.
package jobtest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// Item is a step of a script: a record, a watermark, or a gate.
type Item[T any] struct {
	V T
	// At is the event time of the record, or the watermark.
	At   int64
	wm   bool
	gate *Gate
}

// R is the record v with event time at.
func R[T any](v T, at int64) Item[T] { return Item[T]{V: v, At: at} }

// WM is the watermark at.
func WM[T any](at int64) Item[T] { return Item[T]{At: at, wm: true} }

// Script is a source that emits the items in order, the watermarks among them
// before the next record. It is read by one subtask, whatever the
// parallelism.
func Script[T any](j *stream.Job, id string, items ...Item[T]) stream.Stream[T] {
	return read(j, id, 0, [][]Item[T]{items}, stream.Parallelism(1))
}

// backendVariable, if it is lsm, has the jobs that do not name a backend keep
// next to no state in memory and the rest on disk.
const backendVariable = "WEIR_TEST_STATE_BACKEND"

// Job builds a job and makes it runnable; options of the job set in code are
// taken over.
func Job(t testing.TB, o embedded.Options, build func(*stream.Job)) *embedded.Job {
	t.Helper()
	j := stream.NewJob("test")
	build(j)
	g, err := j.Build()
	if err != nil {
		t.Fatal(err)
	}
	code := j.Options()
	if o.Parallelism == 0 {
		o.Parallelism = code.Parallelism
	}
	if o.Checkpoint == (checkpoint.Options{}) {
		o.Checkpoint = code.Checkpoint
	}
	if o.Restart == nil {
		o.Restart = code.Restart
	}
	if o.MaxParallelism == 0 {
		o.MaxParallelism = code.MaxParallelism
	}
	if o.RuntimeMode == "" {
		o.RuntimeMode = code.RuntimeMode
	}
	if o.StateBackend == "" && os.Getenv(backendVariable) == string(embedded.LSM) {
		o.StateBackend, o.LSMMemory, o.LSMDir = embedded.LSM, 1000, t.TempDir()
	}
	job, err := embedded.New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// Run runs a job to its end, without restarts unless o says so.
func Run(t testing.TB, o embedded.Options, build func(*stream.Job)) *embedded.Job {
	t.Helper()
	if o.Restart == nil {
		o.Restart = checkpoint.None{}
	}
	job := Job(t, o, build)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := job.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return job
}
