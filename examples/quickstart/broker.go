package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// broker is the Kafka that the quickstart runs against, with its topics.
type broker struct {
	servers string
	fake    *kfake.Cluster // nil if the broker is a real one
	topics  topics
}

// topics are the names of the topics of one run.
type topics struct{ clicks, results, late string }

func newTopics(run string) topics {
	return topics{
		clicks:  "quickstart-" + run + "-clicks",
		results: "quickstart-" + run + "-latency",
		late:    "quickstart-" + run + "-late",
	}
}

// openBroker starts a broker inside this process, on a port of the loopback
// interface, unless servers names a real one, and creates the topics.
func openBroker(ctx context.Context, servers string) (*broker, error) {
	b := &broker{servers: servers, topics: newTopics(time.Now().UTC().Format("20060102-150405.000"))}
	if servers == "" {
		fake, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			return nil, fmt.Errorf("starting the in-process broker: %w", err)
		}
		b.fake, b.servers = fake, strings.Join(fake.ListenAddrs(), ",")
	}
	if err := b.createTopics(ctx); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *broker) describe() string {
	if b.fake != nil {
		return "in-process Kafka broker at " + b.servers
	}
	return "Kafka at " + b.servers
}

func (b *broker) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(strings.Split(b.servers, ",")...))...)
}

func (b *broker) createTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cl, err := b.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	// The results bear the time of their windows, which is long ago: a broker
	// that deletes old records would delete them at once.
	forever := map[string]*string{"retention.ms": kadm.StringPtr("-1")}
	created, err := kadm.NewClient(cl).CreateTopics(ctx, partitions, -1, forever, b.topics.clicks, b.topics.results, b.topics.late)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		return fmt.Errorf("creating topics at %s: %w; check that Kafka runs there", b.servers, err)
	}
	return nil
}

// deleteTopics removes the topics from a real broker.
func (b *broker) deleteTopics(ctx context.Context) error {
	if b.fake != nil {
		return nil
	}
	cl, err := b.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	deleted, err := kadm.NewClient(cl).DeleteTopics(ctx, b.topics.clicks, b.topics.results, b.topics.late)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		return fmt.Errorf("deleting topics at %s: %w", b.servers, err)
	}
	return nil
}

func (b *broker) close() {
	if b.fake != nil {
		b.fake.Close()
	}
}
