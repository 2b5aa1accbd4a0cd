package kafka

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// TestRule10FailedRecordIsNoTolerableFailure: a job that tolerates every failed
// checkpoint ends all the same when a record does not arrive, and the next start
// writes it.
func TestRule10FailedRecordIsNoTolerableFailure(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		in, out, blobs := c.topic(1), c.topic(1), mem.New()
		c.put(in, 0, "a", "b", "c")
		run := func(tooLarge string) error {
			o := embedded.Options{Storage: blobs, Restart: checkpoint.None{}, Checkpoint: checkpoint.Options{
				Dir: checkpoint.Memory, Interval: 20 * time.Millisecond, TolerableFailures: checkpoint.Unlimited,
			}}
			job := jobtest.Job(t, o, func(j *stream.Job) {
				s := stream.From(j, "in", Source(in, text{}, StartAt(Earliest()), Until(Latest()), c.brokers()))
				stream.To(s, "out", SinkFunc(out, func(v string, r *Record) error {
					if r.Value = []byte(v); v == tooLarge {
						r.Value = make([]byte, 2<<20)
					}
					return nil
				}, ExactlyOnce("p"), c.brokers(), quick))
			})
			return job.Run(c.deadline())
		}
		if err := run("b"); !errors.Is(err, kerr.MessageTooLarge) {
			t.Fatalf("the job ended with %v, want the record that is too large", err)
		}
		if err := run(""); err != nil {
			t.Fatal(err)
		}
		for ctx := c.deadline(); c.blocked(out) && pause(ctx, minPause); {
		}
		wantValues(t, c.committed(out), "a", "b", "c")
	})
}

// Failure 45: a transaction that a zombie opened after the sweep of the start is
// aborted by a later one.
func TestFailure45LateOrphanIsSweptLater(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		j.start(1, nil)
		zombie, parts, committer := j.writers[0], j.parts, j.committer
		j.writers, j.parts, j.committer = nil, nil, nil
		j.start(1, nil)
		j.write(1)
		j.full()
		j.settle()
		if err := errors.Join(zombie.Write([]string{"0:99"}, []int64{now()}), zombie.Flush(j.deadline())); err != nil {
			t.Fatal(err)
		}
		if !c.blocked(j.topic) {
			t.Fatal("the zombie has opened nothing")
		}
		j.write(2) // in the own transaction, which stays
		if err := j.committer.Sweep(j.deadline(), func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		j.full()
		j.wantExact([]int{3})
		(&job{parts: parts, committer: committer}).crash()
	})
}
