package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// openTestBroker starts an in-process broker for the time of a test.
func openTestBroker(t *testing.T) *broker {
	b, err := openBroker(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

// transaction writes results to a topic in a transaction and ends it, unless
// commit is nil.
func transaction(t *testing.T, b *broker, id string, commit *bool, results ...result) {
	t.Helper()
	cl, err := b.client(kgo.TransactionalID(id), kgo.DefaultProduceTopic(b.topics.results))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	ctx := context.Background()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		data, _ := json.Marshal(r)
		if err := cl.ProduceSync(ctx, &kgo.Record{Value: data}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if commit != nil {
		if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(*commit)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConsumerReadsWhatIsCommitted(t *testing.T) {
	b := openTestBroker(t)
	yes, no := true, false
	transaction(t, b, "a", &yes, result{Page: "/page/01", Count: 1})
	transaction(t, b, "b", &no, result{Page: "/page/02", Count: 2})
	transaction(t, b, "c", &yes, result{Page: "/page/03", Count: 3})
	c, err := b.consumer()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.toEnd(t.Context()); err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, r := range c.read.results {
		sum += r.Count
	}
	if len(c.read.results) != 2 || sum != 4 {
		t.Errorf("read %+v, want the first and the third", c.read.results)
	}
}

func TestConsumerRefusesAnOpenTransaction(t *testing.T) {
	b := openTestBroker(t)
	transaction(t, b, "a", nil, result{Page: "/page/01"})
	c, err := b.consumer()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.toEnd(t.Context()); err == nil || !strings.Contains(err.Error(), "a transaction is open") {
		t.Errorf("the error is %v, want one about an open transaction", err)
	}
}

func TestProducerKeepsPartitionAndOrder(t *testing.T) {
	b := openTestBroker(t)
	tr := newTraffic(3000, 1)
	p, err := b.producer()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := p.produce(t.Context(), tr.clicks); err != nil {
		t.Fatal(err)
	}
	cl, err := b.client(kgo.ConsumeTopics(b.topics.clicks))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var want, got [partitions][]string
	for _, c := range tr.clicks {
		want[c.partition] = append(want[c.partition], string(c.append(nil)))
	}
	for n := 0; n < len(tr.clicks); {
		fs := cl.PollFetches(t.Context())
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			got[r.Partition] = append(got[r.Partition], string(r.Value))
			n++
		})
	}
	for p := range want {
		if strings.Join(got[p], "\n") != strings.Join(want[p], "\n") {
			t.Errorf("partition %d holds other records than were sent to it, or in another order", p)
		}
	}
}
