package kafka

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/weirstream/weir/connector/connectortest"
)

// open begins a transaction with values, which the caller ends.
func (c *cluster) open(topic string, part int32, vals ...string) *kgo.Client {
	c.Helper()
	id := fmt.Sprintf("upstream-%d-%d", time.Now().UnixNano(), topics.Add(1))
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.servers...), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(cl.Close)
	if err := cl.BeginTransaction(); err != nil {
		c.Fatal(err)
	}
	for _, v := range vals {
		if err := cl.ProduceSync(c.Context(), &kgo.Record{Topic: topic, Partition: part, Value: []byte(v)}).FirstErr(); err != nil {
			c.Fatal(err)
		}
	}
	return cl
}

func (c *cluster) abort(cl *kgo.Client) {
	c.Helper()
	if err := cl.EndTransaction(c.Context(), kgo.TryAbort); err != nil {
		c.Fatal(err)
	}
}

// Case 53: what lies before the end is aborted, by a marker that an open
// transaction keeps behind the end: nothing at or behind the end comes.
func TestFailure53AbortedTailBeforeAnOpenTransaction(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(2)
		c.put(topic, 0, numbers(0, 5)...)
		aborted := c.open(topic, 0, "5")
		c.open(topic, 0, "6", "7")
		c.abort(aborted)
		c.put(topic, 0, "behind")
		// All of another partition is of that kind.
		aborted = c.open(topic, 1, numbers(100, 3)...)
		c.open(topic, 1, "103")
		c.abort(aborted)

		src := Source(topic, text{}, Until(Latest()), c.brokers())
		for _, parallelism := range []int{1, 2} {
			wantValues(t, c.read(src, parallelism), numbers(0, 5)...)
		}
		first := c.start(src, 1, nil)
		first.Batch = 2
		c.count(first, 2)
		snap := c.snapshot(first, 1)
		if stop := c.splits(snap)[0].Stop; stop != 6 {
			t.Fatalf("the end is %d, want 6, the first open transaction's offset", stop)
		}
		again := c.start(src, 1, snap)
		if err := again.Run(c.deadline()); err != nil {
			t.Fatal(err)
		}
		wantValues(t, again.Values(), numbers(2, 3)...)
	})
}

// Case 53: an end in the middle of what is there, behind nothing but aborted
// records of several fetches.
func TestFailure53LongAbortedTail(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(1)
		c.put(topic, 0, "a")
		big := string(make([]byte, 600<<10))
		aborted := c.open(topic, 0, big, big, big, big, big)
		c.open(topic, 0, "open")
		c.abort(aborted)
		wantValues(t, c.read(Source(topic, text{}, Until(Latest()), c.brokers()), 1), "a")
	})
}

// Case 53: a silent partition whose records are still to come does not end.
func TestFailure53RecordsToComeAreWaitedFor(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(1)
		c.put(topic, 0, "a")
		late := c.open(topic, 0, "b")
		until := Until(Specific(map[string]map[int32]int64{topic: {0: 4}})) // a, b, the marker, c
		r := c.start(Source(topic, text{}, until, c.brokers()), 1, nil)
		c.count(r, 1)
		looked := make(chan struct{})
		if c.fake != nil {
			var n atomic.Int32
			c.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.fake.KeepControl()
				if isLook(req) && n.Add(1) == 2 {
					close(looked)
				}
				return nil, nil, false
			})
			select {
			case <-looked:
			case <-c.deadline().Done():
				t.Fatal("the source did not ask for the position of the silent partition")
			}
		}
		if err := late.EndTransaction(c.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		c.put(topic, 0, "c")
		if err := r.Run(c.deadline()); err != nil {
			t.Fatal(err)
		}
		wantValues(t, r.Values(), "a", "b", "c")
	})
}

// Case 53: a look ends a split only if nothing is to be delivered before its
// end, whatever lies behind.
func TestFailure53LookLeavesRecordsToTheClient(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(1)
		c.put(topic, 0, "a")                    // 0
		c.transaction(topic, "abort", "x", "y") // 1, 2, marker 3
		c.transaction(topic, "commit", "b")     // 4, marker 5
		c.open(topic, 0, "z")                   // 6
		listed, err := c.adm.ListTopics(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			next, stop int64
			ended      bool
		}{
			{0, 1, false}, {0, 4, false}, {0, 6, false}, {0, 9, false}, // a
			{1, 2, true}, {1, 4, true}, {2, 4, true}, {3, 4, true}, // aborted
			{1, 5, false}, {4, 5, false}, {1, 6, false}, // b
			{5, 6, true},                 // a marker
			{5, 7, false}, {6, 7, false}, // open
		} {
			src := Source(topic, text{}, c.brokers())
			cl, err := src.config.client.open(src.config.consumerOptions()...)
			if err != nil {
				t.Fatal(err)
			}
			f := newFetcher(&src.config, consumer{cl, t.Context()}, src.decode(nil), &connectortest.Context{}, nil)
			r := &reading{Split: Split{Topic: topic, TopicID: listed[topic].ID, Next: test.next, Stop: test.stop}}
			for again := []*reading{r}; len(again) > 0; {
				again = f.look(c.deadline(), listed[topic].Partitions[0].Leader, again)
			}
			if ended := len(f.moved) == 1; ended != test.ended || ended && r.Next != test.stop || !ended && r.Next != test.next {
				t.Errorf("from %d to %d: ended %t at %d, want %t", test.next, test.stop, ended, r.Next, test.ended)
			}
			cl.Close()
		}
	})
}

// isLook tells the fetches of endSilent from those of the client: they belong
// to no session.
func isLook(req kmsg.Request) bool {
	r := req.(*kmsg.FetchRequest)
	return r.SessionEpoch == -1 && r.MinBytes == 0
}

// Case 53: compaction has emptied the last batch before the end.
func TestFailure53CompactedTail(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a", "b", "c")
	var looks atomic.Int32
	c.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		r := req.(*kmsg.FetchRequest)
		if isLook(req) {
			looks.Add(1)
		}
		if len(r.Topics) == 0 || r.Topics[0].Partitions[0].FetchOffset == 0 {
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.FetchResponse)
		rt := kmsg.FetchResponseTopic{Topic: r.Topics[0].Topic, TopicID: r.Topics[0].TopicID}
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.HighWatermark, rp.LastStableOffset = 3, 3
		if r.Topics[0].Partitions[0].FetchOffset < 3 {
			rp.RecordBatches = emptyBatch(1, 2)
		}
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	at := func(o int64) Position { return Specific(map[string]map[int32]int64{topic: {0: o}}) }
	wantValues(t, c.read(Source(topic, text{}, StartAt(at(1)), Until(Latest()), c.brokers()), 1))
	if looks.Load() != 1 {
		t.Errorf("%d looks, want 1", looks.Load())
	}
}

// emptyBatch is a batch without records of which compaction keeps the offsets.
func emptyBatch(first, last int64) []byte {
	b := kmsg.RecordBatch{FirstOffset: first, Length: 49, Magic: 2, LastOffsetDelta: int32(last - first), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// Case 53: neither an unbounded source nor one whose records flow asks.
func TestFailure53NoLooksWhileRecordsFlow(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, numbers(0, 3)...)
	var looks atomic.Int32
	idle := make(chan struct{}, 100)
	c.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		if isLook(req) {
			looks.Add(1)
		}
		select {
		case idle <- struct{}{}:
		default:
		}
		return nil, nil, false
	})
	wantValues(t, c.read(Source(topic, text{}, Until(Latest()), c.brokers()), 1), numbers(0, 3)...)
	r := c.start(Source(topic, text{}, c.brokers()), 1, nil)
	c.count(r, 3)
	for len(idle) > 0 {
		<-idle
	}
	for range 5 { // fetches of half a second that bring nothing
		<-idle
	}
	if looks.Load() != 0 {
		t.Errorf("%d looks, want none", looks.Load())
	}
}
