// Package kafka reads from and writes to Apache Kafka.
//
// Source reads topics as an unbounded or bounded stream whose positions live in
// checkpoints. Sink writes to topics, on demand in transactions that are
// committed once the checkpoint that covers them is complete.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/connector"
)

// Record is a Kafka record. What a decoder is given is valid only during the
// call, but for Key, Value and the header's values, which may be kept.
type Record struct {
	Topic     string
	Partition int32
	// Offset is set by the source and ignored by the sink.
	Offset int64
	// Key and Value may be nil; a nil value is a tombstone.
	Key, Value []byte
	Headers    []Header
	// Timestamp is the zero time if the record has none.
	Timestamp time.Time
}

// Header is a header of a record.
type Header struct {
	Key   string
	Value []byte
}

// ClientOption is an option of sources and sinks alike.
type ClientOption struct{ apply func(*client) }

func (o ClientOption) source(c *sourceConfig) { o.apply(&c.client) }
func (o ClientOption) sink(c *sinkConfig)     { o.apply(&c.client) }

// Brokers names the servers to start from, as host:port. Default
// localhost:9092.
func Brokers(servers ...string) ClientOption {
	return ClientOption{func(c *client) { c.servers = servers }}
}

// Client passes options on to the client library, for TLS, SASL and the like.
// Options that the connector itself sets (isolation, offsets, transactions,
// acknowledgements) must not be among them. A source and a sink need options
// of their own where these are about producing: the library changes what such
// options hold while a client is made.
func Client(opts ...kgo.Opt) ClientOption {
	return ClientOption{func(c *client) { c.opts = append(c.opts, opts...) }}
}

// StartTimeout is how long a start waits for brokers and topics that are not
// there before it fails. Default 30 s.
func StartTimeout(d time.Duration) ClientOption {
	return ClientOption{func(c *client) { c.startTimeout = d }}
}

// client is how to reach a cluster.
type client struct {
	servers      []string
	opts         []kgo.Opt
	startTimeout time.Duration
	maxPause     time.Duration // between two tries to end a transaction
	warnAfter    time.Duration // of failing before a commit is told of
	// making is held while a client is made: the library changes slices that
	// lie in opts, which all subtasks share.
	making   *sync.Mutex
	complain *complaint
}

func newClientConfig() client {
	return client{servers: []string{"localhost:9092"}, startTimeout: 30 * time.Second, maxPause: time.Second, warnAfter: 10 * time.Second, making: &sync.Mutex{}, complain: &complaint{}}
}

// open makes a client of the user's options and opts, which win. It does not
// connect.
func (c *client) open(opts ...kgo.Opt) (*kgo.Client, error) {
	return c.openWith(nil, opts)
}

// openWith is open with defaults that the user's options may change.
func (c *client) openWith(defaults, opts []kgo.Opt) (*kgo.Client, error) {
	common := []kgo.Opt{
		kgo.SeedBrokers(c.servers...),
		// What is asked of the cluster is to be as it is, not as it was.
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.WithLogger(c.complain),
		kgo.WithHooks(c.complain),
	}
	all := slices.Concat(defaults, common, c.opts, opts)
	c.making.Lock()
	cl, err := kgo.NewClient(all...)
	c.making.Unlock()
	if err != nil {
		return nil, connector.Fatal(fmt.Errorf("kafka client for %s: %w", c.names(), err))
	}
	return cl, nil
}

func (c *client) names() string { return strings.Join(c.servers, ",") }

// unreachable describes a failure to get an answer within a time.
func (c *client) unreachable(within time.Duration, err error) error {
	var missing *missingTopicError
	if errors.As(err, &missing) {
		return fmt.Errorf("%w (looked for %v)", err, within)
	}
	if text, ok := c.complain.since(within+time.Second, err); ok {
		err = fmt.Errorf("%w (%s)", err, text)
	}
	return fmt.Errorf("kafka at %s did not answer within %v: %w; check that the brokers run, that the addresses (kafka.Brokers) are right, that they can be reached from here, and that TLS and SASL (kafka.Client) are set up as the brokers want them", c.names(), within, err)
}

// errTimeUp is why a context of bound has ended that its caller still waits for.
var errTimeUp = errors.New("the StartTimeout is over")

// bound limits a wait to the StartTimeout.
func (c *client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.startTimeout, errTimeUp)
}

// interrupted returns an error if a context of bound has ended because its
// caller no longer waits: that tells nothing of the brokers. What the last try
// failed with may.
func (c *client) interrupted(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil || errors.Is(cause, errTimeUp):
		return nil
	case last == nil || errors.Is(last, ctx.Err()):
		return fmt.Errorf("the wait for kafka at %s was interrupted: %w", c.names(), cause)
	}
	return fmt.Errorf("the wait for kafka at %s was interrupted: %w; before that: %w", c.names(), cause, last)
}

// pause waits between two tries. It returns false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
