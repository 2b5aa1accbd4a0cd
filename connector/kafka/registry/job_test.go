package registry

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/kafka"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// payment is what the job reads: the topic has two versions of it.
type payment struct {
	Order    string `avro:"order,alias=id"`
	Amount   int64  `avro:"amount"`
	Currency string `avro:"currency,default=EUR"`
}

const (
	firstPayment  = `{"type":"record","name":"com.example.Payment","fields":[{"name":"id","type":"string"},{"name":"amount","type":"int"}]}`
	secondPayment = `{"type":"record","name":"com.example.Payment","fields":[
		{"name":"order","type":"string","aliases":["id"]},{"name":"amount","type":"long"},
		{"name":"currency","type":"string","default":"EUR"},{"name":"note","type":["null","string"],"default":null}]}`
)

// broker is a cluster with a topic to read and one to write.
type broker struct {
	*testing.T
	servers []string
	client  *kgo.Client
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "in", "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &broker{t, fake.ListenAddrs(), client}
}

func (b *broker) put(value []byte) {
	b.Helper()
	if err := b.client.ProduceSync(b.Context(), &kgo.Record{Topic: "in", Value: value}).FirstErr(); err != nil {
		b.Fatal(err)
	}
}

// fill writes half of the payments by either schema, and returns them as the job
// is to read them.
func (b *broker) fill(n int) (want []payment) {
	b.Helper()
	for i := range n {
		p := payment{fmt.Sprintf("%03d", i), int64(i), "EUR"}
		if i < n/2 {
			b.put(record(b.T, 1, firstPayment, map[string]any{"id": p.Order, "amount": int32(i)}))
		} else {
			p.Currency = "CHF"
			b.put(record(b.T, 2, secondPayment, map[string]any{"order": p.Order, "amount": p.Amount, "currency": "CHF", "note": "x"}))
		}
		want = append(want, p)
	}
	return want
}

// written returns n payments of the other topic, all of the schema with this id.
func (b *broker) written(ctx context.Context, n int, schema *avro.Schema, id int) (got []payment) {
	b.Helper()
	for len(got) < n && ctx.Err() == nil {
		b.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			prefix := []byte{0, 0, 0, 0, byte(id)}
			var p payment
			if !slices.Equal(r.Value[:headerSize], prefix) {
				b.Errorf("%x does not begin with %x", r.Value, prefix)
			} else if _, err := schema.Decode(r.Value[headerSize:], &p); err != nil {
				b.Error(err)
			}
			got = append(got, p)
		})
	}
	slices.SortFunc(got, func(a, b payment) int { return strings.Compare(a.Order, b.Order) })
	return got
}

// copyJob runs a job that copies payments exactly once.
func (b *broker) copyJob(ctx context.Context, r *Registry, restart checkpoint.Restart, opts ...kafka.SourceOption) error {
	b.Helper()
	values := newAvro[payment](b.T, r, Subject("out-value"))
	to := kafka.Brokers(b.servers...)
	job := jobtest.Job(b.T, embedded.Options{
		Parallelism: 2,
		Checkpoint:  checkpoint.Options{Dir: "memory:", Interval: 10 * time.Millisecond},
		Restart:     restart,
	}, func(j *stream.Job) {
		in := stream.From(j, "in", kafka.Source("in", values, append(opts, to, kafka.Until(kafka.Latest()))...))
		stream.To(in, "out", kafka.Sink("out", values, to, kafka.ExactlyOnce("copy")))
	})
	return job.Run(ctx)
}

func seeded(t *testing.T) *server {
	s := newServer(t)
	s.SeedSchema("in-value", 1, 1, sr.Schema{Schema: firstPayment})
	s.SeedSchema("in-value", 2, 2, sr.Schema{Schema: secondPayment})
	return s
}

func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// The schema changes in the middle of the topic, and the registry is away when
// the job begins and again when it first writes: it goes on when the registry
// does, and skips nothing but what is no record of the registry.
func TestJobFromAvroToAvro(t *testing.T) {
	const n = 200
	b, s, ctx := newBroker(t), seeded(t), limit(t)
	b.put([]byte(`{"order":"json"}`))
	want := b.fill(n)
	var reads, writes atomic.Int64
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		asked := &reads
		if r.Method == http.MethodPost {
			asked = &writes
		}
		if asked.Add(1) <= 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	restart := checkpoint.FixedDelay{Attempts: 100, Delay: time.Millisecond}
	if err := b.copyJob(ctx, s.client(), restart, kafka.SkipUndecodable()); err != nil {
		t.Fatal(err)
	}
	kept, ok := s.GetSchema("out-value", 1)
	if !ok || s.SubjectExists("in-value") == false {
		t.Fatal("the schema was not registered")
	}
	got := b.written(ctx, n, avro.MustParse(kept.Schema.Schema), kept.ID)
	if !slices.Equal(got, want) {
		t.Errorf("%d payments, want %d, each once: %v", len(got), n, got)
	}
	if reads.Load() <= 3 || writes.Load() != 4 {
		t.Errorf("asked %d times for schemas, %d times to register", reads.Load(), writes.Load())
	}
}

func TestJobFailsAtUnknownID(t *testing.T) {
	b, s := newBroker(t), seeded(t)
	b.put(record(t, 9, firstPayment, map[string]any{"id": "a", "amount": int32(1)}))
	err := b.copyJob(limit(t), s.client(), checkpoint.None{})
	wantError(t, err, "cannot decode record in[", "at offset 0", "get schema 9", "kafka.SkipUndecodable")
}

// Where the registry refuses the login no restart helps.
func TestJobEndsAtRefusedLogin(t *testing.T) {
	b, s := newBroker(t), seeded(t)
	b.fill(1)
	s.answer(http.StatusUnauthorized)
	restart := checkpoint.FixedDelay{Attempts: 1 << 30, Delay: time.Millisecond}
	err := b.copyJob(limit(t), s.client(), restart, kafka.SkipUndecodable())
	wantError(t, err, "kafka source: decode in[", "401 Unauthorized", "check sr.BasicAuth")
}
