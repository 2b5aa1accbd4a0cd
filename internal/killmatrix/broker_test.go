package killmatrix

import (
	"encoding/json"
	"flag"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

var servers = flag.String("servers", "", "Kafka to use, HOST:PORT, instead of one inside the test")

const partitions = 4

// topics are the names of the topics of one run.
type topics struct{ in, numbered, totals string }

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
	run := "killmatrix-" + time.Now().UTC().Format("20060102-150405.000")
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
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(address))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func produce(t *testing.T, address, topic string, readings []reading) {
	t.Helper()
	cl := connect(t, address, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	records := make([]*kgo.Record, len(readings))
	for i, r := range readings {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		records[i] = &kgo.Record{Partition: int32(i % partitions), Value: data}
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// committed reads all committed records of a topic. No transaction may be open
// any more: it would hide what lies behind it.
func committed[T any](t *testing.T, address, topic string) []T {
	t.Helper()
	cl := connect(t, address, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	adm := kadm.NewClient(cl)
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	stable, err := adm.ListCommittedOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	behind := 0
	for p, end := range ends[topic] {
		if s := stable[topic][p].Offset; s < end.Offset {
			t.Errorf("a transaction is open in %s, partition %d: last stable offset %d, end %d", topic, p, s, end.Offset)
			return nil
		}
		if end.Offset > 0 {
			behind++
		}
	}
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
