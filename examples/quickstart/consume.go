package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// output is what has been read of the output topics, record by record.
type output struct {
	results []result
	late    []click
}

// consumer reads the output topics from their beginning, and only what is
// committed.
type consumer struct {
	client *kgo.Client
	topics topics
	read   output
	// next is the offset behind what was read, markers of transactions
	// included.
	next map[string]map[int32]int64
}

func (b *broker) consumer() (*consumer, error) {
	cl, err := b.client(
		kgo.ConsumeTopics(b.topics.results, b.topics.late),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
	)
	if err != nil {
		return nil, fmt.Errorf("consumer: %w", err)
	}
	return &consumer{
		client: cl, topics: b.topics,
		next: map[string]map[int32]int64{b.topics.results: {}, b.topics.late: {}},
	}, nil
}

// until reads on until enough says so.
func (c *consumer) until(ctx context.Context, enough func(*output) bool) error {
	for !enough(&c.read) {
		if err := c.poll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// toEnd reads everything there is. It fails if a transaction is open, for that
// could still become output, or hides it.
func (c *consumer) toEnd(ctx context.Context) error {
	adm := kadm.NewClient(c.client)
	stable, err := adm.ListCommittedOffsets(ctx, c.topics.results, c.topics.late)
	if err != nil {
		return fmt.Errorf("consumer: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, c.topics.results, c.topics.late)
	if err != nil {
		return fmt.Errorf("consumer: %w", err)
	}
	for topic, ps := range ends {
		for p, end := range ps {
			if s, _ := stable.Lookup(topic, p); s.Offset < end.Offset {
				return fmt.Errorf("a transaction is open in %s, partition %d: the last stable offset is %d, the end %d", topic, p, s.Offset, end.Offset)
			}
		}
	}
	for !c.reached(ends) {
		if err := c.poll(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *consumer) reached(ends kadm.ListedOffsets) bool {
	for topic, ps := range ends {
		for p, end := range ps {
			if c.next[topic][p] < end.Offset {
				return false
			}
		}
	}
	return true
}

func (c *consumer) poll(ctx context.Context) error {
	fetches := c.client.PollFetches(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, e := range fetches.Errors() {
		return fmt.Errorf("reading %s, partition %d: %w", e.Topic, e.Partition, e.Err)
	}
	var err error
	fetches.EachRecord(func(r *kgo.Record) {
		c.next[r.Topic][r.Partition] = r.Offset + 1
		if !r.Attrs.IsControl() && err == nil {
			err = c.decode(r)
		}
	})
	return err
}

func (c *consumer) decode(r *kgo.Record) (err error) {
	if r.Topic == c.topics.late {
		c.read.late, err = appendJSON(c.read.late, r.Value)
	} else {
		c.read.results, err = appendJSON(c.read.results, r.Value)
	}
	if err != nil {
		return fmt.Errorf("record %q of %s: %w", r.Value, r.Topic, err)
	}
	return nil
}

func appendJSON[T any](to []T, data []byte) ([]T, error) {
	var v T
	err := json.Unmarshal(data, &v)
	return append(to, v), err
}

func (c *consumer) close() { c.client.Close() }
