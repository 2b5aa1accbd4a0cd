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

func runKafka(f flags) error {
	ctx := context.Background()
	if f.job != "kafka-load" && f.interval == 0 {
		f.interval = time.Second
	}
	if f.dist != "uniform" {
		return errors.New("the keys of Kafka jobs are uniform")
	}
	in := fmt.Sprintf("anchor-in-%d-%d", f.records, f.keys)
	if f.job == "kafka-load" {
		return load(ctx, f.kafka.servers, in, f.records, f.keys)
	}
	k := &kafkaJob{flags: f, in: in, out: "weir-out-" + strconv.FormatInt(time.Now().UnixMilli(), 10)}
	brokers := kafka.Brokers(f.kafka.servers)
	k.source, k.sink = []kafka.SourceOption{brokers}, []kafka.SinkOption{brokers}
	switch f.kafka.delivery {
	case "exactly-once":
		k.sink = append(k.sink, kafka.ExactlyOnce(k.out), kafka.TransactionTimeout(10*time.Minute))
	case "at-least-once":
	default:
		return fmt.Errorf("delivery %q", f.kafka.delivery)
	}
	if err := createTopic(ctx, f.kafka.servers, k.out); err != nil {
		return err
	}
	if f.kafka.rate > 0 {
		return k.latency(ctx)
	}
	k.source = append(k.source, kafka.Until(kafka.Latest()))
	j := stream.NewJob("rate-" + f.job)
	if err := k.build(j); err != nil {
		return err
	}
	r, _, err := measure(ctx, f, j)
	if err != nil {
		return err
	}
	return show(r, f.json)
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
	_, err = kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, nil, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", topic, err)
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
	failed := make(chan error, 1)
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			select {
			case failed <- err:
			default:
			}
		}
	}
	for i := range n {
		key := "user-" + strconv.FormatUint(mix64(uint64(i))%uint64(keys), 10)
		cl.Produce(ctx, &kgo.Record{
			Topic: topic, Partition: int32(i & 3), Key: []byte(key),
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

// recordsIn returns how many records were ever written to a topic.
func recordsIn(ctx context.Context, cl *kgo.Client, topic string) (n int64, err error) {
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n, err
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
