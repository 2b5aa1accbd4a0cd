package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// producer writes clicks to the input topic, each to its partition and in
// order.
type producer struct{ client *kgo.Client }

func (b *broker) producer() (*producer, error) {
	cl, err := b.client(
		kgo.DefaultProduceTopic(b.topics.clicks),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(2*time.Millisecond),
		kgo.MaxBufferedRecords(50_000),
	)
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	return &producer{cl}, nil
}

// produce writes the clicks and returns when the broker has them all.
func (p *producer) produce(ctx context.Context, cs []sent) error {
	var (
		once  sync.Once
		first error
	)
	for _, c := range cs {
		r := &kgo.Record{Partition: int32(c.partition), Value: c.append(nil)}
		p.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	if err := p.client.Flush(ctx); err != nil {
		return fmt.Errorf("producing: %w", err)
	}
	if first != nil {
		return fmt.Errorf("producing: %w", first)
	}
	return nil
}

func (p *producer) close() { p.client.Close() }
