package kafka

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// Encoder makes the record of an element. The record comes with the sink's
// topic, the event time as timestamp (zero if there is none) and Partition -1,
// which lets the key decide, or chance without a key; the encoder sets key,
// value and headers, and changes what else it wants. What it sets must not be
// changed afterwards. A nil value is written as a tombstone. With ErrSkip
// nothing is written; any other error fails the job.
type Encoder[T any] func(v T, r *Record) error

// ErrSkip, returned by an Encoder, leaves an element out, counted as
// "recordsSkipped".
var ErrSkip = errors.New("skip this element")

// encode makes records of batches.
type encode[T any] interface {
	// batch fills an empty chunk with the records of a batch, and returns how
	// many elements it left out.
	batch(into *chunk, vals []T, times []int64) (skipped int, err error)
}

// encodeBatch makes a chunk of a batch, and returns how many elements it left
// out.
func encodeBatch[T any](from *chunks, e encode[T], vals []T, times []int64) (*chunk, int, error) {
	c := from.get()
	skipped, err := e.batch(c, vals, times)
	if err != nil {
		from.put(c)
		return nil, 0, err
	}
	return c, skipped, nil
}

// valueEncoder encodes values by a codec.
type valueEncoder[T any] struct {
	topic  string
	key    func(T) []byte
	values codec.Codec[T]
	ends   []int
}

func (e *valueEncoder[T]) batch(into *chunk, vals []T, times []int64) (int, error) {
	buf, ends := into.values, e.ends[:0]
	var err error
	for i := range vals {
		if buf, err = e.values.Append(buf, vals[i]); err != nil {
			return 0, fmt.Errorf("kafka sink: encode a value for topic %s: %w", e.topic, err)
		}
		ends = append(ends, len(buf))
	}
	into.values, e.ends = buf, ends
	from := 0
	for i, end := range ends {
		r := into.add()
		r.Topic, r.Partition, r.Value, r.Timestamp = e.topic, -1, buf[from:end:end], timeOf(times[i])
		if e.key != nil {
			r.Key = e.key(vals[i])
		}
		from = end
	}
	return 0, nil
}

// StringKey makes a key function for KeyedSink of one that returns a string,
// which is written as it is. Unlike []byte(s) it does not copy.
func StringKey[T any](key func(T) string) func(T) []byte {
	return func(v T) []byte {
		s := key(v)
		if s == "" {
			return []byte{} // nil would be no key
		}
		return unsafe.Slice(unsafe.StringData(s), len(s))
	}
}

// recordEncoder encodes by a function of the user.
type recordEncoder[T any] struct {
	topic string
	fn    Encoder[T]
}

func (e *recordEncoder[T]) batch(into *chunk, vals []T, times []int64) (int, error) {
	skipped := 0
	var r Record
	for i := range vals {
		r = Record{Topic: e.topic, Partition: -1, Timestamp: timeOf(times[i])}
		if err := e.fn(vals[i], &r); err != nil {
			if errors.Is(err, ErrSkip) {
				skipped++
				continue
			}
			return skipped, fmt.Errorf("kafka sink: encode a record: %w", err)
		}
		if r.Topic == "" {
			return skipped, errors.New("kafka sink: a record has no topic; name one for the sink or have the encoder set it")
		}
		k := into.add()
		k.Topic, k.Partition, k.Key, k.Value, k.Timestamp = r.Topic, r.Partition, r.Key, r.Value, r.Timestamp
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	return skipped, nil
}

// timeOf is the Kafka timestamp of an event time. Without one the client takes
// the time of writing.
func timeOf(millis int64) time.Time {
	if millis < 0 || millis == connector.NoTimestamp {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}

// partitioner takes a record's Partition, and where that is negative the
// client's usual choice: by key as Kafka's own clients, else in runs.
type partitioner struct{ usual kgo.Partitioner }

func newPartitioner() kgo.Partitioner {
	return partitioner{kgo.UniformBytesPartitioner(64<<10, true, true, nil)}
}

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.usual.ForTopic(topic).(kgo.TopicBackupPartitioner)}
}

type topicPartitioner struct{ kgo.TopicBackupPartitioner }

func (p topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || p.TopicBackupPartitioner.RequiresConsistency(r)
}

func (p topicPartitioner) PartitionByBackup(r *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return p.TopicBackupPartitioner.PartitionByBackup(r, n, backup)
}
