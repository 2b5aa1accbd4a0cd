package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
	"github.com/weirstream/weir/window"
)

// failing runs a whole job that must fail and returns its error.
func failing(t *testing.T, build func(*stream.Job)) error {
	t.Helper()
	job := jobtest.Job(t, embedded.Options{Restart: checkpoint.None{}}, build)
	ctx := deadline(t)
	err := job.Run(ctx)
	if err == nil || ctx.Err() != nil {
		t.Fatalf("the job ended with %v, want its failure", err)
	}
	t.Log(err)
	return err
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("the error lacks %q: %v", p, err)
		}
	}
}

func discarded(j *stream.Job, src *TopicSource[string]) {
	stream.To(stream.From(j, "clicks", src), "out", connector.Discard[string]())
}

func TestBadUnreachableBroker(t *testing.T) {
	err := failing(t, func(j *stream.Job) {
		discarded(j, Source("clicks", text{}, Brokers("127.0.0.1:1"), StartTimeout(300*time.Millisecond)))
	})
	wantError(t, err, `"clicks"`, "127.0.0.1:1", "300ms")
	err = failing(t, func(j *stream.Job) {
		s := stream.FromSlice(j, "in", []string{"a"})
		stream.To(s, "rows", Sink("rows", text{}, Brokers("127.0.0.1:1"), StartTimeout(300*time.Millisecond)))
	})
	wantError(t, err, `"rows"`, "127.0.0.1:1")
}

func TestBadMissingTopic(t *testing.T) {
	c := newCluster(t)
	err := failing(t, func(j *stream.Job) {
		discarded(j, Source("nowhere", text{}, c.brokers(), StartTimeout(300*time.Millisecond)))
	})
	wantError(t, err, `"clicks"`, "no topic nowhere", c.servers[0])
	err = failing(t, func(j *stream.Job) {
		s := stream.FromSlice(j, "in", []string{"a"})
		stream.To(s, "rows", Sink("nowhere", text{}, c.brokers(), StartTimeout(300*time.Millisecond)))
	})
	wantError(t, err, `"rows"`, "no topic nowhere")
	if strings.Contains(err.Error(), "did not answer") {
		t.Errorf("the broker did answer: %v", err)
	}
}

// bill is a record with a time, which JSON must hold as a number.
type bill struct {
	Who  string
	When int64
}

// F14 through whole jobs: one fails, names the record and leaves others alone.
func TestBadUndecodableRecord(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, `{"Who":"a","When":1}`, `{"Who":"b","When":2}`, `{"Who":"c","When":{"year":3}}`, `{"Who":"d","When":4}`)
	values := codec.JSON[bill]()
	when := watermark.Bounded(0, func(b bill) time.Time { return time.UnixMilli(b.When) })
	end := Until(Latest())

	// count runs a job that counts per window.
	count := func(src *TopicSource[bill]) ([]int64, *embedded.Job) {
		out := collect.New[int64]()
		job := jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
			k := stream.KeyBy(stream.From(j, "bills", src, when), func(bill) string { return "all" })
			stream.To(stream.Aggregate(k, "count", window.Tumbling(10*time.Millisecond), agg.Count[bill](),
				func(_ string, _ window.Span, n int64) int64 { return n }), "out", out)
		})
		return out.Values(), job
	}

	t.Run("fail", func(t *testing.T) {
		hold, out := jobtest.NewGate(), collect.New[string]()
		other := jobtest.Job(t, embedded.Options{}, func(j *stream.Job) {
			stream.To(jobtest.Script(j, "in", jobtest.Hold[string](hold), jobtest.R("still here", 1)), "out", out)
		})
		done := make(chan error, 1)
		go func() { done <- other.Run(t.Context()) }()
		<-hold.Reached()
		err := failing(t, func(j *stream.Job) {
			stream.To(stream.From(j, "bills", Source(topic, values, end, c.brokers()), when), "out", connector.Discard[bill]())
		})
		var bad *UndecodableError
		if !errors.As(err, &bad) || bad.Topic != topic || bad.Partition != 0 || bad.Offset != 2 {
			t.Errorf("got %v, want the record at offset 2 of partition 0", err)
		}
		wantError(t, err, `"bills"`, topic+"[0] at offset 2", "kafka.SkipUndecodable")
		hold.Open()
		if err := <-done; err != nil {
			t.Error(err)
		}
		wantValues(t, out.Values(), "still here")
	})
	t.Run("skip", func(t *testing.T) {
		got, _ := count(Source(topic, values, end, SkipUndecodable(), c.brokers()))
		if len(got) != 1 || got[0] != 3 {
			t.Errorf("counts %v, want 3 in one window", got)
		}
	})
	t.Run("side output", func(t *testing.T) {
		dead := collect.New[string]()
		var good = collect.New[string]()
		jobtest.Run(t, embedded.Options{}, func(j *stream.Job) {
			s := stream.From(j, "bills", SourceFunc(topic, WithUndecodable(values), end, c.brokers()))
			stream.To(stream.FlatMap(s, func(d Decoded[bill], emit func(string)) {
				if d.Err != "" {
					emit(string(d.Record.Value))
				}
			}), "dead", dead)
			stream.To(stream.FlatMap(s, func(d Decoded[bill], emit func(string)) {
				if d.Err == "" {
					emit(d.Value.Who)
				}
			}), "good", good)
		})
		wantValues(t, dead.Values(), `{"Who":"c","When":{"year":3}}`)
		wantValues(t, good.Values(), "a", "b", "d")
	})
}

// The count of what was skipped is seen while the job runs.
func TestBadUndecodableRecordsAreCounted(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a", "bad", "b")
	out := collect.New[string]()
	job := jobtest.Job(t, embedded.Options{}, func(j *stream.Job) {
		stream.To(stream.From(j, "in", Source(topic, text{}, SkipUndecodable(), c.brokers())), "out", out)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- job.Run(ctx) }()
	if err := out.Wait(deadline(t), 2); err != nil {
		t.Error(err)
	}
	for _, o := range job.Status().Operators {
		if o.ID == "in" && o.Counters["recordsUndecodable"] != 1 {
			t.Errorf("counters %v, want 1 undecodable record", o.Counters)
		}
	}
	cancel()
	<-done
}
