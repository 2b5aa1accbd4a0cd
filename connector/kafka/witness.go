package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Witness has each transaction leave a mark that outlives it: an offset of a
// consumer group, committed in the transaction itself. The group has the name
// of the transactional id, the offset is the producer's epoch, the offset's
// metadata is its id.
//
// Where the brokers no longer tell what became of a transaction, because its
// id was initialised by somebody else or has gone on to another transaction, a
// start then looks for the mark before it gives up with
// connector.ErrTransactionUnknown. The mark lives for offsets.retention.minutes
// (7 days by default) and needs READ on the group and on the topic.
//
// It is off by default: it costs each transaction one request, or two with
// the first transaction protocol, while the barrier waits. It has no effect
// without ExactlyOnce.
func Witness() SinkOption {
	return sinkOption(func(c *sinkConfig) { c.witness = true })
}

// witness writes the mark into a flushed transaction that wrote to a topic.
func (e *ender) witness(ctx context.Context, t Transaction) error {
	ctx, cancel := e.config.bound(ctx)
	defer cancel()
	cl, err := e.client(t.EndTxn)
	if err != nil {
		return err
	}
	if t.EndTxn < endTxnV2 {
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.Group = t.ID, t.ID
		add.ProducerID, add.ProducerEpoch = t.ProducerID, t.Epoch
		err := e.insist(ctx, func(ctx context.Context) error {
			resp, err := add.RequestWith(ctx, cl)
			if err != nil {
				return err
			}
			return kerr.ErrorForCode(resp.ErrorCode)
		})
		if err != nil {
			return fmt.Errorf("kafka sink: add the witness to transaction %s: %w", t.ID, final(err))
		}
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group = t.ID, t.ID
	req.ProducerID, req.ProducerEpoch = t.ProducerID, t.Epoch
	part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	part.Offset, part.Metadata = int64(t.Epoch), new(strconv.FormatInt(t.ProducerID, 10))
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = t.Topics[0], append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	err = e.insist(ctx, func(ctx context.Context) error {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return errors.New("an answer without the partition asked for")
		}
		return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	})
	if err != nil {
		return fmt.Errorf("kafka sink: write the witness of transaction %s: %w", t.ID, final(err))
	}
	return nil
}

// noIdentity is that of no producer.
var noIdentity = identity{-1, -1}

// proves reports whether a mark found under the id of a transaction proves that
// this was committed: it is its own, or that of a later one. An id is used again
// only after a completed checkpoint that no longer lists its transaction, which
// therefore was committed.
func (found identity) proves(t Transaction) bool {
	return found.id == t.ProducerID && found.epoch >= t.Epoch
}

// witnessed looks for the proof that a transaction was committed. Where there
// is none, or it cannot be read, the answer is no.
func (e *ender) witnessed(ctx context.Context, t Transaction) bool {
	if len(t.Topics) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	cl, err := e.client(endTxnV2)
	if err != nil {
		return false
	}
	// Not only stable offsets: the next transaction of the id may be open.
	req := kmsg.NewPtrOffsetFetchRequest()
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic, topic.Partitions = t.Topics[0], []int32{0}
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group, group.Topics = t.ID, append(group.Topics, topic)
	req.Groups = append(req.Groups, group)
	found := noIdentity
	err = e.insist(ctx, func(ctx context.Context) error {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		found, err = readMark(resp)
		return err
	})
	return err == nil && found.proves(t)
}

func readMark(resp *kmsg.OffsetFetchResponse) (identity, error) {
	if len(resp.Groups) != 1 || len(resp.Groups[0].Topics) != 1 || len(resp.Groups[0].Topics[0].Partitions) != 1 {
		return noIdentity, nil
	}
	g := resp.Groups[0]
	p := g.Topics[0].Partitions[0]
	for _, code := range []int16{g.ErrorCode, p.ErrorCode} {
		if err := kerr.ErrorForCode(code); err != nil {
			return noIdentity, err
		}
	}
	if p.Metadata == nil || p.Offset < 0 || p.Offset > math.MaxInt16 {
		return noIdentity, nil
	}
	id, err := strconv.ParseInt(*p.Metadata, 10, 64)
	if err != nil {
		return noIdentity, nil //nolint:nilerr // not a mark of ours
	}
	return identity{id, int16(p.Offset)}, nil
}
