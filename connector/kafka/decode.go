package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/splitreader"
)

// Decoder makes elements of a record: it calls emit for each, with a
// timestamp in milliseconds (connector.NoTimestamp for none; Millis gives the
// record's). It is called by one goroutine per subtask. An error makes the
// record undecodable, and drops what was emitted of it; one that wraps
// codec.ErrUnavailable fails the attempt instead.
type Decoder[T any] func(r *Record, emit func(v T, millis int64)) error

// Millis returns the record's timestamp in milliseconds,
// connector.NoTimestamp if it has none.
func (r *Record) Millis() int64 {
	if r.Timestamp.IsZero() {
		return connector.NoTimestamp
	}
	return r.Timestamp.UnixMilli()
}

// Decoded is a record that was decoded, or could not be.
type Decoded[T any] struct {
	Value T
	// Err says why the record could not be decoded, and is empty if it was.
	// With Err, Value is the zero value, and Record has the bytes and where
	// they come from.
	Err    string
	Record Record
}

// WithUndecodable is the decoder of SourceFunc that lets undecodable records
// into the stream, as Decoded with Err set: a process function sends them to a
// side output, exactly once like everything else.
func WithUndecodable[T any](values codec.Codec[T]) Decoder[Decoded[T]] {
	return func(r *Record, emit func(Decoded[T], int64)) error {
		v, err := values.Decode(r.Value)
		if errors.Is(err, codec.ErrUnavailable) {
			return err
		}
		if err != nil {
			emit(Decoded[T]{Err: err.Error(), Record: *r}, r.Millis())
			return nil //nolint:nilerr // the record carries the error
		}
		emit(Decoded[T]{Value: v}, r.Millis())
		return nil
	}
}

// UndecodableError is the failure of a source at a record that cannot be
// decoded.
type UndecodableError struct {
	Topic     string
	Partition int32
	Offset    int64
	Err       error
}

func (e *UndecodableError) Error() string {
	return fmt.Sprintf("cannot decode record %s[%d] at offset %d: %v; kafka.SkipUndecodable and kafka.OnUndecodable go on without it", e.Topic, e.Partition, e.Offset, e.Err)
}

// Unwrap returns the decoder's error.
func (e *UndecodableError) Unwrap() error { return e.Err }

// errTombstone is why a nil value is undecodable by default.
var errTombstone = errors.New("the value is nil (a tombstone); kafka.SkipTombstones drops such records, kafka.DecodeTombstones hands nil to the codec")

// decode appends the elements of a record to a batch. end is the position
// behind the record.
type decode[T any] func(r *kgo.Record, into *splitreader.Batch[T], end int64) error

// decoding is how a source decodes.
type decoding[T any] struct {
	one decode[T]
	// many decodes the values of records together, nil if that is not possible;
	// nil values go to one unless tombstones are values, too.
	many       codec.BatchDecoder[T]
	tombstones bool
	// copies says that elements do not alias records, whose memory may be used
	// again.
	copies bool
}

// decodeValues decodes by a codec for values.
func decodeValues[T any](values codec.Codec[T], tombstones tombstonePolicy, count func(string, int64)) decoding[T] {
	d := decoding[T]{tombstones: tombstones == decodeTombstones, copies: true}
	d.many, _ = values.(codec.BatchDecoder[T])
	d.one = func(r *kgo.Record, into *splitreader.Batch[T], end int64) error {
		if r.Value == nil && tombstones != decodeTombstones {
			if tombstones == skipTombstones {
				count("tombstonesSkipped", 1)
				return nil
			}
			return errTombstone
		}
		v, err := values.Decode(r.Value)
		if err != nil {
			return err
		}
		into.Append(v, millis(r), end)
		return nil
	}
	return d
}

// decodeRecords decodes by a function of the user.
func decodeRecords[T any](fn Decoder[T]) decoding[T] {
	var (
		record Record
		batch  *splitreader.Batch[T]
		behind int64
	)
	emit := func(v T, millis int64) { batch.Append(v, millis, behind) }
	return decoding[T]{one: func(r *kgo.Record, into *splitreader.Batch[T], end int64) error {
		batch, behind = into, end
		record.fill(r)
		return fn(&record, emit)
	}}
}

func (r *Record) fill(k *kgo.Record) {
	*r = Record{
		Topic: k.Topic, Partition: k.Partition, Offset: k.Offset,
		Key: k.Key, Value: k.Value,
	}
	if millis(k) != connector.NoTimestamp {
		r.Timestamp = k.Timestamp
	}
	for _, h := range k.Headers {
		r.Headers = append(r.Headers, Header{h.Key, h.Value})
	}
}

// detach copies what lies in memory that is used again.
func (r *Record) detach() {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	for i, h := range r.Headers {
		r.Headers[i] = Header{strings.Clone(h.Key), bytes.Clone(h.Value)}
	}
}

// millis is a record's timestamp. Kafka marks "none" by -1; other negative
// ones are no sound event times either.
func millis(r *kgo.Record) int64 {
	if ms := r.Timestamp.UnixMilli(); ms >= 0 {
		return ms
	}
	return connector.NoTimestamp
}
