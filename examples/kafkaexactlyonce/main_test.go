package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
)

func TestPoisonRecord(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	testPoison(t, fake.ListenAddrs()[0])
}

func TestRealPoisonRecord(t *testing.T) {
	servers := os.Getenv("WEIR_KAFKA")
	if servers == "" {
		t.Skip("WEIR_KAFKA is not set: no real broker")
	}
	testPoison(t, servers)
}

// testPoison checks that all that a completed checkpoint covers is in the
// output once, and nothing later.
func testPoison(t *testing.T, servers string) {
	name := fmt.Sprintf("poison-%d", time.Now().UnixNano())
	o := options{servers: servers, input: name + "-in", output: name + "-out", restartDelay: time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := open(t, servers)
	if _, err := kadm.NewClient(client).CreateTopics(ctx, 1, 1, nil, o.input, o.output); err != nil {
		t.Fatal(err)
	}

	var failures int
	job := jobtest.Job(t, embedded.Options{
		Checkpoint: checkpoint.Options{Interval: time.Second, MinPause: 500 * time.Millisecond, Dir: t.TempDir()},
		OnEvent: func(e embedded.Event) {
			if e.Kind == embedded.Failed {
				failures++
			}
		},
	}, o.build)
	ended := make(chan error, 1)
	go func() { ended <- job.Run(ctx) }()

	var want []string
	for i := range 10 {
		produce(ctx, t, client, o.input, fmt.Sprintf("record %d", i))
		want = append(want, fmt.Sprintf("Processed: record %d", i))
	}
	// What can be read is committed, and so covered by a completed checkpoint.
	if got := read(ctx, t, servers, o.output, len(want)); !slices.Equal(got, want) {
		t.Fatalf("before the poison: got %q", got)
	}
	produce(ctx, t, client, o.input, "the error_trigger")
	produce(ctx, t, client, o.input, "after the poison")

	err := <-ended
	if err == nil || !strings.Contains(err.Error(), "poison record") || !strings.Contains(err.Error(), `"process"`) {
		t.Fatalf("the job ended with %v; want the error of operator process", err)
	}
	if failures != 4 {
		t.Errorf("%d failures, want the first and 3 more attempts", failures)
	}
	produce(ctx, t, client, o.output, "end") // behind everything that is there
	if got := read(ctx, t, servers, o.output, len(want)+1); !slices.Equal(got, append(want, "end")) {
		t.Errorf("after the failure: got %q", got)
	}
}

func open(t *testing.T, servers string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(servers))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func produce(ctx context.Context, t *testing.T, c *kgo.Client, topic, value string) {
	t.Helper()
	if err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// read returns the first n committed records of a topic.
func read(ctx context.Context, t *testing.T, servers, topic string, n int) []string {
	t.Helper()
	c := open(t, servers, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []string
	for len(got) < n {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	return got
}
