package kafka

import (
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/splitreader"
)

// lag reads a partition by a fetcher of its own.
type lag struct {
	*cluster
	fetcher *fetcher[string]
	meter   connectortest.Context
	id      string
	next    int64
}

func newLag(c *cluster, topic string, opts ...SourceOption) *lag {
	c.Helper()
	src := Source(topic, text{}, append(opts, c.brokers())...)
	cl, err := src.config.client.open(src.config.consumerOptions()...)
	if err != nil {
		c.Fatal(err)
	}
	l := &lag{cluster: c}
	l.fetcher = newFetcher(&src.config, consumer{cl, c.Context()}, src.decode(nil), &l.meter, slog.New(slog.DiscardHandler))
	c.Cleanup(func() {
		if err := l.fetcher.Close(); err != nil {
			c.Error(err)
		}
	})
	topics, err := l.fetcher.admit.adm.ListTopics(c.deadline(), topic)
	if err != nil {
		c.Fatal(err)
	}
	s := Split{Topic: topic, TopicID: topics[topic].ID, Stop: NoStop}
	l.id = s.SplitID()
	if err := l.fetcher.HandleSplits([]Split{s}); err != nil {
		c.Fatal(err)
	}
	return l
}

// fetch fetches once, of a log in which reading may go up to end.
func (l *lag) fetch(end int64) {
	l.Helper()
	var into splitreader.Batch[string]
	if err := l.fetcher.Fetch(l.deadline(), &into); err != nil {
		l.Fatal(err)
	}
	l.next = into.End
	if got, set := l.meter.Gauge("pendingRecords", l.id); !set || got != end-l.next {
		l.Errorf("read up to %d of %d, pendingRecords is %d (set: %t), want %d", l.next, end, got, set, end-l.next)
	}
}

func TestPendingRecords(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	var records []*kgo.Record
	for range 1500 {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte("x")})
	}
	if err := c.client.ProduceSync(c.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	l := newLag(c, topic)
	if l.fetch(1500); l.next > batchRecords {
		t.Fatalf("a batch of %d records", l.next)
	}
	for l.next < 1500 {
		l.fetch(1500)
	}
	c.put(topic, 0, "y")
	l.fetch(1501)
}

// The marker of a transaction is read like a record. What an open transaction
// holds up does not count as pending, unless it is read.
func TestPendingRecordsOfTransactions(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(1)
		c.transaction(topic, "commit", "a", "b") // and a marker
		c.put(topic, 0, "c")
		c.transaction(topic, "open", "d", "e")
		for l := newLag(c, topic); l.next < 4; {
			l.fetch(4)
		}
		for l := newLag(c, topic, ReadUncommitted()); l.next < 6; {
			l.fetch(6)
		}
	})
}
