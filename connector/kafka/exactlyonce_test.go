package kafka

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Cases 1 to 6: a crash at each point of the protocol, and the restart.
func TestCrashPoints(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		for _, point := range []string{
			"writing", "flushed", "acknowledged", "complete", "between two commits", "committed", "next interval",
		} {
			t.Run(point, func(t *testing.T) {
				j := newJob(connect(t, &cluster{T: t, fake: c.fake, servers: c.servers}))
				j.start(2, nil)
				j.write(3)
				restore := j.full()
				j.write(4)
				crashAt(j, point, &restore)
				j.crash()
				j.start(2, restore)
				j.write(5)
				j.full()
				j.wantExact(j.counts)
			})
		}
	})
}

func crashAt(j *job, point string, restore **snapshot) {
	if point == "writing" {
		return
	}
	j.flush()
	if point == "flushed" {
		return
	}
	s := j.checkpoint()
	if point == "acknowledged" {
		return
	}
	j.complete(s)
	*restore = s
	switch point {
	case "between two commits":
		if err := j.committer.Commit(j.deadline(), j.pending[:1]); err != nil {
			j.Fatal(err)
		}
	case "committed":
		j.commit(s.id)
	case "next interval":
		j.commit(s.id)
		j.write(2)
		j.flush()
	}
}

// Case 34.
func TestK11SameCheckpointRestoredTwice(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		j.start(1, nil)
		j.write(10)
		s := j.full()
		j.write(3)
		j.flush()
		j.crash()
		for range 2 {
			j.start(1, s)
			j.write(4)
			j.flush()
			j.crash()
		}
		j.start(1, s)
		j.write(6)
		j.full()
		j.wantExact([]int{16})
	})
}

// Cases 15 and 16: a notice that is lost, late or repeated.
func TestLostLateAndRepeatedNotices(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		j.start(2, nil)
		j.write(2)
		first := j.checkpoint()
		j.complete(first) // its notice is lost
		held := j.decode(first)
		j.write(3)
		second := j.checkpoint()
		j.complete(second)
		j.commit(second.id)
		j.wantExact([]int{5, 5})
		for range 2 { // and comes after all, twice
			if err := j.committer.Commit(j.deadline(), held); err != nil {
				t.Fatal(err)
			}
		}
		j.write(1)
		j.full()
		j.wantExact([]int{6, 6})
	})
}

// Cases 17 and 18: a declined checkpoint keeps its transactions.
func TestDeclinedCheckpoint(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		j.start(1, nil)
		j.write(1)
		j.full()
		j.write(2)
		j.checkpoint() // declined
		j.write(3)
		j.full() // lists and commits the transactions of both
		j.wantExact([]int{6})

		j.write(1)
		j.checkpoint() // declined
		j.write(1)
		j.crash()
		// The newest complete checkpoint is the third: with nothing pending.
		j.start(1, &snapshot{id: 3, counts: []int{6}})
		j.write(4)
		j.full()
		j.wantExact([]int{10})
	})
}

// Case 19.
func TestThreeCheckpointsInFlight(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		w := watch(c)
		j.start(1, nil)
		var snaps []*snapshot
		for range 3 {
			j.write(2)
			snaps = append(snaps, j.checkpoint())
		}
		for _, s := range snaps {
			j.complete(s)
			j.commit(s.id)
		}
		j.wantExact([]int{6})
		if ids := w.initialised(); c.fake != nil && len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 3 {
			t.Errorf("transactional ids %v, want three", ids)
		}
	})
}

// Case 20.
func TestEmptyInterval(t *testing.T) {
	c := newCluster(t)
	j := newJob(c)
	w := watch(c)
	j.encoder = func(v string, r *Record) error { return ErrSkip }
	j.start(1, nil)
	s := j.checkpoint()
	j.write(1) // begins a transaction in vain
	s2 := j.checkpoint()
	if len(s.held) != 0 || len(s2.held) != 0 {
		t.Errorf("committables %v and %v of empty intervals", s.held, s2.held)
	}
	j.commit(s2.id)
	if n := len(w.ended()); n != 0 {
		t.Errorf("%d EndTxn for empty intervals", n)
	}
	if n := len(w.initialised()); n != 0 {
		t.Errorf("%d ids initialised for empty intervals", n)
	}
}

// Case 9, and rule 3: nothing initialises an id whose transaction is pending.
func TestNoInitOfAPendingTransaction(t *testing.T) {
	for range 3 {
		c := newCluster(t)
		j := newJob(c)
		w := watch(c)
		random := rand.New(rand.NewPCG(7, uint64(len(w.inits))))
		j.start(2, nil)
		pending := map[string]bool{}
		seen := 0
		check := func() {
			for _, id := range w.initialised()[seen:] {
				if pending[id] {
					t.Errorf("id %s was initialised while its transaction was pending", id)
				}
			}
			seen = len(w.initialised())
		}
		for range 20 {
			j.write(1 + random.IntN(3))
			j.flush()
			check()
			s := j.checkpoint()
			clear(pending)
			for _, x := range j.pending {
				pending[x.Txn.ID] = true
			}
			if random.IntN(3) > 0 {
				j.complete(s)
			}
			if random.IntN(2) == 0 {
				j.commit(s.id)
				// Still not to be reused: the checkpoint lists it.
			}
		}
		check()
		for _, id := range w.initialised() {
			if !strings.HasPrefix(id, "weir%2Etest.") || strings.Count(id, ".") != 5 {
				t.Errorf("id %q is not <prefix>.<lineage>.<attempt>.<operator>.<subtask>.<slot>", id)
			}
		}
	}
}

// Cases 36 and 37.
func TestRescaleWithOpenTransactions(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		j.start(4, nil)
		j.write(2)
		s := j.checkpoint()
		j.complete(s)
		j.write(3) // in the next transactions
		j.flush()
		j.crash()

		j.start(2, s) // two subtasks fewer
		j.wantExact([]int{2, 2, 2, 2})
		j.write(1)
		j.flush()
		j.crash() // before the first checkpoint

		j.start(5, &snapshot{id: s.id, counts: []int{2, 2, 2, 2, 0}, held: s.held})
		j.write(1)
		j.flush()
		j.crash()

		j.start(2, &snapshot{id: s.id, counts: []int{2, 2}, held: s.held})
		j.write(1)
		j.full()
		j.wantExact([]int{3, 3, 2, 2})
	})
}

// Case 38.
func TestPrefixChanged(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		j.start(1, nil)
		j.write(2)
		s := j.checkpoint()
		j.complete(s)
		j.write(3)
		j.flush()
		j.crash()
		j.opts = append(j.opts, ExactlyOnce("another"))
		j.start(1, s)
		j.write(4)
		j.full()
		j.wantExact([]int{6})
	})
}

// Cases 39 and 40.
func TestJobsWithOnePrefixLeaveEachOtherAlone(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		one, two := newJob(c), newJob(c)
		two.lineage = one.lineage + "-b"
		two.opts = append(two.opts, ExactlyOnce("weir.test-b"))
		one.start(1, nil)
		one.write(2)
		one.flush()
		two.attempt = 5 // newer than any attempt of the other
		two.start(1, nil)
		two.write(3)
		two.flush()
		one.full()
		one.wantExact([]int{2})
		two.full()
		two.wantExact([]int{3})
	})
}

// Cases 41 and 43: a writer and a committer of an attempt that was replaced.
func TestZombies(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		j.start(1, nil)
		j.write(2)
		s := j.checkpoint()
		j.complete(s)
		j.write(3)
		j.flush()
		writers, parts, committer, held := j.writers, j.parts, j.committer, j.decode(s)
		j.writers, j.parts, j.committer = nil, nil, nil // it sleeps

		j.start(1, s)
		j.write(4)
		if err := committer.Commit(j.deadline(), held); err != nil {
			t.Errorf("a late commit of what a complete checkpoint holds: %v", err)
		}
		err := writers[0].Write([]string{"0:99"}, []int64{0})
		if err == nil {
			err = writers[0].Flush(j.deadline())
		}
		if err == nil {
			t.Error("a writer whose transaction was aborted went on")
		}
		j.full()
		j.wantExact([]int{6})
		(&job{parts: parts, committer: committer}).crash()
	})
}

// Case 31: an old committable never commits what its id does later.
func TestOldCommittableDoesNotCommitLaterTransactions(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		j.start(1, nil)
		j.write(1)
		s := j.full()
		old := j.decode(s)
		for range 2 {
			j.write(1)
			j.full()
		}
		j.complete(&snapshot{id: j.last})
		j.write(1)
		j.flush() // in the slot of the first transaction
		if id := transactionalID("weir.test", twophaseName(j, 0)); id != old[0].Txn.ID {
			t.Fatalf("ids %s and %s", id, old[0].Txn.ID)
		}
		_ = j.committer.Commit(j.deadline(), old) // whatever it says
		if got := len(j.committed(j.topic)); got != 3 {
			t.Errorf("%d records are visible, want 3", got)
		}
		j.full()
		j.wantExact([]int{4})
	})
}

// Cases 29 and 32: the version in the committable is that on the wire, always.
func TestEndTxnVersionIsTheStoredOne(t *testing.T) {
	c := newCluster(t)
	j := newJob(c)
	w := watch(c)
	j.start(1, nil)
	j.write(2)
	j.checkpoint()
	if v := j.pending[0].Txn.EndTxn; v != 5 {
		t.Fatalf("version %d on a cluster with transaction.version 2, want 5", v)
	}
	j.pending[0].Txn.EndTxn = 4 // as of before an upgrade of the cluster
	held := slices.Clone(j.pending)
	j.commit(j.last)
	for range 2 {
		if err := j.committer.Commit(j.deadline(), held); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range w.ended() {
		if r.Version != 4 {
			t.Errorf("EndTxn v%d for a committable of version 4", r.Version)
		}
	}
	j.wantExact([]int{2})

	old := newJob(newV1(t))
	old.start(1, nil)
	old.write(1)
	old.checkpoint()
	if v := old.pending[0].Txn.EndTxn; v != 4 {
		t.Errorf("version %d on an old cluster, want 4", v)
	}
}

// Cases 11 and 12: the coordinator moves.
func TestCoordinatorMoves(t *testing.T) {
	for _, opts := range [][]kfake.Opt{{}, {v1()}} {
		c := newCluster(t, append(opts, kfake.NumBrokers(3))...)
		j := newJob(c)
		j.start(2, nil)
		for range 4 {
			j.write(2)
			s := j.checkpoint()
			j.complete(s)
			c.fake.RehashCoordinators()
			j.commit(s.id)
			c.fake.ShufflePartitionLeaders()
		}
		j.wantExact([]int{8, 8})
	}
}

// Case 75: crashes anywhere, at changing parallelism.
func TestRandomCrashes(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				randomCrashes(newJob(connect(t, &cluster{T: t, fake: c.fake, servers: c.servers})), rand.New(rand.NewPCG(1, seed)))
			})
		}
	})
}

func randomCrashes(j *job, r *rand.Rand) {
	const subtasks, crashes = 3, 12
	restore := &snapshot{counts: make([]int, subtasks)}
	j.start(subtasks, restore)
	for n := 0; n < crashes; {
		steps := []func(){
			func() { j.write(1 + r.IntN(4)) },
			func() { j.flush() },
			func() { j.checkpoint() }, // declined
			func() { restore = j.checkpoint(); j.complete(restore) },
			func() { restore = j.full() },
			func() { j.commit(restore.id) },
			func() {
				if len(j.pending) > 0 && j.pending[0].Checkpoint <= restore.id {
					if err := j.committer.Commit(j.deadline(), j.pending[:1]); err != nil {
						j.Fatal(err)
					}
				}
			},
			func() { n++; j.crash(); j.start(subtasks, restore) },
		}
		steps[r.IntN(len(steps))]()
	}
	j.write(1)
	j.full()
	j.wantExact(j.counts)
}
