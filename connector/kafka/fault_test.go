package kafka

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fault answers the next n requests of a kind by answer, or closes the
// connection where that returns nil. n < 0 is all.
func fault(c *kfake.Cluster, key kmsg.Key, n int, answer func(kmsg.Request) kmsg.Response) *atomic.Int64 {
	var seen atomic.Int64
	c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if n >= 0 && seen.Load() >= int64(n) {
			c.DropControl()
			return nil, nil, false
		}
		c.KeepControl()
		seen.Add(1)
		if resp := answer(req); resp != nil {
			return resp, nil, true
		}
		return nil, errors.New("fault"), true
	})
	return &seen
}

// lost closes the connection: the request never arrives.
func lost(kmsg.Request) kmsg.Response { return nil }

// endTxn answers EndTxn with an error.
func endTxn(err *kerr.Error) func(kmsg.Request) kmsg.Response {
	return func(req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = err.Code
		return resp
	}
}

// listTransactions answers ListTransactions with an error.
func listTransactions(err *kerr.Error) func(kmsg.Request) kmsg.Response {
	return func(req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
		resp.ErrorCode = err.Code
		return resp
	}
}

// describeTransactions answers with a state of the transaction asked for.
func describeTransactions(state string, producer int64, epoch int16, code int16) func(kmsg.Request) kmsg.Response {
	return func(req kmsg.Request) kmsg.Response {
		r := req.(*kmsg.DescribeTransactionsRequest)
		resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
		s := kmsg.NewDescribeTransactionsResponseTransactionState()
		s.TransactionalID, s.State, s.ProducerID, s.ProducerEpoch, s.ErrorCode = r.TransactionalIDs[0], state, producer, epoch, code
		resp.TransactionStates = append(resp.TransactionStates, s)
		return resp
	}
}

// refuseCommits answers OffsetCommit with an authorization error.
func refuseCommits(req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.OffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range r.Topics {
		rt := kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: kerr.GroupAuthorizationFailed.Code})
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// refuseFetch answers Fetch with an error for each partition.
func refuseFetch(err *kerr.Error) func(kmsg.Request) kmsg.Response {
	return func(req kmsg.Request) kmsg.Response {
		r := req.(*kmsg.FetchRequest)
		resp := r.ResponseKind().(*kmsg.FetchResponse)
		for _, t := range r.Topics {
			rt := kmsg.FetchResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, err.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp
	}
}

// outOfRange answers the next fetch that names a partition with
// OFFSET_OUT_OF_RANGE.
func outOfRange(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if len(req.(*kmsg.FetchRequest).Topics) == 0 {
			c.KeepControl()
			return nil, nil, false
		}
		return refuseFetch(kerr.OffsetOutOfRange)(req), nil, true
	})
}

// deafConn loses the answer to the first EndTxn that it sends: the brokers have
// acted on it when the connection breaks.
type deafConn struct {
	net.Conn
	armed *atomic.Bool
	deaf  atomic.Bool
}

func (c *deafConn) Write(b []byte) (int, error) {
	if len(b) > 6 && b[4] == 0 && b[5] == byte(kmsg.EndTxn) && c.armed.CompareAndSwap(true, false) {
		c.deaf.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *deafConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.deaf.Load() {
		c.Conn.Close()
		return 0, errors.New("connection reset")
	}
	return n, err
}
