package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/connectortest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// protocols runs a test with both transaction protocols, and on a real broker
// if there is one.
func protocols(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Run("V2", func(t *testing.T) { test(t, newCluster(t)) })
	t.Run("V1", func(t *testing.T) { test(t, newV1(t)) })
	t.Run("real", func(t *testing.T) { test(t, realCluster(t)) })
}

// cluster is a broker to test with; fake is nil for a real one.
type cluster struct {
	*testing.T
	fake    *kfake.Cluster
	servers []string
	client  *kgo.Client
	adm     *kadm.Client
}

func newCluster(t *testing.T, opts ...kfake.Opt) *cluster {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return connect(t, &cluster{T: t, fake: fake, servers: fake.ListenAddrs()})
}

func realCluster(t *testing.T) *cluster {
	t.Helper()
	server := os.Getenv("WEIR_KAFKA")
	if server == "" {
		t.Skip("WEIR_KAFKA=host:port names no real broker")
	}
	return connect(t, &cluster{T: t, servers: []string{server}})
}

func connect(t *testing.T, c *cluster) *cluster {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.servers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	c.client, c.adm = cl, kadm.NewClient(cl)
	return c
}

var topics atomic.Int64

// topic creates a topic of its own.
func (c *cluster) topic(partitions int32) string {
	c.Helper()
	name := fmt.Sprintf("t%d-%d", time.Now().UnixNano(), topics.Add(1))
	c.create(name, partitions)
	return name
}

func (c *cluster) create(name string, partitions int32) {
	c.Helper()
	if _, err := c.adm.CreateTopic(c.Context(), partitions, 1, nil, name); err != nil {
		c.Fatal(err)
	}
}

// put writes values to a partition, outside of transactions.
func (c *cluster) put(topic string, part int32, vals ...string) {
	c.Helper()
	for _, v := range vals {
		c.record(&kgo.Record{Topic: topic, Partition: part, Value: []byte(v)})
	}
}

func (c *cluster) record(r *kgo.Record) {
	c.Helper()
	if err := c.client.ProduceSync(c.Context(), r).FirstErr(); err != nil {
		c.Fatal(err)
	}
}

// transaction writes values in a transaction of their own and ends it, or
// leaves it open.
func (c *cluster) transaction(topic string, end string, vals ...string) {
	c.Helper()
	id := fmt.Sprintf("upstream-%d-%d", time.Now().UnixNano(), topics.Add(1))
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.servers...), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		c.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		c.Fatal(err)
	}
	for _, v := range vals {
		if err := cl.ProduceSync(c.Context(), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			c.Fatal(err)
		}
	}
	if end == "open" {
		return
	}
	if err := cl.EndTransaction(c.Context(), kgo.TransactionEndTry(end == "commit")); err != nil {
		c.Fatal(err)
	}
}

// committed reads a topic up to its last stable offset.
func (c *cluster) committed(topic string) []string {
	c.Helper()
	run, err := connectortest.StartSource(Source(topic, text{}, Until(Latest()), c.brokers()), 1, nil, nil)
	if err != nil {
		c.Fatal(err)
	}
	defer run.Close()
	if err := run.Run(c.deadline()); err != nil {
		c.Fatal(err)
	}
	return run.Values()
}

// blocked says whether a reader of committed records is held up in a topic.
func (c *cluster) blocked(topic string) bool {
	c.Helper()
	stable, err := c.adm.ListCommittedOffsets(c.Context(), topic)
	if err != nil {
		c.Fatal(err)
	}
	ends, err := c.adm.ListEndOffsets(c.Context(), topic)
	if err != nil {
		c.Fatal(err)
	}
	held := false
	ends.Each(func(o kadm.ListedOffset) {
		s, _ := stable.Lookup(o.Topic, o.Partition)
		held = held || s.Offset < o.Offset
	})
	return held
}

func (c *cluster) brokers() ClientOption { return Brokers(c.servers...) }

// deadline ends a test that hangs.
func (c *cluster) deadline() context.Context { return deadline(c.T) }

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func wantValues(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func numbers(from, n int) []string {
	vals := make([]string, n)
	for i := range vals {
		vals[i] = strconv.Itoa(from + i)
	}
	return vals
}

// text is a codec of strings that refuses what begins with "bad".
type text struct{}

func (text) Append(dst []byte, v string) ([]byte, error) {
	if strings.HasPrefix(v, "bad") {
		return dst, errors.New("a bad value")
	}
	return append(dst, v...), nil
}

func (text) Decode(src []byte) (string, error) {
	switch {
	case src == nil:
		return "<nil>", nil
	case strings.HasPrefix(string(src), "bad"):
		return "", errors.New("a bad value")
	case strings.HasPrefix(string(src), "panic"):
		panic("boom")
	}
	return string(src), nil
}

func (text) Format() codec.Format { return codec.Format{ID: "text", Version: 1} }

func v1() kfake.Opt { return kfake.MaxVersions(kversion.V3_8_0()) }

func newV1(t *testing.T) *cluster { return newCluster(t, v1()) }
