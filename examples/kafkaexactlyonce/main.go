// Command kafkaexactlyonce copies a Kafka topic to another, each record once,
// whatever fails in between.
//
//	go run ./examples/kafkaexactlyonce run --bootstrap-servers localhost:9092 --checkpoint-dir /tmp/kafkaexactlyonce
package main

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/kafka"
	"github.com/weirstream/weir/runner"
	"github.com/weirstream/weir/stream"
)

// options are the flags of the job.
type options struct {
	servers       string
	input, output string
	restartDelay  time.Duration
}

func (o *options) define(f *flag.FlagSet) {
	f.StringVar(&o.servers, "bootstrap-servers", "localhost:9092", "Kafka brokers, HOST:PORT, separated by commas")
	f.StringVar(&o.input, "input-topic", "input-topic", "topic to read")
	f.StringVar(&o.output, "output-topic", "output-topic", "topic to write")
	f.DurationVar(&o.restartDelay, "restart-delay", time.Second, "pause before each of the 3 restarts")
}

// process fails on a poison record. The record is read again after each
// restart and fails again, until the attempts are used up.
func process(value string) (string, error) {
	if strings.Contains(value, "error_trigger") {
		return "", fmt.Errorf("poison record %q", value)
	}
	return "Processed: " + value, nil
}

func (o *options) build(job *stream.Job) {
	job.Parallelism(1)
	job.Checkpoints(checkpoint.Options{
		Interval:      time.Second,
		Mode:          checkpoint.ExactlyOnce,
		Timeout:       time.Minute,
		MaxConcurrent: 1,
		MinPause:      500 * time.Millisecond,
	})
	job.Restarts(checkpoint.FixedDelay{Attempts: 3, Delay: o.restartDelay})

	servers := kafka.Brokers(strings.Split(o.servers, ",")...)
	in := stream.From(job, "input", kafka.Source(o.input, codec.String(), servers, kafka.StartAt(kafka.Earliest())))
	out := stream.TryMap(in, process, stream.ID("process"))
	stream.To(out, "output", kafka.Sink(o.output, codec.String(), servers, kafka.ExactlyOnce("kafkaexactlyonce")))
}

func main() {
	var o options
	runner.Main("kafkaexactlyonce", o.build, runner.Flags(o.define))
}
