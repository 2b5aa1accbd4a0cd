package kafka

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
)

func wantFatal(t *testing.T, err error, want bool) {
	t.Helper()
	if err == nil || errors.Is(err, connector.ErrFatal) != want {
		t.Errorf("fatal is %v, want %v: %v", !want, want, err)
	}
}

// failed returns the error that a source ends with.
func (c *cluster) failed(src *TopicSource[string], from *connectortest.SourceSnapshot) error {
	c.Helper()
	r, err := c.tryStart(src, 1, from)
	if err == nil {
		err = r.Run(c.deadline())
	}
	return err
}

func TestRecreatedTopicIsFatal(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a")
	src := Source(topic, text{}, c.brokers())
	r := c.start(src, 1, nil)
	c.count(r, 1)
	snap := c.snapshot(r, 1)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.adm.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	c.create(topic, 1)
	err := c.failed(src, snap)
	wantError(t, err, "deleted and created anew")
	wantFatal(t, err, true)
}

// A bounded source checks where it is told to start as an unbounded one does.
func TestBoundedStartOutOfRange(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, numbers(0, 10)...)
	c.deleteBefore(topic, 4)
	group := func(offset int64) Position {
		name := c.topic(1)
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: offset, LeaderEpoch: -1})
		if err := c.adm.CommitAllOffsets(t.Context(), name, offsets); err != nil {
			t.Fatal(err)
		}
		return Committed(name)
	}
	given := func(offset int64) Position { return Specific(map[string]map[int32]int64{topic: {0: offset}}) }
	for name, at := range map[string]func(int64) Position{"specific": given, "committed": group} {
		t.Run(name, func(t *testing.T) {
			source := func(offset int64, m MissingOffset) *TopicSource[string] {
				return Source(topic, text{}, StartAt(at(offset)), Until(Latest()), OnMissingOffset(m), c.brokers())
			}
			for _, offset := range []int64{1, 50} {
				err := c.failed(source(offset, FailOnMissing), nil)
				missing := (*MissingOffsetError)(nil)
				if !errors.As(err, &missing) || *missing != (MissingOffsetError{topic, 0, offset, 4, 10}) {
					t.Errorf("from %d: got %v, want a MissingOffsetError with 4 to 10", offset, err)
				}
				wantFatal(t, err, true)
				wantValues(t, c.read(source(offset, GoToEarliest), 2), numbers(4, 6)...)
				wantValues(t, c.read(source(offset, GoToLatest), 2))
			}
			wantValues(t, c.read(source(10, FailOnMissing), 2))
			wantValues(t, c.read(source(4, FailOnMissing), 2), numbers(4, 6)...)
		})
	}
	t.Run("stop before start", func(t *testing.T) {
		wantValues(t, c.read(Source(topic, text{}, StartAt(given(8)), Until(given(6)), c.brokers()), 2))
	})
}

func TestRefusedLoginIsFatal(t *testing.T) {
	c := newCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "right"))
	fault(c.fake, kmsg.SASLAuthenticate, -1, func(req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp
	})
	wrong := Client(kgo.SASL(plain.Auth{User: "admin", Pass: "wrong"}.AsMechanism()))
	err := c.failed(Source("t", text{}, c.brokers(), wrong), nil)
	wantError(t, err, "SASL")
	wantFatal(t, err, true)
	_, err = Sink("t", text{}, c.brokers(), wrong).NewWriter(&connectortest.Context{Ctx: t.Context()})
	wantFatal(t, err, true)
}

func TestRefusedFetchIsFatal(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a")
	fault(c.fake, kmsg.Fetch, -1, refuseFetch(kerr.TopicAuthorizationFailed))
	wantFatal(t, c.failed(Source(topic, text{}, c.brokers()), nil), true)
}

func TestRefusedProduceIsFatal(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	fault(c.fake, kmsg.Produce, -1, func(req kmsg.Request) kmsg.Response {
		r := req.(*kmsg.ProduceRequest)
		resp := r.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range r.Topics {
			rt := kmsg.ProduceResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp
	})
	w, err := Sink(topic, text{}, c.brokers()).NewWriter(&connectortest.Context{Ctx: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Write([]string{"a"}, []int64{1}); err != nil {
		t.Fatal(err)
	}
	wantFatal(t, w.Flush(c.deadline()), true)
}

func TestRefusedTransactionsAreFatal(t *testing.T) {
	c := newCluster(t)
	config := newSinkConfig("t", []SinkOption{ExactlyOnce("p"), c.brokers()})
	fault(c.fake, kmsg.EndTxn, -1, endTxn(kerr.TransactionalIDAuthorizationFailed))
	fault(c.fake, kmsg.ListTransactions, -1, listTransactions(kerr.ClusterAuthorizationFailed))
	coord, err := newCoordinator(nil, &config)
	if err != nil {
		t.Fatal(err)
	}
	defer coord.Close()
	txn := Transaction{ID: "p-1", ProducerID: 1, EndTxn: endTxnV2, Opened: time.Now(), Timeout: time.Hour}
	wantFatal(t, coord.Commit(c.deadline(), txn), true)
	wantFatal(t, coord.RecoverAndAbort(c.deadline(), txn), true)
	_, err = coord.Open(c.deadline(), []string{"lineage"})
	wantFatal(t, err, true)
}

func TestInvalidConfigurationIsFatal(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a")
	for name, src := range map[string]*TopicSource[string]{
		"no topic":   Source("", text{}),
		"no codec":   Source[string](topic, nil),
		"no decoder": SourceFunc[string](topic, nil),
		"pattern":    Source("", text{}, Pattern("(")),
		"client":     Source(topic, text{}, Brokers("host:no-port")),
		"no offset":  Source(topic, text{}, StartAt(Specific(nil)), c.brokers()),
	} {
		t.Run(name, func(t *testing.T) { wantFatal(t, c.failed(src, nil), true) })
	}
	ctx := &connectortest.Context{Ctx: t.Context()}
	for name, sink := range map[string]*TopicSink[string]{
		"no topic":   Sink("", text{}),
		"no codec":   Sink[string](topic, nil),
		"no encoder": SinkFunc[string](topic, nil),
		"no prefix":  Sink(topic, text{}, ExactlyOnce("")),
		"timeout":    Sink(topic, text{}, TransactionTimeout(0)),
		"interval":   Sink(topic, text{}, ExactlyOnce("p"), c.brokers()),
	} {
		t.Run("sink "+name, func(t *testing.T) {
			_, err := sink.NewWriter(ctx)
			wantFatal(t, err, true)
		})
	}
}

func TestNetworkIsNotFatal(t *testing.T) {
	dead := []ClientOption{Brokers("127.0.0.1:1"), StartTimeout(300 * time.Millisecond)}
	c := &cluster{T: t}
	wantFatal(t, c.failed(Source("t", text{}, dead[0], dead[1]), nil), false)
	_, err := Sink("t", text{}, dead[0], dead[1]).NewWriter(&connectortest.Context{Ctx: t.Context()})
	wantFatal(t, err, false)
}
