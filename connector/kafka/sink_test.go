package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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
