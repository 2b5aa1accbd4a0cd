package kafka

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/weirstream/weir/connector"
)

// Failure 11: the coordinator moves while the commit is under way.
func TestFailure11CoordinatorMovesDuringTheCommit(t *testing.T) {
	for name, opts := range map[string][]kfake.Opt{"V2": nil, "V1": {v1()}} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, append(opts, kfake.NumBrokers(3))...)
			j := newJob(c)
			j.start(2, nil)
			j.write(2)
			s := j.checkpoint()
			j.complete(s)
			// The first request is lost on its way, and the coordinator is
			// elsewhere when the second one is sent.
			moved := make(chan struct{})
			fault(c.fake, kmsg.EndTxn, 1, func(kmsg.Request) kmsg.Response {
				go func() {
					c.fake.RehashCoordinators()
					close(moved)
				}()
				return nil
			})
			j.commit(s.id)
			<-moved
			j.write(1)
			j.full()
			j.wantExact([]int{3, 3})
		})
	}
}

// Failure 12: the brokers restart while a transaction is prepared.
func TestFailure12BrokersRestart(t *testing.T) {
	for name, opts := range map[string][]kfake.Opt{"V2": nil, "V1": {v1()}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			begin := func(ports ...int) *kfake.Cluster {
				fake, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.DataDir(dir), kfake.Ports(ports...))...)
				if err != nil {
					t.Fatal(err)
				}
				return fake
			}
			c := &cluster{T: t, fake: begin(0)}
			c.servers = c.fake.ListenAddrs()
			connect(t, c)
			j := newJob(c)
			j.start(1, nil)
			j.write(3)
			s := j.checkpoint()
			j.complete(s)
			j.write(2)
			j.flush()
			j.crash()

			_, text, err := net.SplitHostPort(c.servers[0])
			if err != nil {
				t.Fatal(err)
			}
			port, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			c.fake.Close()
			c.fake = begin(port)
			t.Cleanup(c.fake.Close)
			j.start(1, s)
			j.write(1)
			j.full()
			j.wantExact([]int{4})
		})
	}
}

// initProducerID answers InitProducerID with an error.
func initProducerID(err *kerr.Error) func(kmsg.Request) kmsg.Response {
	return func(req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = err.Code
		return resp
	}
}

// Failure 14: InitProducerID is answered CONCURRENT_TRANSACTIONS, when a writer
// begins and when the sweep fences.
func TestFailure14InitProducerIDIsRepeated(t *testing.T) {
	c := newV1(t)
	j := newJob(c)
	j.start(1, nil)
	begins := fault(c.fake, kmsg.InitProducerID, 3, initProducerID(kerr.ConcurrentTransactions))
	j.write(1)
	j.flush()
	j.crash()
	fences := fault(c.fake, kmsg.InitProducerID, 3, initProducerID(kerr.ConcurrentTransactions))
	w := watch(c)
	j.start(1, nil)
	if begins.Load() != 3 || fences.Load() != 3 || len(w.initialised()) < 1 {
		t.Errorf("%d and %d requests failed, then %d were answered", begins.Load(), fences.Load(), len(w.initialised()))
	}
	j.write(2)
	j.full()
	j.wantExact([]int{2})
}

// Failure 14: a start does not wait for ever for a fence, which it can do
// without.
func TestFailure14FencingIsBounded(t *testing.T) {
	c := newV1(t)
	j := newJob(c, StartTimeout(300*time.Millisecond))
	j.start(1, nil)
	j.write(1)
	j.flush()
	j.crash()
	fault(c.fake, kmsg.InitProducerID, -1, initProducerID(kerr.ConcurrentTransactions))
	j.attempt++
	var log bytes.Buffer
	ctx := j.context(0, 1)
	ctx.Log = slog.New(slog.NewTextHandler(&log, nil))
	com, err := Sink(j.topic, text{}, j.opts...).NewCommitter(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer com.Close()
	if err := com.Sweep(j.deadline(), func() error { return nil }); err != nil {
		t.Errorf("sweep: %v", err)
	}
	if text := log.String(); !strings.Contains(text, "could not be fenced") || !strings.Contains(text, "out.0.0") {
		t.Errorf("log: %s", text)
	}
	if c.blocked(j.topic) {
		t.Error("the orphan is still open")
	}
}

// Failure 23: the brokers are away when a flush is due.
func TestFailure23FlushDeadlineThenRestart(t *testing.T) {
	for _, c := range []*cluster{newCluster(t), newV1(t)} {
		j := newJob(c)
		j.start(1, nil)
		j.write(1)
		restore := j.full()
		var down atomic.Bool
		down.Store(true)
		c.fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.fake.KeepControl()
			return nil, errors.New("down"), down.Load()
		})
		j.write(2)
		if err := j.writers[0].Flush(within(t, 200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flush without a broker: %v", err)
		}
		j.crash()
		down.Store(false)
		j.start(1, restore)
		j.write(3)
		j.full()
		j.wantExact([]int{4})
	}
}

// Failure 28: the timeout is shorter than what lies between pre-commit and
// commit.
func TestFailure28TimeoutShorterThanCheckpoints(t *testing.T) {
	c := newCluster(t)
	for timeout, warned := range map[time.Duration]bool{1500 * time.Millisecond: true, 2 * time.Second: false} {
		j := newJob(c, TransactionTimeout(timeout)) // interval and timeout of checkpoints are 1 s each
		var log bytes.Buffer
		ctx := j.context(0, 1)
		ctx.Log = slog.New(slog.NewTextHandler(&log, nil))
		w, err := Sink(j.topic, text{}, j.opts...).NewWriter(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		text := log.String()
		if got := strings.Contains(text, "level=WARN") && strings.Contains(text, "kafka.TransactionTimeout") && strings.Contains(text, "checkpoint interval"); got != warned {
			t.Errorf("timeout %v: log %q", timeout, text)
		}
	}
}

// Failure 35: the id of a committable has gone on to another transaction, and
// the snapshot that lists the committable is restored all the same.
func TestFailure35IDUsedAgain(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c, Witness())
		j.start(1, nil)
		j.write(1)
		first := j.full()
		for range 2 {
			j.write(1)
			j.full()
		}
		j.complete(&snapshot{id: j.last})
		j.write(1)
		again := j.checkpoint() // not complete
		if id := j.decode(again)[0].Txn.ID; id != j.decode(first)[0].Txn.ID {
			t.Fatalf("transaction %s, want the id of the first one", id)
		}
		j.crash()
		j.start(1, first)
		j.settle()
		if got := len(j.committed(j.topic)); got != 3 {
			t.Errorf("%d records are visible, want the 3 that were committed", got)
		}
	})
}

// Failure 42: a zombie whose transaction was ended by others stops, and its end
// leaves the new writer alone.
func TestFailure42ZombieStopsAfterFencing(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		j.start(1, nil)
		j.write(1)
		s := j.full()
		j.write(2)
		j.flush()
		zombie, parts, committer := j.writers[0], j.parts, j.committer
		j.writers, j.parts, j.committer = nil, nil, nil

		j.start(1, s)
		j.write(2)
		j.flush()
		w := watch(c)
		err := zombie.Write([]string{"0:99"}, []int64{now()})
		if err == nil {
			err = zombie.Flush(j.deadline())
		}
		if err == nil {
			t.Fatal("the zombie went on")
		}
		if _, err := zombie.PreCommit(7); err == nil {
			t.Error("the zombie pre-committed")
		}
		if err := zombie.Close(); err != nil {
			t.Logf("the zombie's end: %v", err)
		}
		for _, r := range w.ended() {
			if _, name, _ := ParseTransactionalID(r.TransactionalID); name.Attempt == j.attempt {
				t.Errorf("the zombie ended a transaction of attempt %d", name.Attempt)
			}
		}
		for _, id := range w.initialised() {
			if _, name, _ := ParseTransactionalID(id); name.Attempt == j.attempt {
				t.Errorf("the zombie initialised %s", id)
			}
		}
		j.full()
		j.wantExact([]int{3})
		(&job{parts: parts, committer: committer}).crash()
	})
}

// Failures 47 and 52: what the brokers no longer know, or do not allow, is
// never dropped.
func TestFailure47IDForgotten(t *testing.T) {
	c := newCluster(t)
	j := newJob(c)
	j.start(1, nil)
	j.write(1)
	s := j.checkpoint()
	fault(c.fake, kmsg.EndTxn, 1, endTxn(kerr.InvalidProducerIDMapping))
	fault(c.fake, kmsg.DescribeTransactions, 1, describeTransactions("", 0, 0, kerr.TransactionalIDNotFound.Code))
	j.crash()
	err := j.tryStart(1, s)
	if !errors.Is(err, connector.ErrTransactionUnknown) || !strings.Contains(err.Error(), "forgotten") || !strings.Contains(err.Error(), "out.0.0") {
		t.Errorf("got %v, want that the id is forgotten", err)
	}
	j.crash()
	j.start(1, s) // it was not, after all
	j.wantExact([]int{1})
}

// Failure 30: the commit uses up the last epoch of a producer, which then has
// another id, and its answer is lost.
func TestFailure30EpochsUsedUp(t *testing.T) {
	run := func(t *testing.T, c *cluster, opts ...SinkOption) {
		j := newJob(c, opts...)
		j.start(1, nil)
		for j.initialise(transactionalID("weir.test", twophaseName(j, 0))) < 32765 {
		}
		j.write(2)
		s := j.checkpoint()
		if e := j.pending[0].Txn.Epoch; e != 32766 {
			t.Fatalf("epoch %d, want the last one", e)
		}
		j.complete(s)
		j.commit(s.id)
		j.settle()
		for range 2 {
			j.crash()
			j.start(1, s)
		}
		for range 4 { // the id is used again
			j.write(1)
			j.full()
		}
		j.wantExact([]int{6})
	}
	// kfake forgets the producer, but not the witness.
	t.Run("V2", func(t *testing.T) { run(t, newCluster(t), Witness()) })
	t.Run("real", func(t *testing.T) { run(t, realCluster(t)) })
}
