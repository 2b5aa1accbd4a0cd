package kafka

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// Failure 45, and the rest that the first protocol leaves: a sweep ends a
// zombie's transaction, and the zombie, which keeps its client, begins none
// anew by writing to another partition.
func TestFailure45SweptZombieBeginsNoTransaction(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		j.topic = c.topic(2)
		j.encoder = func(v string, r *Record) error { // the partition behind the @
			value, part, _ := strings.Cut(v, "@")
			n, err := strconv.Atoi(part)
			r.Value, r.Partition = []byte(value), int32(n)
			return err
		}
		j.start(1, nil)
		zombie := j.writers[0]
		if err := zombie.Write([]string{"0:0@0"}, []int64{now()}); err != nil {
			t.Fatal(err)
		}
		j.flush()
		parts, committer := j.parts, j.committer
		j.parts, j.writers, j.committer = nil, nil, nil // it sleeps

		j.start(1, nil)
		err := zombie.Write([]string{"0:1@1"}, []int64{now()})
		if err == nil {
			err = zombie.Flush(j.deadline())
		}
		if err == nil {
			t.Error("the zombie went on writing")
		}
		j.settle() // the zombie holds up no reader
		if err := j.writers[0].Write([]string{"0:0@0", "0:1@1"}, []int64{now(), now()}); err != nil {
			t.Fatal(err)
		}
		j.full()
		j.settle()
		if got := len(j.committed(j.topic)); got != 2 {
			t.Errorf("%d records are visible, want 2", got)
		}
		(&job{parts: parts, committer: committer}).crash()
	})
}

func now() int64 { return time.Now().UnixMilli() }
