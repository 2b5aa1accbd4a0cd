package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/connector/hybrid"
	"github.com/weirstream/weir/connector/kafka"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// A job reads an archive and goes on with the topic behind what the archive has
// of it, through failures before, at and after the switch: each record once.
func TestArchiveThenTopic(t *testing.T) {
	const archived, sent = 3000, 5000
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "events"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.DefaultProduceTopic("events"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	// All events are in the topic, the first ones in files, too.
	fsys, want := fstest.MapFS{}, []string(nil)
	var records []*kgo.Record
	for i := range sent {
		event := fmt.Sprintf("%05d", i)
		want, records = append(want, event), append(records, kgo.StringRecord(event))
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		part := want[i*archived/5 : (i+1)*archived/5]
		fsys[fmt.Sprint("archive/", i)] = &fstest.MapFile{Data: []byte(strings.Join(part, "\n")), ModTime: time.Unix(1, 0)}
	}

	broker := kafka.Client(kgo.SeedBrokers(fake.ListenAddrs()...))
	chain := hybrid.ThenAt(hybrid.New(file.Source("archive", file.Lines(), file.In(file.FS(fsys)))),
		hybrid.Switch[string, kafka.Split, kafka.Enumeration]{
			Position: func(context.Context, []byte) ([]byte, error) { return []byte(fmt.Sprint(archived)), nil }, // as a manifest would say
			Source: func(position []byte) (connector.Source[string, kafka.Split, kafka.Enumeration], error) {
				var offset int64
				_, err := fmt.Sscan(string(position), &offset)
				from := kafka.Specific(map[string]map[int32]int64{"events": {0: offset}})
				return kafka.Source("events", codec.String(), broker, kafka.StartAt(from)), err
			},
			Endless: true,
		})

	const failures = 6
	var seen, failed atomic.Int64
	out := collect.NewExactlyOnce[string]()
	job := jobtest.Job(t, embedded.Options{
		Parallelism: 2,
		Checkpoint:  checkpoint.Options{Dir: "memory:", Interval: time.Millisecond},
		Restart:     checkpoint.FixedDelay{Attempts: failures, Delay: time.Microsecond},
	}, func(j *stream.Job) {
		stream.To(stream.TryMap(stream.From(j, "events", chain), func(event string) (string, error) {
			if seen.Add(1)%997 == 0 && failed.Add(1) <= failures {
				return "", errors.New("now and then")
			}
			return event, nil
		}), "out", out)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- job.Run(ctx) }()
	if err := out.Wait(ctx, sent); err != nil {
		t.Fatalf("%d events of %d: %v", out.Len(), sent, err)
	}
	cancel()
	<-done
	got := out.Values()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d events, want %d, each once", len(got), len(want))
	}
	if n := failed.Load(); n < failures {
		t.Errorf("%d failures, want %d", n, failures)
	}
}
