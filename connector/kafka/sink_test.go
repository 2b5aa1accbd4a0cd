package kafka

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/weirstream/weir/connector/connectortest"
)

func (c *cluster) writer(s *TopicSink[string], ctx *connectortest.Context) connector.Writer[string, committable] {
	c.Helper()
	ctx.Ctx = c.Context()
	w, err := s.NewWriter(ctx)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		if err := w.Close(); err != nil {
			c.Error(err)
		}
	})
	return w
}

// records reads whole records of a topic.
func (c *cluster) records(topic string) []string {
	c.Helper()
	src := SourceFunc(topic, func(r *Record, emit func(string, int64)) error {
		text := fmt.Sprintf("%d %s=%s @%d", r.Partition, r.Key, r.Value, r.Millis())
		if r.Value == nil {
			text = fmt.Sprintf("%d %s deleted", r.Partition, r.Key)
		}
		for _, h := range r.Headers {
			text += fmt.Sprintf(" %s:%s", h.Key, h.Value)
		}
		emit(text, r.Millis())
		return nil
	}, Until(Latest()), c.brokers())
	return c.read(src, 1)
}

func TestAtLeastOnceFlushesAtTheBarrier(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(1)
		s := Sink(topic, text{}, c.brokers())
		if d := s.Delivery(); d != connector.AtLeastOnce {
			t.Errorf("delivery %v by default", d)
		}
		w := c.writer(s, &connectortest.Context{})
		if err := w.Write([]string{"a", "b"}, []int64{1000, connector.NoTimestamp}); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := c.records(topic)
		if len(got) != 2 || got[0] != "0 =a @1000" || !strings.HasPrefix(got[1], "0 =b @1") || strings.HasSuffix(got[1], "@-9223372036854775808") {
			t.Errorf("got %q", got)
		}
		if cs, err := w.PreCommit(1); err != nil || len(cs) != 0 {
			t.Errorf("pre-commit: %v, %v", cs, err)
		}
		if com, err := s.NewCommitter(&connectortest.Context{}); com != nil || err != nil {
			t.Errorf("committer %v, %v; want none", com, err)
		}
	})
}

func TestNoGuaranteeWritesOutAtTheEnd(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	w, err := Sink(topic, text{}, NoGuarantee(), c.brokers()).NewWriter(&connectortest.Context{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write([]string{"a"}, []int64{0}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Flush(t.Context()), w.Close()); err != nil {
		t.Fatal(err)
	}
	wantValues(t, c.committed(topic), "a")
}

// The sink's half of K09, and what else an encoder may set.
func TestK09EncoderSetsEverything(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic, other := c.topic(3), c.topic(1)
		s := SinkFunc(topic, func(v string, r *Record) error {
			switch v {
			case "none":
				return ErrSkip
			case "delete":
				r.Key, r.Partition = []byte("k"), 1
			case "elsewhere":
				r.Topic, r.Value = other, []byte(v)
			default:
				r.Key, r.Value, r.Partition = []byte("k"), []byte(v), 2
				r.Headers = []Header{{"h", []byte("x")}}
				r.Timestamp = r.Timestamp.Add(time.Millisecond)
			}
			return nil
		}, c.brokers())
		ctx := &connectortest.Context{}
		w := c.writer(s, ctx)
		if err := w.Write([]string{"v", "none", "delete", "elsewhere"}, []int64{1, 2, 3, 4}); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := c.records(topic)
		if len(got) == 2 && strings.HasPrefix(got[0], "2") {
			got[0], got[1] = got[1], got[0]
		}
		wantValues(t, got, "1 k deleted", "2 k=v @2 h:x")
		wantValues(t, c.records(other), "0 =elsewhere @4")
		if n := ctx.Counter("recordsSkipped"); n != 1 {
			t.Errorf("%d records skipped, want 1", n)
		}
	})
}

func TestKeyDecidesAboutThePartition(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(4)
	w := c.writer(KeyedSink(topic, func(v string) []byte { return []byte(v[:1]) }, text{}, c.brokers()), &connectortest.Context{})
	for range 5 {
		if err := w.Write([]string{"a1", "b1", "c1", "d1", "e1"}, make([]int64, 5)); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	part := map[string]string{}
	for _, r := range c.records(topic) {
		p, rest, _ := strings.Cut(r, " ")
		key := rest[:1]
		if part[key] != "" && part[key] != p {
			t.Errorf("key %s went to partitions %s and %s", key, part[key], p)
		}
		part[key] = p
	}
	if len(part) != 5 {
		t.Errorf("keys %v, want five", part)
	}
}

func TestEncodeErrorNamesTheTopic(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	w := c.writer(Sink(topic, text{}, c.brokers()), &connectortest.Context{})
	if err := w.Write([]string{"bad"}, []int64{0}); err == nil || !strings.Contains(err.Error(), topic) {
		t.Errorf("got %v", err)
	}
}

// Cases 21 and 22: a record that fails fails the task, in every mode.
func TestFailedRecordFailsTheTask(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		for name, encode := range map[string]Encoder[string]{
			"unknown topic": func(v string, r *Record) error {
				r.Value = []byte(v)
				if strings.HasSuffix(v, ":2") {
					r.Topic = "nowhere"
				}
				return nil
			},
			"too large": func(v string, r *Record) error {
				r.Value = []byte(v)
				if strings.HasSuffix(v, ":2") {
					r.Value = make([]byte, 2<<20)
				}
				return nil
			},
		} {
			t.Run(name, func(t *testing.T) {
				j := newJob(connect(t, &cluster{T: t, fake: c.fake, servers: c.servers}))
				j.encoder = encode
				j.start(1, nil)
				j.write(1)
				restore := j.full()
				j.write(1)
				_ = j.writeOne(0) // the record that fails
				err := j.writeOne(0)
				if err == nil {
					_, err = j.tryCheckpoint()
				}
				if err == nil {
					t.Fatal("a checkpoint succeeded without one of its records")
				}
				j.crash()
				j.encoder = nil
				j.start(1, restore)
				j.write(5)
				j.full()
				j.wantExact([]int{6})
			})
		}
	})
}

// Case 23.
func TestFlushDeadline(t *testing.T) {
	c := newCluster(t)
	j := newJob(c)
	j.start(1, nil)
	j.write(1)
	restore := j.full()
	fault(c.fake, kmsg.Produce, -1, lost)
	j.write(1)
	if err := j.writers[0].Flush(within(t, 200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("flush without a broker: %v", err)
	}
	j.crash()
	if restore == nil {
		t.Fatal("no checkpoint to restore")
	}
}

// Case 24: somebody initialises the producer's id anew within an interval.
func TestChangedIdentityFailsTheTask(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		j.start(1, nil)
		j.write(1)
		j.flush()
		req := kmsg.NewPtrInitProducerIDRequest()
		id := transactionalID("weir.test", twophaseName(j, 0))
		req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &id, 60000, -1, -1
		for {
			resp, err := req.RequestWith(j.deadline(), c.client)
			if err != nil {
				t.Fatal(err)
			}
			if err := kerr.ErrorForCode(resp.ErrorCode); err == nil {
				break
			} else if !errors.Is(err, kerr.ConcurrentTransactions) {
				t.Fatal(err)
			}
		}
		err := j.writeOne(0)
		if err == nil {
			_, err = j.tryCheckpoint()
		}
		if err == nil {
			t.Error("the interval was pre-committed although its first records are gone")
		}
		j.crash()
		j.start(1, nil)
		j.write(2)
		j.full()
		j.wantExact([]int{2})
	})
}

func TestProducedNotesAChangedIdentity(t *testing.T) {
	var p produced
	p.done(&kgo.Record{ProducerID: 1, ProducerEpoch: 0}, nil)
	p.done(&kgo.Record{ProducerID: 1, ProducerEpoch: 0}, nil)
	if err := p.failure(); err != nil {
		t.Fatal(err)
	}
	p.done(&kgo.Record{ProducerID: 1, ProducerEpoch: 1}, nil)
	if err := p.failure(); err == nil {
		t.Error("a new epoch in the middle of an interval went unnoticed")
	}
}

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
		{v2, "CompleteAbort", 7, 5, outcomeUnknown},
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

// Case 27.
func TestK13TransactionTimeoutAboveTheBrokerLimit(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(1)
		ctx := &connectortest.Context{Ctx: t.Context(), LineageID: "l", Interval: time.Second}
		_, err := Sink(topic, text{}, ExactlyOnce("p"), TransactionTimeout(time.Hour), c.brokers()).NewWriter(ctx)
		tooLong := (*TransactionTimeoutError)(nil)
		if !errors.As(err, &tooLong) || tooLong.Timeout != time.Hour || tooLong.Maximum != 15*time.Minute {
			t.Errorf("got %v, want both values", err)
		}
		if err == nil || !strings.Contains(err.Error(), "transaction timeout exceeds broker maximum") {
			t.Errorf("got %v", err)
		}
	})
	// Where the brokers do not tell, the first transaction finds out.
	c := newCluster(t)
	fault(c.fake, kmsg.DescribeConfigs, -1, func(req kmsg.Request) kmsg.Response { return req.ResponseKind() })
	j := newJob(c, TransactionTimeout(time.Hour))
	j.start(1, nil)
	err := j.writeOne(0)
	if err == nil {
		_, err = j.tryCheckpoint()
	}
	if tooLong := (*TransactionTimeoutError)(nil); !errors.As(err, &tooLong) {
		t.Errorf("got %v", err)
	}
}

func TestExactlyOnceNeedsCheckpointsAndPrefix(t *testing.T) {
	_, err := Sink("t", text{}, ExactlyOnce("p")).NewWriter(&connectortest.Context{LineageID: "l"})
	if err == nil || !strings.Contains(err.Error(), "checkpoint interval") {
		t.Errorf("without checkpoints: %v", err)
	}
	if _, err := Sink("t", text{}, ExactlyOnce("")).NewCommitter(&connectortest.Context{}); err == nil {
		t.Error("no error without a prefix")
	}
}

func TestSinkWithoutBrokerOrTopic(t *testing.T) {
	timeout := StartTimeout(300 * time.Millisecond)
	_, err := Sink("t", text{}, Brokers("127.0.0.1:1"), timeout).NewWriter(&connectortest.Context{})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("unreachable broker: %v", err)
	}
	c := newCluster(t)
	for _, opts := range [][]SinkOption{{}, {ExactlyOnce("p")}} {
		_, err = Sink("nowhere", text{}, append(opts, c.brokers(), timeout)...).NewWriter(&connectortest.Context{LineageID: "l", Interval: time.Second})
		if err == nil || !strings.Contains(err.Error(), "no topic nowhere") {
			t.Errorf("missing topic: %v", err)
		}
	}
}

// A cancelled job aborts what is open and leaves alone what is pre-committed.
func TestCloseAbortsOnlyTheOpenTransaction(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		j := newJob(c)
		j.start(1, nil)
		j.write(2)
		s := j.checkpoint()
		j.complete(s)
		j.write(3)
		j.flush()
		if err := j.writers[0].Close(); err != nil {
			t.Fatal(err)
		}
		j.commit(s.id)
		j.wantExact([]int{2})
	})
}

func TestTransactionCodec(t *testing.T) {
	want := Transaction{"id", 1 << 62, 32766, 5, time.UnixMilli(1234), 15 * time.Minute, []string{"a", "b"}}
	b, err := transactionCodec{}.Append(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := transactionCodec{}.Decode(b)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) || got.EndTxn != 5 {
		t.Errorf("%+v came back as %+v, %v", want, got, err)
	}
}

func FuzzTransaction(f *testing.F) {
	b, _ := transactionCodec{}.Append(nil, Transaction{"id", 1, 2, 5, time.UnixMilli(3), time.Second, []string{"t"}})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := transactionCodec{}.Decode(b)
		if err != nil {
			return
		}
		again, _ := transactionCodec{}.Append(nil, v)
		if back, err := (transactionCodec{}).Decode(again); err != nil || fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", v) {
			t.Errorf("%+v came back as %+v, %v", v, back, err)
		}
	})
}

func FuzzTransactionalID(f *testing.F) {
	f.Add("p.l.1.o.0.0")
	f.Add("a-b.l.1.o.0.0")
	f.Fuzz(func(t *testing.T, id string) {
		name, ok := parseTransactionalID(id)
		if prefix, _, _ := strings.Cut(id, "."); ok && prefix+"."+name.String() != id {
			t.Errorf("%q was read as %+v", id, name)
		}
	})
}
