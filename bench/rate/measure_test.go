package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/stream"
)

const loaded = "anchor-in-100-5"

// loadedBroker is a broker with 100 records loaded.
func loadedBroker(t *testing.T) (f flags, adm *kadm.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	f = validFlags("kafka-load")
	f.records, f.keys, f.kafka.servers, f.backend = 100, 5, c.ListenAddrs()[0], "heap"
	if err := load(t.Context(), f.kafka.servers, loaded, f.records, f.keys); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.kafka.servers))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return f, kadm.NewClient(cl)
}

// empty deletes the first n records of each partition.
func empty(t *testing.T, adm *kadm.Client, n int64) {
	t.Helper()
	var offsets kadm.Offsets
	for p := range int32(partitions) {
		offsets.Add(kadm.Offset{Topic: loaded, Partition: p, At: n, LeaderEpoch: -1})
	}
	answers, err := adm.DeleteRecords(t.Context(), offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeletedRecordsAreNotLoaded(t *testing.T) {
	f, adm := loadedBroker(t)
	if err := checkLoad(t.Context(), f.kafka.servers, loaded, 100); err != nil {
		t.Fatal(err)
	}
	empty(t, adm, 10)
	if err := checkLoad(t.Context(), f.kafka.servers, loaded, 100); err == nil || !strings.Contains(err.Error(), "holds 60 records, not 100") {
		t.Errorf("after 40 were deleted: %v", err)
	}
	if err := load(t.Context(), f.kafka.servers, loaded, 100, 5); err == nil || !strings.Contains(err.Error(), "holds 60 records, not 100: delete it first") {
		t.Errorf("loading what lacks 40: %v", err)
	}
	empty(t, adm, 25)
	if err := load(t.Context(), f.kafka.servers, loaded, 100, 5); err != nil {
		t.Fatal(err)
	}
	if err := checkLoad(t.Context(), f.kafka.servers, loaded, 100); err != nil {
		t.Errorf("loaded again: %v", err)
	}
}

func TestTopicsKeepWhatTheyHold(t *testing.T) {
	_, adm := loadedBroker(t)
	configs, err := adm.DescribeTopicConfigs(t.Context(), loaded)
	if err != nil {
		t.Fatal(err)
	}
	config, err := configs.On(loaded, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range config.Configs {
		got[c.Key] = c.MaybeValue()
	}
	if got["retention.ms"] != "-1" || got["retention.bytes"] != "-1" {
		t.Errorf("retention %s ms and %s bytes", got["retention.ms"], got["retention.bytes"])
	}
}

// A rate is of records that were read, whatever was asked for.
func TestFiguresAreOfWhatWasRead(t *testing.T) {
	f, _ := loadedBroker(t)
	f.job = "kafka-read"
	for n, want := range map[int64]string{100: "", 101: "read 100 records, not 101"} {
		f.records = n
		k := newKafkaJob(f, loaded, "")
		r, err := k.throughput(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d records: %v, want %q", n, err, want)
		}
		if err == nil && (r.Records != 100 || r.RecordsPerSecond <= 0) {
			t.Errorf("%+v", r)
		}
	}
}

func TestOthersCheckpointsAreNotGoneOnFrom(t *testing.T) {
	f := validFlags("chain")
	f.records, f.parallelism, f.backend, f.interval, f.dir = 3000, 2, "heap", time.Minute, t.TempDir()
	w := &workload{job: f.job, n: f.records, keys: 10, parallelism: f.parallelism}
	try := func() error {
		j := stream.NewJob("rate-chain")
		if err := w.build(j); err != nil {
			t.Fatal(err)
		}
		_, _, err := measure(t.Context(), f, j, 3000)
		return err
	}
	if err := try(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(f.dir, "rate-chain")
	if err := try(); err == nil || !strings.Contains(err.Error(), left+" holds checkpoints of an earlier run") {
		t.Errorf("a second time: %v", err)
	}
	if err := os.RemoveAll(left); err != nil {
		t.Fatal(err)
	}
	if err := try(); err != nil {
		t.Errorf("after removing it: %v", err)
	}
}
