package kafka

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// TopicSource reads topics. It implements connector.Source.
type TopicSource[T any] struct {
	config sourceConfig
	decode func(count func(string, int64)) decoding[T]
}

// SourceOption is an option of Source and SourceFunc. ClientOptions are
// SourceOptions, too.
type SourceOption interface{ source(*sourceConfig) }

type sourceOption func(*sourceConfig)

func (o sourceOption) source(c *sourceConfig) { o(c) }

type sourceConfig struct {
	client
	topics          []string
	pattern         *regexp.Regexp
	start           Position
	stop            *Position
	discovery       time.Duration
	readUncommitted bool
	group           string
	missing         MissingOffset
	tombstones      tombstonePolicy
	undecodable     func(Record, error) error // nil: fail
	skip            bool
	err             error
}

type tombstonePolicy int

const (
	failTombstones tombstonePolicy = iota
	skipTombstones
	decodeTombstones
)

// Source reads a topic, the values by a codec and each record's Kafka
// timestamp as its source timestamp. Unless options say otherwise it reads
// from the earliest record, without end, committed records only.
func Source[T any](topic string, values codec.Codec[T], opts ...SourceOption) *TopicSource[T] {
	s := &TopicSource[T]{config: newSourceConfig(topic, opts)}
	s.decode = func(count func(string, int64)) decoding[T] {
		return decodeValues(values, s.config.tombstones, count)
	}
	if values == nil {
		s.config.err = invalid("kafka source: a codec is needed")
	}
	return s
}

// SourceFunc reads a topic by a function that sees whole records and may make
// any number of elements of each.
func SourceFunc[T any](topic string, fn Decoder[T], opts ...SourceOption) *TopicSource[T] {
	s := &TopicSource[T]{config: newSourceConfig(topic, opts)}
	s.decode = func(func(string, int64)) decoding[T] { return decodeRecords(fn) }
	if fn == nil {
		s.config.err = invalid("kafka source: a decoder is needed")
	}
	return s
}

func newSourceConfig(topic string, opts []SourceOption) sourceConfig {
	c := sourceConfig{client: newClientConfig(), discovery: 5 * time.Minute}
	if topic != "" {
		c.topics = []string{topic}
	}
	for _, o := range opts {
		o.source(&c)
	}
	if c.err == nil && len(c.topics) == 0 && c.pattern == nil {
		c.err = invalid("kafka source: no topic; name one, or give kafka.Topics or kafka.Pattern")
	}
	return c
}

// ReassignSplits implements connector.SplitReassigner: after a restore, too,
// each partition is with its owner, and those of a topic are spread evenly.
func (s *TopicSource[T]) ReassignSplits() bool { return true }

// Topics reads these topics as well.
func Topics(names ...string) SourceOption {
	return sourceOption(func(c *sourceConfig) { c.topics = append(c.topics, names...) })
}

// Pattern reads all topics whose whole name matches a regular expression, as
// well, also those that are created later. Internal topics are left out.
func Pattern(expr string) SourceOption {
	return sourceOption(func(c *sourceConfig) {
		re, err := regexp.Compile("^(?:" + expr + ")$")
		if err != nil {
			c.err = connector.Fatal(fmt.Errorf("kafka source: pattern of topics: %w", err))
			return
		}
		c.pattern = re
	})
}

// StartAt says where the first start reads from. Later starts continue from
// the snapshot. Partitions that are discovered after the first start are read
// from their earliest record. Default Earliest.
func StartAt(p Position) SourceOption {
	return sourceOption(func(c *sourceConfig) { c.start = p })
}

// Until makes the source bounded: it ends at the position, which is turned
// into offsets at the first start.
func Until(p Position) SourceOption {
	return sourceOption(func(c *sourceConfig) { c.stop = &p })
}

// DiscoverEvery is how often an unbounded source looks for new partitions and
// topics; 0 or less: never again after the start. Default 5 min. A bounded
// source does so once, at its first start.
func DiscoverEvery(d time.Duration) SourceOption {
	return sourceOption(func(c *sourceConfig) { c.discovery = d })
}

// ReadUncommitted reads records of open and aborted transactions, too.
func ReadUncommitted() SourceOption {
	return sourceOption(func(c *sourceConfig) { c.readUncommitted = true })
}

// Group commits the offsets of each completed checkpoint to a consumer group,
// for monitoring only: the source never reads them back but at a first start
// from Committed. Failing to commit is a warning.
func Group(id string) SourceOption {
	return sourceOption(func(c *sourceConfig) { c.group = id })
}

// MissingOffset says what to do where the offset to read from does not exist
// any more, or not yet.
type MissingOffset int

const (
	// FailOnMissing ends the job with a MissingOffsetError. It is the default.
	FailOnMissing MissingOffset = iota
	// GoToEarliest goes on from the earliest record.
	GoToEarliest
	// GoToLatest goes on from the end.
	GoToLatest
)

// OnMissingOffset chooses how to go on where the offset to read from does not
// exist. Offsets skipped thereby are counted as "offsetsSkipped".
func OnMissingOffset(m MissingOffset) SourceOption {
	return sourceOption(func(c *sourceConfig) { c.missing = m })
}

// SkipTombstones drops records with a nil value, counted as
// "tombstonesSkipped". By default they are undecodable. It concerns Source
// only.
func SkipTombstones() SourceOption {
	return sourceOption(func(c *sourceConfig) { c.tombstones = skipTombstones })
}

// DecodeTombstones has the codec decode nil values like others. It concerns
// Source only.
func DecodeTombstones() SourceOption {
	return sourceOption(func(c *sourceConfig) { c.tombstones = decodeTombstones })
}

// SkipUndecodable drops records that cannot be decoded, counted as
// "recordsUndecodable". By default they fail the job with an
// UndecodableError.
func SkipUndecodable() SourceOption {
	return sourceOption(func(c *sourceConfig) { c.skip = true })
}

// OnUndecodable has a function deal with records that cannot be decoded, and
// goes on without them, counted as "recordsUndecodable"; its error fails the
// job. The function is called by one goroutine per subtask, and again for the
// same record after a failure. WithUndecodable keeps such records in the
// stream instead.
func OnUndecodable(fn func(r Record, err error) error) SourceOption {
	return sourceOption(func(c *sourceConfig) { c.undecodable = fn })
}

// Bounded says whether Until was given.
func (s *TopicSource[T]) Bounded() bool { return s.config.stop != nil }

// SplitCodec encodes splits.
func (s *TopicSource[T]) SplitCodec() codec.Codec[Split] { return splitCodec{} }

// EnumeratorCodec encodes the enumerator's state.
func (s *TopicSource[T]) EnumeratorCodec() codec.Codec[Enumeration] { return enumerationCodec{} }

// NewEnumerator makes the enumerator. It does not connect.
func (s *TopicSource[T]) NewEnumerator(ctx connector.EnumeratorContext[Split], restored *Enumeration) (connector.Enumerator[Split, Enumeration], error) {
	if s.config.err != nil {
		return nil, s.config.err
	}
	cl, err := s.config.client.open()
	if err != nil {
		return nil, err
	}
	return newEnumerator(ctx, &s.config, cl, restored), nil
}

// NewReader makes the reader of one subtask. It does not connect.
func (s *TopicSource[T]) NewReader(ctx connector.ReaderContext) (connector.Reader[T, Split], error) {
	if s.config.err != nil {
		return nil, s.config.err
	}
	d := s.decode(ctx.Count)
	refused, refuse := context.WithCancelCause(context.Background())
	hooks := kgo.WithHooks(&refusals{tell: refuse})
	cl, err := s.config.client.openWith(consumerDefaults(), append(s.config.consumerOptions(), pools(d.copies), hooks))
	if err != nil {
		return nil, err
	}
	var committer *kgo.Client
	if s.config.group != "" {
		if committer, err = s.config.client.open(); err != nil {
			cl.Close()
			return nil, err
		}
	}
	return newReader(ctx, &s.config, consumer{cl, refused}, committer, d), nil
}

// reads says whether a topic belongs to the source as it is configured.
func (c *sourceConfig) reads(topic string) bool {
	return slices.Contains(c.topics, topic) || c.pattern != nil && c.pattern.MatchString(topic)
}

// consumerDefaults keep a partition that was just assigned from waiting for
// a fetch that waits for the others.
func consumerDefaults() []kgo.Opt {
	return []kgo.Opt{kgo.FetchMaxWait(500 * time.Millisecond)}
}

// readable is up to where what was fetched may be read.
func (c *sourceConfig) readable(p kgo.FetchPartition) int64 {
	if c.readUncommitted {
		return p.HighWatermark
	}
	return p.LastStableOffset
}

func (c *sourceConfig) consumerOptions() []kgo.Opt {
	isolation := kgo.ReadCommitted()
	if c.readUncommitted {
		isolation = kgo.ReadUncommitted()
	}
	return []kgo.Opt{
		kgo.FetchIsolationLevel(isolation),
		// Markers of transactions move the position: a bounded read would wait
		// for them otherwise.
		kgo.KeepControlRecords(),
		kgo.KeepRetryableFetchErrors(),
		// Never jump silently.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	}
}
