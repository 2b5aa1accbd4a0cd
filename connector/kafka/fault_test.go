package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refuse answers requests of a kind with an authorization error.
func refuse(c *kfake.Cluster, key int16) {
	c.ControlKey(key, func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if r, ok := req.(*kmsg.OffsetCommitRequest); ok {
			resp := r.ResponseKind().(*kmsg.OffsetCommitResponse)
			for _, t := range r.Topics {
				rt := kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
				for _, p := range t.Partitions {
					rt.Partitions = append(rt.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: kerr.GroupAuthorizationFailed.Code})
				}
				resp.Topics = append(resp.Topics, rt)
			}
			return resp, nil, true
		}
		return nil, nil, false
	})
}

// outOfRange answers the next fetch that names a partition with
// OFFSET_OUT_OF_RANGE.
func outOfRange(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r := req.(*kmsg.FetchRequest)
		if len(r.Topics) == 0 {
			c.KeepControl()
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.FetchResponse)
		for _, t := range r.Topics {
			rt := kmsg.FetchResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.OffsetOutOfRange.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}
