package kafka

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/twophase"
)

func (c *cluster) transactions(opts ...ClientOption) *Transactions {
	t := NewTransactions(append([]ClientOption{c.brokers(), quick}, opts...)...)
	c.Cleanup(t.Close)
	return t
}

// of lists the transactions of a lineage, by subtask.
func (t *Transactions) of(j *job, ended bool) []ListedTransaction {
	j.Helper()
	all, err := t.List(j.deadline(), ended, func(_ string, n twophase.Name) bool { return n.Lineage == j.lineage })
	if err != nil {
		j.Fatal(err)
	}
	return all
}

// Case 48: a job is gone for good, and its transactions are ended by hand.
func TestListAndEndTransactions(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		tool := c.transactions()
		w := watch(c)
		j := newJob(c, TransactionTimeout(5*time.Minute))
		c.transaction(j.topic, "abort", "x") // none of Weir's
		begin := time.Now().Add(-time.Second)
		j.start(2, nil)
		j.write(3)
		s := j.checkpoint()
		j.complete(s)
		j.crash() // both hold what a snapshot lists

		open := tool.of(j, false)
		if len(open) != 2 {
			t.Fatalf("listed %+v, want two", open)
		}
		held := j.decode(s)
		for i, l := range open {
			if l.State != "Ongoing" || !l.Open() || l.Prefix != "weir.test" || l.Name.Attempt != 1 || l.Name.Operator != "out" || l.Name.Subtask != i ||
				l.Timeout != 5*time.Minute || l.Opened.Before(begin) || !slices.Equal(l.Partitions, []string{j.topic + "[0]"}) {
				t.Errorf("listed %+v", l)
			}
			if l.ID != held[i].Txn.ID || l.ProducerID != held[i].Txn.ProducerID || l.Epoch != held[i].Txn.Epoch || l.EndTxn != held[i].Txn.EndTxn {
				t.Errorf("identity %v, the snapshot has %v", l.Transaction, held[i].Txn)
			}
		}
		inits := len(w.initialised())
		if err := tool.Commit(j.deadline(), held[0].Txn); err != nil {
			t.Fatal(err)
		}
		if err := tool.Abort(j.deadline(), open[1].Transaction); err != nil {
			t.Fatal(err)
		}
		if n := len(w.initialised()); n != inits {
			t.Errorf("%d ids were initialised", n-inits)
		}
		// The brokers have decided; their markers may take a moment.
		for ctx := c.deadline(); len(tool.of(j, false)) != 0 || c.blocked(j.topic); {
			if !pause(ctx, 20*time.Millisecond) {
				t.Fatalf("still open: %+v", tool.of(j, false))
			}
		}
		if got := j.committed(j.topic); len(got) != 3 || !strings.HasPrefix(got[0], "0:") {
			t.Errorf("committed %q, want the three of subtask 0", got)
		}
		if c.fake == nil { // kfake forgets how they ended
			for i, want := range []string{"CompleteCommit", "CompleteAbort"} {
				l := tool.of(j, true)
				if len(l) != 2 || l[i].State != want || l[i].Open() {
					t.Errorf("ended: %+v", l)
				}
				if got := l[i].Outcome(held[i].Txn); got != []string{"committed", "lost"}[i] {
					t.Errorf("outcome %q of %+v", got, l[i])
				}
			}
		}
	})
}

// Case 46: a list that lacks a broker's answer is not shown, let alone used.
func TestIncompleteListOfTransactions(t *testing.T) {
	for key, answer := range map[kmsg.Key]func(kmsg.Request) kmsg.Response{
		kmsg.ListTransactions:     listTransactions(kerr.CoordinatorLoadInProgress),
		kmsg.DescribeTransactions: describeTransactions("Ongoing", 1, 1, kerr.CoordinatorLoadInProgress.Code),
	} {
		c := newCluster(t)
		j := newJob(c)
		j.start(1, nil)
		j.write(1)
		j.flush()
		seen := fault(c.fake, key, 2, answer)
		if got := c.transactions().of(j, false); len(got) != 1 || seen.Load() != 2 {
			t.Errorf("%v: listed %+v after %d failures", key, got, seen.Load())
		}
		fault(c.fake, key, -1, answer)
		_, err := c.transactions(StartTimeout(400*time.Millisecond)).List(t.Context(), false, func(string, twophase.Name) bool { return true })
		if err == nil || !strings.Contains(err.Error(), "incomplete") || !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			t.Errorf("%v: got %v", key, err)
		}
	}
}

// Who no longer waits learns that, not that the brokers were slow.
func TestInterruptedListOfTransactions(t *testing.T) {
	for key, answer := range map[kmsg.Key]func(kmsg.Request) kmsg.Response{
		kmsg.ListTransactions:     listTransactions(kerr.CoordinatorLoadInProgress),
		kmsg.DescribeTransactions: lost,
	} {
		c := newCluster(t)
		j := newJob(c)
		j.start(1, nil)
		j.write(1)
		j.flush()
		stop := errors.New("interrupt signal received")
		ctx, cancel := context.WithCancelCause(t.Context())
		fault(c.fake, key, -1, func(req kmsg.Request) kmsg.Response { cancel(stop); return answer(req) })
		_, err := c.transactions().List(ctx, false, func(string, twophase.Name) bool { return true })
		if !errors.Is(err, stop) || !strings.Contains(err.Error(), "was interrupted") || strings.Contains(err.Error(), "within") {
			t.Errorf("%v: got %v", key, err)
		}
	}
}

// An answer that comes too late for the caller is no fault of the brokers.
func TestInterruptedOrSlow(t *testing.T) {
	config := newClientConfig()
	for want, cause := range map[string]error{"": errTimeUp, "was interrupted: the signal; before that: no route": errors.New("the signal")} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		err := config.interrupted(ctx, errors.New("no route"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, cause)) {
			t.Errorf("%v: got %v, want %q", cause, err, want)
		}
	}
	ctx, cancel := config.bound(t.Context())
	defer cancel()
	if err := config.interrupted(ctx, nil); err != nil {
		t.Errorf("before the end: %v", err)
	}
}

func TestParseTransactionalID(t *testing.T) {
	name := twophase.Name{Lineage: "lin", Attempt: 3, Operator: "a.b%", Subtask: 1, Slot: 2}
	for _, prefix := range []string{"p", "weir.test", "100%", "%2E"} {
		id := transactionalID(prefix, name)
		if p, n, ok := ParseTransactionalID(id); !ok || p != prefix || n != name {
			t.Errorf("%s: %q %+v %v", id, p, n, ok)
		}
	}
	for _, id := range []string{
		"", "x", ".lin.3.op.1.2", "p.lin.3.op.1", "p.lin.3.op.1.2.3", "p.lin.03.op.1.2", "p.lin.3.op.-1.2", "p%41.lin.3.op.1.2", "p%2e.lin.3.op.1.2", "p.q.lin.3.op.1.2",
	} {
		if _, _, ok := ParseTransactionalID(id); ok {
			t.Errorf("%q was taken for an id of Weir", id)
		}
	}
}

func FuzzParseTransactionalID(f *testing.F) {
	f.Add("p.lin.3.op.1.2")
	f.Add("a-b.l.1.o.0.0")
	f.Add("we%2Eir.lin.3.o%25p.1.2")
	f.Fuzz(func(t *testing.T, id string) {
		prefix, name, ok := ParseTransactionalID(id)
		if escaped, _, _ := strings.Cut(id, "."); ok && (escaped+"."+name.String() != id || twophase.Escape(prefix) != escaped) {
			t.Errorf("%q is %q %+v", id, prefix, name)
		}
	})
}

func TestDecodeCommittable(t *testing.T) {
	want := committable{Attempt: 3, Checkpoint: 7, Txn: Transaction{ID: "p.lin.3.op.1.2", ProducerID: 5, Epoch: 1, EndTxn: 5, Opened: time.UnixMilli(9), Timeout: time.Second}}
	own := Sink("t", text{}).CommittableCodec()
	data, err := own.Append(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	got, ok, err := DecodeCommittable(own.Format(), data)
	if err != nil || !ok || got.Txn.ID != want.Txn.ID || got.Checkpoint != 7 || got.Txn.EndTxn != 5 {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
	if _, ok, err := DecodeCommittable(codec.Format{ID: "collect", Version: 1}, data); ok || err != nil {
		t.Errorf("another sink's: %v, %v", ok, err)
	}
	newer := own.Format()
	newer.Version++
	if _, ok, err := DecodeCommittable(newer, data); !ok || err == nil {
		t.Errorf("a newer version: %v, %v", ok, err)
	}
}

// Rule 11: a transaction that grows old is told of before it is lost, be it
// that no checkpoint comes or that its commit does.
func TestOldTransactionsAreToldOf(t *testing.T) {
	c := newCluster(t)
	j := newJob(c, TransactionTimeout(time.Minute))
	j.start(1, nil)
	var log bytes.Buffer
	ctx := j.context(0, 1)
	ctx.Log = slog.New(slog.NewTextHandler(&log, nil))
	p, err := newParticipant(ctx, &sinkConfig{client: j.parts[0].config.client, topic: j.topic, prefix: "weir.test", timeout: time.Minute}, j.parts[0].encode)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	txn, err := p.Begin(t.Context(), twophase.Name{Lineage: j.lineage, Attempt: 1, Operator: "out", Slot: 9})
	if err != nil {
		t.Fatal(err)
	}
	for _, age := range []time.Duration{0, 29 * time.Second, 31 * time.Second, 40 * time.Second} {
		p.live.opened = time.Now().Add(-age)
		if err := p.Write(txn, []string{"0:1"}, []int64{now()}); err != nil {
			t.Fatal(err)
		}
		want := 0
		if age > 30*time.Second {
			want = 1
		}
		if n := strings.Count(log.String(), "open for more than half of its timeout"); n != want {
			t.Errorf("at %v: %d warnings, want %d: %s", age, n, want, log.String())
		}
	}
	if !strings.Contains(log.String(), txn.ID) {
		t.Errorf("the warning does not name the transaction: %s", log.String())
	}
}

// A commit that succeeds is told of to nobody; one that goes on failing is,
// with its age and the last error.
func TestFailingCommitIsToldOf(t *testing.T) {
	c := newCluster(t)
	j := newJob(c, TransactionTimeout(time.Minute))
	j.start(1, nil)
	j.write(1)
	j.checkpoint()
	held := j.pending[0].Txn
	held.Opened = time.Now().Add(-31 * time.Second)
	e := newEnderOf(c, t)
	e.config.warnAfter = time.Nanosecond
	asked := 0
	c.fake.ControlKey(int16(kmsg.EndTxn), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		if asked++; asked > 3 {
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = kerr.ConcurrentTransactions.Code
		return resp, nil, true
	})
	var warnings []error
	commit := func() error {
		return e.commit(t.Context(), held, func(age time.Duration, err error) {
			if age < 31*time.Second {
				t.Errorf("age %v", age)
			}
			warnings = append(warnings, err)
		})
	}
	if err := commit(); err != nil || len(warnings) != 1 || !errors.Is(warnings[0], kerr.ConcurrentTransactions) {
		t.Errorf("%v, warnings %v, want one of ConcurrentTransactions", err, warnings)
	}
	if err := commit(); err != nil || len(warnings) != 1 {
		t.Errorf("%v, warnings %v of a commit that succeeds at once", err, warnings)
	}
}

func newEnderOf(c *cluster, t *testing.T) *ender {
	e := c.transactions().ender
	t.Cleanup(e.close)
	return e
}
