package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/twophase"
)

// TopicSink writes to topics. It implements connector.Sink.
type TopicSink[T any] struct {
	config sinkConfig
	encode func() encode[T]
}

// SinkOption is an option of sinks. ClientOptions are SinkOptions, too.
type SinkOption interface{ sink(*sinkConfig) }

type sinkOption func(*sinkConfig)

func (o sinkOption) sink(c *sinkConfig) { o(c) }

type sinkConfig struct {
	client
	topic    string
	delivery connector.Delivery
	prefix   string
	timeout  time.Duration
	witness  bool
	err      error
}

// defaultTransactionTimeout is the largest that brokers allow by default.
const defaultTransactionTimeout = 15 * time.Minute

// Sink writes the values to a topic by a codec, without keys, with the event
// time as Kafka timestamp (mind that topics delete records older than their
// retention time, by that timestamp). The topic must exist. Delivery is at-least-once
// unless an option says otherwise: what was written before a checkpoint has
// arrived when the checkpoint completes.
func Sink[T any](topic string, values codec.Codec[T], opts ...SinkOption) *TopicSink[T] {
	return KeyedSink(topic, nil, values, opts...)
}

// KeyedSink is Sink with a key per record, which decides about the partition.
// A nil key is none. The bytes of a key are not copied: they must stay unchanged
// until the record is acknowledged, so key must not return memory that is used
// again.
func KeyedSink[T any](topic string, key func(T) []byte, values codec.Codec[T], opts ...SinkOption) *TopicSink[T] {
	s := &TopicSink[T]{config: newSinkConfig(topic, opts)}
	s.encode = func() encode[T] { return &valueEncoder[T]{topic: topic, key: key, values: values} }
	if values == nil {
		s.config.err = invalid("kafka sink: a codec is needed")
	}
	if topic == "" {
		s.config.err = invalid("kafka sink: no topic")
	}
	return s
}

// SinkFunc writes the records that a function makes. Topic is the topic of
// records whose encoder sets none; it may be empty if all set one.
func SinkFunc[T any](topic string, fn Encoder[T], opts ...SinkOption) *TopicSink[T] {
	s := &TopicSink[T]{config: newSinkConfig(topic, opts)}
	s.encode = func() encode[T] { return &recordEncoder[T]{topic: topic, fn: fn} }
	if fn == nil {
		s.config.err = invalid("kafka sink: an encoder is needed")
	}
	return s
}

func newSinkConfig(topic string, opts []SinkOption) sinkConfig {
	c := sinkConfig{client: newClientConfig(), topic: topic, delivery: connector.AtLeastOnce, timeout: defaultTransactionTimeout}
	for _, o := range opts {
		o.sink(&c)
	}
	return c
}

// NoGuarantee writes without waiting for anything at checkpoints: a failure
// may lose and repeat records.
func NoGuarantee() SinkOption {
	return sinkOption(func(c *sinkConfig) { c.delivery = connector.None })
}

// AtLeastOnce waits at each checkpoint until all that was written has arrived.
// It is the default.
func AtLeastOnce() SinkOption {
	return sinkOption(func(c *sinkConfig) { c.delivery = connector.AtLeastOnce })
}

// ExactlyOnce writes in transactions: one per subtask and checkpoint,
// committed when the checkpoint is complete. Readers must read committed
// records only, and see a record after up to two checkpoint intervals. The
// prefix begins the transactional ids; it matters for ACLs and for people who
// look at them, for Weir keeps jobs apart by itself.
func ExactlyOnce(prefix string) SinkOption {
	return sinkOption(func(c *sinkConfig) {
		c.delivery, c.prefix = connector.ExactlyOnce, prefix
		if prefix == "" {
			c.err = invalid("kafka sink: ExactlyOnce needs a prefix for transactional ids")
		}
	})
}

// TransactionTimeout is how long after its first record a transaction may be
// committed. It must exceed the checkpoint interval, the checkpoint's duration
// and the longest time the job may be down: what a checkpoint holds is lost
// when the brokers abort it. It must not exceed the brokers'
// transaction.max.timeout.ms. Default 15 min, the most that brokers allow by
// default.
func TransactionTimeout(d time.Duration) SinkOption {
	return sinkOption(func(c *sinkConfig) {
		c.timeout = d
		if d < time.Millisecond {
			c.err = invalid(fmt.Sprintf("kafka sink: transaction timeout of %v", d))
		}
	})
}

// Delivery returns what the options chose.
func (s *TopicSink[T]) Delivery() connector.Delivery { return s.config.delivery }

// CommittableCodec encodes committables.
func (s *TopicSink[T]) CommittableCodec() codec.Codec[twophase.Committable[Transaction]] {
	return s.transactions().CommittableCodec()
}

// NewWriter makes the writer of one subtask. It waits for the brokers, up to
// the StartTimeout, and checks topic and transaction timeout.
func (s *TopicSink[T]) NewWriter(ctx connector.SinkContext) (connector.Writer[T, twophase.Committable[Transaction]], error) {
	if s.config.err != nil {
		return nil, s.config.err
	}
	if s.config.delivery == connector.ExactlyOnce {
		return s.transactions().NewWriter(ctx)
	}
	return newWriter(ctx, &s.config, s.encode())
}

// NewCommitter makes the committer; there is none but for ExactlyOnce.
func (s *TopicSink[T]) NewCommitter(ctx connector.CommitterContext) (connector.Committer[twophase.Committable[Transaction]], error) {
	if s.config.err != nil {
		return nil, s.config.err
	}
	if s.config.delivery != connector.ExactlyOnce {
		return nil, nil
	}
	return s.transactions().NewCommitter(ctx)
}

func (s *TopicSink[T]) transactions() connector.Sink[T, twophase.Committable[Transaction]] {
	return twophase.Sink(protocol[T]{s}, twophase.Pooled())
}

// protocol is the sink as a two-phase-commit sink.
type protocol[T any] struct{ sink *TopicSink[T] }

func (p protocol[T]) HandleCodec() codec.Codec[Transaction] { return transactionCodec{} }

func (p protocol[T]) NewParticipant(ctx connector.SinkContext) (twophase.Participant[T, Transaction], error) {
	return newParticipant(ctx, &p.sink.config, p.sink.encode())
}

func (p protocol[T]) NewCoordinator(ctx connector.CommitterContext) (twophase.Coordinator[Transaction], error) {
	return newCoordinator(ctx, &p.sink.config)
}

// producerOptions are the defaults of producing clients.
func producerOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.RecordPartitioner(newPartitioner()),
		kgo.ProducerLinger(5 * time.Millisecond),
	}
}

// checkTopic waits until the topic is known.
func (c *sinkConfig) checkTopic(ctx context.Context, cl *kgo.Client) error {
	if c.topic == "" {
		return nil
	}
	adm := kadm.NewClient(cl)
	err := retry(ctx, &c.client, func(ctx context.Context) error {
		listed, err := adm.ListTopics(ctx, c.topic)
		if err != nil {
			return err
		}
		t, ok := listed[c.topic]
		if !ok || errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			return &missingTopicError{c.names(), []string{c.topic}}
		}
		return t.Err
	})
	if err != nil {
		return fmt.Errorf("kafka sink: %w", err)
	}
	return nil
}
