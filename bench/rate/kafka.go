package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/kafka"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
	"github.com/weirstream/weir/window"
)

// Visit is a record of the Kafka workload; Row is what the jobs write.
type (
	Visit struct {
		Key string `json:"key"`
		TS  int64  `json:"ts"`
		Val int64  `json:"val"`
	}
	Row struct {
		Key string `json:"key"`
		End int64  `json:"end"`
		Sum int64  `json:"sum"`
	}
)

func visitTime(v Visit, _ int64) int64 { return v.TS }
func visitKey(v Visit) string          { return v.Key }
func rowKey(r Row) string              { return r.Key }

const (
	partitions = 4
	disorder   = 2 * time.Second
)

// kafkaFlags are the flags of Kafka jobs.
type kafkaFlags struct {
	servers  string
	rate     int64
	delivery string
	window   time.Duration
}

func (k *kafkaFlags) declare() {
	flag.StringVar(&k.servers, "bootstrap-servers", "localhost:9092", "Kafka jobs: a broker")
	flag.Int64Var(&k.rate, "rate", 0, "kafka-copy and kafka-window: measure latency, at so many records a second")
	flag.StringVar(&k.delivery, "delivery", "exactly-once", "kafka-copy and kafka-window: exactly-once or at-least-once")
	flag.DurationVar(&k.window, "window", 10*time.Second, "kafka-window: length of windows")
}

// kafkaJob is a job from one topic to another.
type kafkaJob struct {
	flags
	in, out string
	stamped bool // the values are times, and are copied as they are
	source  []kafka.SourceOption
	sink    []kafka.SinkOption
}

// defaultInterval is the time between checkpoints of Kafka jobs. Where latency
// is measured it does not divide usual windows: they would all end at the same
// distance from a checkpoint.
func defaultInterval(rate int64) time.Duration {
	if rate > 0 {
		return 970 * time.Millisecond
	}
	return time.Second
}

func runKafka(ctx context.Context, f flags) (err error) {
	if f.job != "kafka-load" && f.interval == 0 {
		f.interval = defaultInterval(f.kafka.rate)
	}
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	k := newKafkaJob(f, fmt.Sprintf("anchor-in-%d-%d", f.records, f.keys), "weir-out-"+now)
	if f.job == "kafka-load" {
		return load(ctx, f.kafka.servers, k.in, f.records, f.keys)
	}
	var made []string
	if f.kafka.rate > 0 {
		k.in = "weir-live-" + now
		made = append(made, k.in)
	} else if err := checkLoad(ctx, f.kafka.servers, k.in, f.records); err != nil {
		return err
	}
	if writes(f.job) {
		made = append(made, k.out)
	}
	defer func() { err = errors.Join(err, deleteTopics(ctx, f.kafka.servers, made)) }()
	for _, topic := range made {
		if err := createTopic(ctx, f.kafka.servers, topic); err != nil {
			return err
		}
	}
	if f.kafka.rate > 0 {
		return k.latency(ctx)
	}
	r, err := k.throughput(ctx)
	if err != nil {
		return err
	}
	return show(r, k.json)
}

func newKafkaJob(f flags, in, out string) *kafkaJob {
	brokers, hooks := kafka.Brokers(f.kafka.servers), kafka.Client(kgo.WithHooks(f.trouble))
	k := &kafkaJob{flags: f, in: in, out: out, source: []kafka.SourceOption{brokers, hooks}, sink: []kafka.SinkOption{brokers, hooks}}
	if f.kafka.delivery == "exactly-once" {
		k.sink = append(k.sink, kafka.ExactlyOnce(k.out), kafka.TransactionTimeout(10*time.Minute))
	}
	return k
}

// throughput runs the job to the end of what is loaded.
func (k *kafkaJob) throughput(ctx context.Context) (result, error) {
	k.source = append(k.source, kafka.Until(kafka.Latest()))
	j := stream.NewJob("rate-" + k.job)
	if err := k.build(j); err != nil {
		return result{}, err
	}
	r, _, err := measure(ctx, k.flags, j, k.records)
	return r, err
}

// build makes the graph of the job.
func (k *kafkaJob) build(j *stream.Job) error {
	j.Parallelism(k.parallelism)
	var wm []watermark.Strategy[Visit]
	if k.job == "kafka-window" {
		wm = append(wm, watermark.Bounded[Visit](disorder, nil).WithTimestamps(visitTime))
	}
	s := stream.From(j, "in", kafka.Source(k.in, codec.JSON[Visit](), k.source...), wm...)
	switch k.job {
	case "kafka-read":
		discard(s)
	case "kafka-copy":
		row := func(v Visit) Row { return Row{v.Key, v.TS, v.Val*31 + 7} }
		if k.stamped {
			row = func(v Visit) Row { return Row{v.Key, v.TS, v.Val} }
		}
		k.write(stream.Map(s, row))
	case "kafka-window":
		sum := agg.Sum(func(v Visit) int64 { return v.Val })
		k.write(stream.Aggregate(stream.KeyBy(s, visitKey), "sum", window.Tumbling(k.kafka.window), sum,
			func(key string, w window.Span, v int64) Row { return Row{key, w.End, v} }))
	default:
		return fmt.Errorf("no job %q", k.job)
	}
	return nil
}

func (k *kafkaJob) write(s stream.Stream[Row]) {
	stream.To(s, "out", kafka.KeyedSink(k.out, kafka.StringKey(rowKey), codec.JSON[Row](), k.sink...))
}

func createTopic(ctx context.Context, servers, topic string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(servers))
	if err != nil {
		return err
	}
	defer cl.Close()
	unlimited := kadm.StringPtr("-1") // what is loaded stays until somebody deletes it
	keep := map[string]*string{"retention.ms": unlimited, "retention.bytes": unlimited}
	_, err = kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, keep, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}

// deleteTopics deletes what a run made, also of one that was interrupted.
func deleteTopics(ctx context.Context, servers string, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(servers))
	if err != nil {
		return err
	}
	defer cl.Close()
	answers, err := kadm.NewClient(cl).DeleteTopics(ctx, topics...)
	if err != nil {
		return fmt.Errorf("delete %v: %w", topics, err)
	}
	for _, a := range answers {
		if a.Err != nil && !errors.Is(a.Err, kerr.UnknownTopicOrPartition) {
			err = errors.Join(err, fmt.Errorf("delete topic %s: %w", a.Topic, a.Err))
		}
	}
	return err
}

// checkLoad fails unless a topic holds n records.
func checkLoad(ctx context.Context, servers, topic string, n int64) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(servers))
	if err != nil {
		return err
	}
	defer cl.Close()
	there, err := recordsIn(ctx, cl, topic)
	return loadError(topic, n, there, err)
}

// loadError says what to do about a topic that should hold n records.
func loadError(topic string, n, there int64, err error) error {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("no topic %s: run -job kafka-load with the same -records and -keys", topic)
	case err != nil:
		return fmt.Errorf("look into %s: %w", topic, err)
	case there != n:
		return fmt.Errorf("%s holds %d records, not %d: run -job kafka-load with the same -records and -keys", topic, there, n)
	}
	return nil
}

// load fills the topic that the jobs read: the same records, in the same
// partitions, as flink/run.sh kafka-load.
func load(ctx context.Context, servers, topic string, n, keys int64) error {
	if err := createTopic(ctx, servers, topic); err != nil {
		return err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(servers), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(20*time.Millisecond), kgo.ProducerBatchMaxBytes(256<<10), kgo.MaxBufferedRecords(200_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	switch there, err := recordsIn(ctx, cl, topic); {
	case err != nil:
		return err
	case there == n:
		fmt.Printf("%s is loaded\n", topic)
		return nil
	case there > 0:
		return fmt.Errorf("%s holds %d records, not %d: delete it first", topic, there, n)
	}
	promise, failed := firstFailure()
	for i := int64(0); i < n && ctx.Err() == nil; i++ {
		key := userKey(i, keys)
		cl.Produce(ctx, &kgo.Record{
			Topic: topic, Partition: int32(i % partitions), Key: []byte(key),
			Value: visitJSON(key, 1_700_000_000_000+i/100, i&1023, i),
		}, promise)
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return fmt.Errorf("load %s: %w", topic, err)
	default:
	}
	fmt.Printf("loaded %d into %s\n", n, topic)
	return nil
}

// firstFailure returns a promise, and a channel that gets the first error that
// the promise is told.
func firstFailure() (promise func(*kgo.Record, error), failed <-chan error) {
	first := make(chan error, 1)
	return func(_ *kgo.Record, err error) {
		if err != nil {
			select {
			case first <- err:
			default:
			}
		}
	}, first
}

// recordsIn returns how many records a topic holds: not those that were deleted.
func recordsIn(ctx context.Context, cl *kgo.Client, topic string) (int64, error) {
	adm := kadm.NewClient(cl)
	ends, err := sumOffsets(adm.ListEndOffsets(ctx, topic))
	if err != nil {
		return 0, err
	}
	starts, err := sumOffsets(adm.ListStartOffsets(ctx, topic))
	return ends - starts, err
}

func sumOffsets(listed kadm.ListedOffsets, err error) (sum int64, _ error) {
	if err == nil {
		err = listed.Error()
	}
	listed.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum, err
}

// userKey is the key of the i-th record.
func userKey(i, keys int64) string {
	return "user-" + strconv.FormatUint(mix64(uint64(i))%uint64(keys), 10)
}

// visitJSON is a record of about 85 bytes.
func visitJSON(key string, ts, val, i int64) []byte {
	b := make([]byte, 0, 96)
	b = append(b, `{"key":"`...)
	b = append(b, key...)
	b = append(b, `","ts":`...)
	b = strconv.AppendInt(b, ts, 10)
	b = append(b, `,"val":`...)
	b = strconv.AppendInt(b, val, 10)
	b = append(b, `,"url":"/a/quite/ordinary/page/`...)
	b = strconv.AppendInt(b, i%977, 10)
	return append(b, `"}`...)
}
