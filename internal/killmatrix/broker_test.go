package killmatrix

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

var servers = flag.String("servers", "", "Kafka to use, HOST:PORT[,HOST:PORT], instead of one inside the test")

// topics are the names of the topics of one campaign.
type topics struct{ in, numbered, totals string }

// campaigns counts them, for names of topics.
var campaigns atomic.Int64

// startBroker starts a Kafka broker inside this process, on a port that the
// job can reach, unless there is one to use, and creates topics.
func startBroker(t *testing.T) (address string, names topics) {
	t.Helper()
	if address = *servers; address == "" {
		c, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		address = c.ListenAddrs()[0]
	}
	run := fmt.Sprintf("killmatrix-%s-%d", time.Now().UTC().Format("20060102-150405.000"), campaigns.Add(1))
	names = topics{run + "-in", run + "-numbered", run + "-totals"}
	// Event times begin with the epoch: retention would delete them at once.
	forever := map[string]*string{"retention.ms": kadm.StringPtr("-1")}
	adm := kadm.NewClient(connect(t, address))
	created, err := adm.CreateTopics(t.Context(), partitions, -1, forever, names.in, names.numbered, names.totals)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		t.Fatalf("creating topics at %s: %v", address, err)
	}
	return address, names
}

func connect(t *testing.T, address string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(strings.Split(address, ",")...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// feeder writes the input while the job is killed: at a rate, so that a
// process always has something to read, and by request the rest.
type feeder struct {
	client   *kgo.Client
	readings []reading
	rate     int // per second
	next     int
	stop     context.CancelFunc
	stopped  chan error
}

// feed starts to write. The last tenth is kept for rest.
func feed(t *testing.T, address, topic string, readings []reading, rate int) *feeder {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &feeder{
		client:   connect(t, address, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(100)),
		readings: readings, rate: rate, stop: cancel, stopped: make(chan error, 1),
	}
	// The first write takes seconds on brokers that have just been started.
	if err := f.write(ctx, min(rate, len(readings)/10)); err != nil {
		t.Fatalf("writing the input: %v", err)
	}
	go func() { f.stopped <- f.run(ctx) }()
	return f
}

const feedEvery = 20 * time.Millisecond

func (f *feeder) run(ctx context.Context) error {
	tick := time.NewTicker(feedEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		n := f.rate * int(feedEvery) / int(time.Second)
		if f.next > len(f.readings)*7/10 {
			n = max(1, n/10) // slowly, so that something is left whatever comes
		}
		if n = min(n, len(f.readings)*9/10-f.next); n <= 0 {
			continue
		}
		// A cut would leave open what was written.
		if err := f.write(context.WithoutCancel(ctx), n); err != nil {
			return err
		}
	}
}

func (f *feeder) write(ctx context.Context, n int) error {
	records := make([]*kgo.Record, n)
	for i := range records {
		data, err := json.Marshal(f.readings[f.next+i])
		if err != nil {
			return err
		}
		records[i] = &kgo.Record{Partition: int32((f.next + i) % partitions), Value: data}
	}
	f.next += n
	return f.client.ProduceSync(ctx, records...).FirstErr()
}

// rest writes what is left, once.
func (f *feeder) rest(t *testing.T) {
	t.Helper()
	f.stop()
	err, ok := <-f.stopped
	if err != nil {
		t.Fatalf("writing the input: %v", err)
	}
	if !ok {
		return
	}
	close(f.stopped)
	if err := f.write(t.Context(), len(f.readings)-f.next); err != nil {
		t.Fatalf("writing the rest of the input: %v", err)
	}
}

// committed reads all committed records of a topic. No transaction may be open
// any more: it would hide what lies behind it.
func committed[T any](t *testing.T, address, topic string) []T {
	t.Helper()
	cl := connect(t, address, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	adm := kadm.NewClient(cl)
	ends, behind := settled(t, adm, topic)
	var out []T
	for behind > 0 {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 == ends[topic][r.Partition].Offset {
				behind--
			}
			if r.Attrs.IsControl() {
				return
			}
			var v T
			if err := json.Unmarshal(r.Value, &v); err != nil {
				t.Fatalf("record %q of %s: %v", r.Value, topic, err)
			}
			out = append(out, v)
		})
	}
	return out
}

// settled waits until what was committed is visible: a broker answers before
// it has written the markers. What then still hides records is open.
func settled(t *testing.T, adm *kadm.Client, topic string) (ends kadm.ListedOffsets, withRecords int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		stable, err := adm.ListCommittedOffsets(t.Context(), topic)
		if err == nil {
			ends, err = adm.ListEndOffsets(t.Context(), topic)
		}
		if err != nil {
			t.Fatal(err)
		}
		withRecords = 0
		hidden := ""
		for p, end := range ends[topic] {
			if s := stable[topic][p].Offset; s < end.Offset {
				hidden += fmt.Sprintf(" partition %d: last stable offset %d, end %d;", p, s, end.Offset)
			}
			if end.Offset > 0 {
				withRecords++
			}
		}
		if hidden == "" {
			return ends, withRecords
		}
		if time.Now().After(deadline) {
			t.Fatalf("a transaction is open in %s:%s", topic, hidden)
		}
		<-time.After(50 * time.Millisecond)
	}
}
