package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// silence is how long a bounded split must have brought nothing before the
	// brokers are asked whether anything is left of it.
	silence = 500 * time.Millisecond
	// lookTimeout bounds a round of asking, in which nothing else is read. A
	// look waits for the client's own fetch, so it is above that one's longest
	// wait.
	lookTimeout = 15 * time.Second
	// lookBytes is how much of a partition an answer may hold.
	lookBytes = 1 << 20
)

// endSilent ends bounded splits behind whose position nothing is left before
// their end. The client does not tell of what it passes over: records of
// aborted transactions, and batches that compaction emptied. So a split that
// brought nothing since the last round is looked at by a fetch of its own.
func (f *fetcher[T]) endSilent(ctx context.Context) {
	defer func() { f.looked = time.Now() }()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for leader, silent := range f.silentByLeader() {
		for len(silent) > 0 && ctx.Err() == nil {
			silent = f.look(ctx, leader, silent)
		}
	}
}

// silentByLeader returns what brought nothing since the last call.
func (f *fetcher[T]) silentByLeader() map[int32][]*reading {
	paused := map[partition]bool{}
	for topic, numbers := range f.client.PauseFetchPartitions(nil) {
		for _, n := range numbers {
			paused[partition{topic, n}] = true
		}
	}
	silent := map[int32][]*reading{}
	for p, r := range f.splits {
		moved := r.Next != r.seen
		if r.seen = r.Next; moved || r.Stop == NoStop || paused[p] {
			continue
		}
		if leader, _, err := f.client.PartitionLeader(p.topic, p.number); err == nil && leader >= 0 {
			silent[leader] = append(silent[leader], r)
		}
	}
	return silent
}

// look fetches once from where nothing is known yet, ends what is through,
// and returns what only got further. It leaves errors to the client, which
// reads the same.
func (f *fetcher[T]) look(ctx context.Context, leader int32, silent []*reading) (further []*reading) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = int32(min(len(silent), 64) * lookBytes)
	if !f.config.readUncommitted {
		req.IsolationLevel = 1
	}
	for _, r := range silent {
		r.void = max(r.void, r.Next)
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = r.Partition, r.void, lookBytes
		t := kmsg.FetchRequestTopic{Topic: r.Topic, TopicID: r.TopicID, Partitions: []kmsg.FetchRequestTopicPartition{p}}
		req.Topics = append(req.Topics, t)
	}
	answer, err := f.client.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return nil
	}
	for _, t := range answer.(*kmsg.FetchResponse).Topics {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			r := find(silent, t, p.Partition)
			if r == nil || p.ErrorCode != 0 || !f.pass(r, p) {
				continue
			}
			if r.void < r.Stop {
				further = append(further, r)
				continue
			}
			r.Next = r.Stop
			f.moved = append(f.moved, r)
		}
	}
	return further
}

func find(rs []*reading, t kmsg.FetchResponseTopic, number int32) *reading {
	for _, r := range rs {
		if r.Partition == number && (r.Topic == t.Topic || t.Topic == "" && r.TopicID == t.TopicID) {
			return r
		}
	}
	return nil
}

// pass moves r.void over what an answer holds, and reports whether it moved.
// It does not if there are records for the client to deliver.
func (f *fetcher[T]) pass(r *reading, p *kmsg.FetchResponseTopicPartition) bool {
	isolation := kgo.ReadCommitted()
	if f.config.readUncommitted {
		isolation = kgo.ReadUncommitted()
	}
	found, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: r.void, IsolationLevel: isolation, Topic: r.Topic, Partition: r.Partition,
	}, p, kgo.DefaultDecompressor(), nil)
	if found.Err != nil || next <= r.void || len(found.Records) > 0 && found.Records[0].Offset < r.Stop {
		return false
	}
	r.void = next
	return true
}
