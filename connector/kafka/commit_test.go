package kafka

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/twophase"
)

// Case 7.
func TestLostAnswerToACommit(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		var armed atomic.Bool
		dial := func(ctx context.Context, network, host string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, host)
			if err != nil {
				return nil, err
			}
			return &deafConn{Conn: conn, armed: &armed}, nil
		}
		j := newJob(c, Client(kgo.Dialer(dial)))
		w := watch(c)
		j.start(1, nil)
		j.write(2)
		s := j.checkpoint()
		j.complete(s)
		armed.Store(true)
		j.commit(s.id)
		if armed.Load() {
			t.Fatal("no answer was lost")
		}
		if n := len(w.ended()); c.fake != nil && n != 2 {
			t.Errorf("%d EndTxn, want the same twice", n)
		}
		j.write(1)
		j.full()
		j.wantExact([]int{3})
	})
}

// Cases 8 and 13.
func TestCommitIsRepeatedUntilItIsAnswered(t *testing.T) {
	for name, f := range map[string]struct {
		n      int
		answer func(kmsg.Request) kmsg.Response
	}{
		"never arrives":           {3, lost},
		"concurrent transactions": {20, endTxn(kerr.ConcurrentTransactions)},
		"coordinator loading":     {2, endTxn(kerr.CoordinatorLoadInProgress)},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			j := newJob(c)
			j.start(1, nil)
			j.write(2)
			s := j.checkpoint()
			j.complete(s)
			w := watch(c)
			seen := fault(c.fake, kmsg.EndTxn, f.n, f.answer)
			j.commit(s.id)
			if n := seen.Load(); n != int64(f.n) {
				t.Errorf("%d requests failed, want %d", n, f.n)
			}
			for _, r := range w.ended() {
				if !r.Commit {
					t.Error("an abort of a pending transaction was sent")
				}
			}
			if n := len(w.initialised()); n != 0 {
				t.Errorf("%d ids were initialised while the commit was under way", n)
			}
			j.wantExact([]int{2})
		})
	}
}

func TestCommitEndsWithItsContext(t *testing.T) {
	c := newCluster(t)
	j := newJob(c)
	j.start(1, nil)
	j.write(1)
	j.checkpoint()
	fault(c.fake, kmsg.EndTxn, -1, endTxn(kerr.ConcurrentTransactions))
	err := j.committer.Commit(within(t, 100*time.Millisecond), j.pending)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), j.pending[0].Txn.ID) {
		t.Errorf("got %v, want the deadline and the transaction", err)
	}
}

func TestRefusedCommitIsAnError(t *testing.T) { // case 52
	c := newCluster(t)
	j := newJob(c)
	j.start(1, nil)
	j.write(1)
	j.checkpoint()
	fault(c.fake, kmsg.EndTxn, 1, endTxn(kerr.TransactionalIDAuthorizationFailed))
	if err := j.committer.Commit(j.deadline(), j.pending); !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		t.Errorf("got %v", err)
	}
	j.commit(j.last) // it is kept, and commits once that is allowed
	j.wantExact([]int{1})
}

// Case 25: the job was down for longer than the timeout.
func TestExpiredTransactionFailsLoudly(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c, TransactionTimeout(200*time.Millisecond))
		j.start(1, nil)
		j.write(1)
		s := j.checkpoint()
		j.crash()
		ctx := c.deadline() // real brokers look for expired ones every 10 s
		for c.blocked(j.topic) && pause(ctx, 20*time.Millisecond) {
		}
		err := j.tryStart(1, s)
		// kfake does not keep what became of a transaction.
		if !errors.Is(err, connector.ErrTransactionLost) && (c.fake == nil || !errors.Is(err, connector.ErrTransactionUnknown)) {
			t.Errorf("got %v, want the transaction lost", err)
		}
		if err == nil || !strings.Contains(err.Error(), "out.0.0") || !strings.Contains(err.Error(), "checkpoint 1") {
			t.Errorf("the error names neither transaction nor checkpoint: %v", err)
		}
		t.Log(err)
	})
}

// Cases 26 and 30: what the brokers say of an id, and what it means.
func TestOutcome(t *testing.T) {
	v1 := Transaction{ID: "x", ProducerID: 7, Epoch: 3, EndTxn: 4}
	v2 := Transaction{ID: "x", ProducerID: 7, Epoch: 3, EndTxn: 5}
	for _, test := range []struct {
		txn   Transaction
		state string
		id    int64
		epoch int16
		want  fate
	}{
		{v1, "Ongoing", 7, 3, outcomeOpen},
		{v1, "Ongoing", 7, 4, outcomeUnknown},
		{v1, "PrepareCommit", 7, 3, outcomeOpen},
		{v1, "CompleteCommit", 7, 3, outcomeCommitted},
		{v1, "CompleteCommit", 7, 4, outcomeUnknown},
		{v1, "CompleteAbort", 7, 3, outcomeAborted},
		{v1, "CompleteAbort", 7, 4, outcomeAborted},
		{v2, "Ongoing", 7, 3, outcomeOpen},
		{v2, "CompleteCommit", 7, 4, outcomeCommitted},
		{v2, "CompleteCommit", 7, 3, outcomeUnknown},
		{v2, "CompleteCommit", 7, 5, outcomeUnknown},
		{v2, "CompleteCommit", 8, 0, outcomeUnknown},
		{v2, "CompleteAbort", 7, 4, outcomeAborted},
		{v2, "CompleteAbort", 7, 5, outcomeAborted},
		{v2, "CompleteAbort", 7, 6, outcomeUnknown},
		{v1, "CompleteAbort", 7, 5, outcomeUnknown},
		{v2, "PrepareAbort", 7, 4, outcomeAborted},
		{v2, "Empty", 7, 4, outcomeUnknown},
		{v2, "Dead", 7, 4, outcomeUnknown},
	} {
		d := kadm.DescribedTransaction{State: test.state, ProducerID: test.id, ProducerEpoch: test.epoch}
		if got := outcome(test.txn, d); got != test.want {
			t.Errorf("EndTxn v%d, %s producer %d epoch %d: %d, want %d", test.txn.EndTxn, test.state, test.id, test.epoch, got, test.want)
		}
	}
}

// Cases 26, 35 and 47: fenced and the like is not success by itself.
func TestFencedCommitIsResolved(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.ProducerFenced, kerr.InvalidTxnState, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping} {
		c := newCluster(t)
		j := newJob(c)
		j.start(1, nil)
		j.write(1)
		j.checkpoint()
		txn := j.pending[0].Txn
		fault(c.fake, kmsg.EndTxn, -1, endTxn(code))
		for _, test := range []struct {
			state string
			epoch int16
			code  int16
			want  error
		}{
			{"CompleteCommit", txn.Epoch + 1, 0, nil},
			{"CompleteAbort", txn.Epoch + 1, 0, connector.ErrTransactionLost},
			{"Empty", txn.Epoch + 1, 0, connector.ErrTransactionUnknown},
			{"Empty", 0, kerr.TransactionalIDNotFound.Code, connector.ErrTransactionUnknown},
		} {
			seen := fault(c.fake, kmsg.DescribeTransactions, 1, describeTransactions(test.state, txn.ProducerID, test.epoch, test.code))
			err := j.committer.Commit(j.deadline(), j.pending)
			if !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Errorf("%v, then %s epoch %d code %d: got %v, want %v", code, test.state, test.epoch, test.code, err, test.want)
			}
			if seen.Load() != 1 {
				t.Errorf("%d descriptions were asked for", seen.Load())
			}
		}
	}
}

// A start that would go back asks before, and nothing is ended by that.
func TestInspectTellsWhatIsLost(t *testing.T) {
	c := newCluster(t)
	j := newJob(c)
	j.start(1, nil)
	j.write(1)
	j.checkpoint()
	txn := j.pending[0].Txn
	inspector := j.committer.(connector.Inspector[twophase.Committable[Transaction]])
	if err := inspector.Inspect(j.deadline(), j.pending); err != nil {
		t.Errorf("of an open one: %v", err)
	}
	for _, test := range []struct {
		state string
		epoch int16
		code  int16
		want  error
		says  string
	}{
		{"CompleteCommit", txn.Epoch + 1, 0, nil, ""},
		{"CompleteAbort", txn.Epoch + 1, 0, connector.ErrTransactionLost, "before its timeout: by hand"},
		{"Empty", txn.Epoch + 1, 0, nil, ""}, // the answer to a commit may tell
		{"Empty", 0, kerr.TransactionalIDNotFound.Code, connector.ErrTransactionUnknown, "this is another cluster"},
	} {
		fault(c.fake, kmsg.DescribeTransactions, 1, describeTransactions(test.state, txn.ProducerID, test.epoch, test.code))
		err := inspector.Inspect(j.deadline(), j.pending)
		if !errors.Is(err, test.want) || test.want == nil && err != nil || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s epoch %d code %d: got %v, want %v", test.state, test.epoch, test.code, err, test.want)
		}
	}
	if !c.blocked(j.topic) {
		t.Error("looking ended the transaction")
	}
}

// Where the timeout has passed it is the likely cause; before that it is not.
func TestWhyATransactionWasAborted(t *testing.T) {
	txn := Transaction{ID: "x", Opened: time.UnixMilli(1000), Timeout: time.Minute}
	for at, says := range map[time.Duration]string{time.Second: "before its timeout", 2 * time.Minute: "not committed within its timeout"} {
		if err := lostError(txn, kadm.DescribedTransaction{State: "CompleteAbort"}, txn.Opened.Add(at)); !strings.Contains(err.Error(), says) {
			t.Errorf("after %v: %v", at, err)
		}
	}
}

// Case 14.
func TestAbortOfOrphansIsRepeatedAndBounded(t *testing.T) {
	c := newCluster(t)
	j := newJob(c)
	j.start(1, nil)
	j.write(1)
	j.flush()
	j.crash()
	fault(c.fake, kmsg.EndTxn, 5, endTxn(kerr.ConcurrentTransactions))
	j.start(1, nil)
	if c.blocked(j.topic) {
		t.Error("the orphan is still open")
	}
	j.write(1)
	j.flush()
	j.crash()
	j.opts = append(j.opts, StartTimeout(200*time.Millisecond))
	fault(c.fake, kmsg.EndTxn, -1, endTxn(kerr.ConcurrentTransactions))
	if err := j.tryStart(1, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want an end in time", err)
	}
}

// Case 46.
func TestIncompleteListIsNotUsed(t *testing.T) {
	c := newCluster(t)
	j := newJob(c)
	j.start(1, nil)
	j.write(1)
	j.flush()
	j.crash()
	seen := fault(c.fake, kmsg.ListTransactions, 2, listTransactions(kerr.CoordinatorLoadInProgress))
	j.start(1, nil)
	if seen.Load() != 2 || c.blocked(j.topic) {
		t.Errorf("%d lists failed, orphan open: %v", seen.Load(), c.blocked(j.topic))
	}
	j.crash()
	j.opts = append(j.opts, StartTimeout(400*time.Millisecond))
	fault(c.fake, kmsg.ListTransactions, -1, listTransactions(kerr.CoordinatorLoadInProgress))
	if err := j.tryStart(1, nil); err == nil || !strings.Contains(err.Error(), "incomplete") {
		t.Errorf("got %v", err)
	}
}

// Case 45: an attempt that was replaced between listing and aborting aborts
// nothing.
func TestSweepAsksTheLedger(t *testing.T) {
	c := newCluster(t)
	j := newJob(c)
	j.start(1, nil)
	j.write(1)
	j.flush()
	ctx := j.context(0, 1)
	ctx.AttemptNumber = 9
	com, err := Sink(j.topic, text{}, j.opts...).NewCommitter(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer com.Close()
	fenced := errors.New("fenced")
	if err := com.Sweep(t.Context(), func() error { return fenced }); !errors.Is(err, fenced) {
		t.Errorf("got %v", err)
	}
	j.full()
	j.wantExact([]int{1})
}
