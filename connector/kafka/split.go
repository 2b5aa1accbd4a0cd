package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/weirstream/weir/codec"
)

// Split is a partition of a topic with absolute offsets.
type Split struct {
	Topic string
	// TopicID tells a topic from another one of the same name; zero where the
	// brokers have no ids.
	TopicID   [16]byte
	Partition int32
	// Next is the offset of the next record to read.
	Next int64
	// Stop is the offset to stop before, NoStop for none.
	Stop int64
	// LeaderEpoch is that of the last record read, -1 if unknown: the brokers
	// can tell by it whether the log was truncated.
	LeaderEpoch int32
}

// NoStop is the Stop of a split without end.
const NoStop int64 = -1

// SplitID returns topic and partition as "topic-0".
func (s Split) SplitID() string { return splitID(s.partition()) }

// Position says where reading goes on, for messages.
func (s Split) Position() string { return "offset " + strconv.FormatInt(s.Next, 10) }

func splitID(p partition) string { return p.topic + "-" + strconv.Itoa(int(p.number)) }

// At returns the split with the next offset and the leader epoch.
func (s Split) At(next, epoch int64) Split {
	s.Next, s.LeaderEpoch = next, int32(epoch)
	return s
}

func (s Split) partition() partition { return partition{s.Topic, s.Partition} }

// ended says whether nothing is left to read.
func (s Split) ended() bool { return s.Stop != NoStop && s.Next >= s.Stop }

// beyond says whether the split begins behind its end, as only a start
// position can have it.
func (s Split) beyond() bool { return s.Stop != NoStop && s.Next > s.Stop }

// Enumeration is the state of the enumerator: every partition discovered, and
// the splits that no reader has, with their offsets resolved.
type Enumeration struct {
	// Started says that the first discovery is done: partitions found later
	// are read from their start.
	Started    bool
	Known      []Identity
	Unassigned []Split
}

// Identity is a partition that was discovered.
type Identity struct {
	Topic     string
	TopicID   [16]byte
	Partition int32
}

type splitCodec struct{}

func (splitCodec) Format() codec.Format { return codec.Format{ID: "weir.kafka.split", Version: 1} }

func (splitCodec) Append(dst []byte, s Split) ([]byte, error) { return appendSplit(dst, s), nil }

func (splitCodec) Decode(src []byte) (Split, error) {
	in := input{rest: src}
	s := in.split()
	if err := in.end(); err != nil {
		return Split{}, fmt.Errorf("kafka split: %w", err)
	}
	return s, nil
}

type enumerationCodec struct{}

func (enumerationCodec) Format() codec.Format {
	return codec.Format{ID: "weir.kafka.enumeration", Version: 1}
}

func (enumerationCodec) Append(dst []byte, e Enumeration) ([]byte, error) {
	started := int64(0)
	if e.Started {
		started = 1
	}
	dst = binary.AppendVarint(dst, started)
	dst = binary.AppendVarint(dst, int64(len(e.Known)))
	for _, k := range e.Known {
		dst = appendIdentity(dst, k)
	}
	dst = binary.AppendVarint(dst, int64(len(e.Unassigned)))
	for _, s := range e.Unassigned {
		dst = appendSplit(dst, s)
	}
	return dst, nil
}

func (enumerationCodec) Decode(src []byte) (Enumeration, error) {
	in := input{rest: src}
	e := Enumeration{Started: in.varint() == 1}
	for n := in.varint(); n > 0 && in.err == nil; n-- {
		e.Known = append(e.Known, in.identity())
	}
	for n := in.varint(); n > 0 && in.err == nil; n-- {
		e.Unassigned = append(e.Unassigned, in.split())
	}
	if err := in.end(); err != nil {
		return Enumeration{}, fmt.Errorf("kafka enumerator: %w", err)
	}
	return e, nil
}

func appendIdentity(dst []byte, k Identity) []byte {
	dst = appendString(dst, k.Topic)
	dst = append(dst, k.TopicID[:]...)
	return binary.AppendVarint(dst, int64(k.Partition))
}

func appendSplit(dst []byte, s Split) []byte {
	dst = appendIdentity(dst, Identity{s.Topic, s.TopicID, s.Partition})
	dst = binary.AppendVarint(dst, s.Next)
	dst = binary.AppendVarint(dst, s.Stop)
	return binary.AppendVarint(dst, int64(s.LeaderEpoch))
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendVarint(dst, int64(len(s)))
	return append(dst, s...)
}

// input reads what the append functions wrote; the first error stays.
type input struct {
	rest []byte
	err  error
}

func (in *input) fail(err error) {
	if in.err == nil {
		in.err = err
	}
	in.rest = nil
}

func (in *input) varint() int64 {
	v, n := binary.Varint(in.rest)
	if n <= 0 {
		in.fail(errors.New("truncated"))
		return 0
	}
	in.rest = in.rest[n:]
	return v
}

func (in *input) int32() int32 {
	v := in.varint()
	if int64(int32(v)) != v {
		in.fail(fmt.Errorf("%d is out of range", v))
	}
	return int32(v)
}

func (in *input) bytes(n int64) []byte {
	if n < 0 || n > int64(len(in.rest)) {
		in.fail(errors.New("truncated"))
		return nil
	}
	b := in.rest[:n]
	in.rest = in.rest[n:]
	return b
}

func (in *input) string() string { return string(in.bytes(in.varint())) }

func (in *input) identity() (k Identity) {
	k.Topic = in.string()
	copy(k.TopicID[:], in.bytes(16))
	k.Partition = in.int32()
	return k
}

func (in *input) split() Split {
	k := in.identity()
	return Split{
		Topic: k.Topic, TopicID: k.TopicID, Partition: k.Partition,
		Next: in.varint(), Stop: in.varint(), LeaderEpoch: in.int32(),
	}
}

// end returns the first error, also if something is left over.
func (in *input) end() error {
	if in.err == nil && len(in.rest) > 0 {
		return fmt.Errorf("%d bytes left over", len(in.rest))
	}
	return in.err
}

func (in *input) int16() int16 {
	v := in.varint()
	if int64(int16(v)) != v {
		in.fail(fmt.Errorf("%d is out of range", v))
	}
	return int16(v)
}
