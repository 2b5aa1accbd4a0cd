package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/kafka"
	"github.com/weirstream/weir/runner"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
	"github.com/weirstream/weir/window"
)

const (
	windowSize  = time.Minute
	windowSlide = 10 * time.Second
	// remember is how long a request id is known; repetitions come within it.
	remember = time.Hour
	// sketchError is the relative error of the percentiles.
	sketchError = 0.01

	checkpointInterval = 500 * time.Millisecond
)

// job is the stream job: latency percentiles for each page over the last
// minute, every ten seconds.
type job struct {
	servers               string
	clicks, results, late string
	// errorFile remembers that the error was raised, across restarts.
	errorFile string
}

func (j *job) define(f *flag.FlagSet) {
	f.StringVar(&j.servers, "bootstrap-servers", "localhost:9092", "Kafka brokers, HOST:PORT, separated by commas")
	f.StringVar(&j.clicks, "clicks", "clicks", "topic to read clicks from")
	f.StringVar(&j.results, "results", "latency", "topic for results")
	f.StringVar(&j.late, "late", "late-clicks", "topic for clicks that are late for all their windows")
	f.StringVar(&j.errorFile, "error-file", "", "raise an error at the marked click, once, and remember it in this file; empty for no error")
}

// dedupe lets the first record of each request pass.
type dedupe struct{ seen state.Value[bool] }

func newDedupe(r *state.Registry) *dedupe {
	return &dedupe{seen: state.ValueIn[bool](r, "seen", state.TTL(remember))}
}

func (d *dedupe) Process(ctx *stream.Ctx[string, click], c click) error {
	dup, err := d.seen.Get()
	if err != nil || dup {
		return err
	}
	ctx.Emit(c)
	return d.seen.Set(true)
}

// errMarked is the error that the quickstart provokes.
var errMarked = errors.New("the click is marked to fail once")

// failOnce raises an error at the marked click, the first time it is seen.
func (j *job) failOnce(c click) (click, error) {
	if !c.Marked || j.errorFile == "" {
		return c, nil
	}
	f, err := os.OpenFile(j.errorFile, os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("remembering the error: %w", err)
	}
	return c, errors.Join(errMarked, f.Close())
}

// summary is what is computed of the clicks in a window: their number, and
// the percentiles of their latency.
type summary = agg.Both[int64, []float64]

func latencies() agg.Aggregator[click, []byte, summary] {
	return agg.Pair(agg.Count[click](),
		agg.Quantiles([]float64{0.75, 0.99}, click.LatencyMS, agg.Accuracy(sketchError)))
}

func toResult(page string, w window.Span, s summary) result {
	return result{
		Page: page, Start: w.Start, End: w.End,
		Count: s.First, P75: s.Second[0], P99: s.Second[1],
	}
}

func (j *job) build(s *stream.Job) {
	s.Checkpoints(checkpoint.Options{Interval: checkpointInterval})
	s.Restarts(checkpoint.FixedDelay{Attempts: 3, Delay: 200 * time.Millisecond})
	servers := kafka.Brokers(strings.Split(j.servers, ",")...)

	clicks := stream.From(s, "clicks",
		kafka.Source(j.clicks, codec.JSON[click](), servers),
		watermark.Bounded(disorder, click.EventTime))
	checked := stream.TryMap(clicks, j.failOnce, stream.ID("check"))
	unique := stream.Process(stream.KeyBy(checked, click.RequestID), "dedupe", newDedupe)

	tooLate := stream.NewTag[click]("late")
	latency := stream.Aggregate(stream.KeyBy(unique, click.PageName), "latency",
		window.Sliding(windowSize, windowSlide), latencies(), toResult, stream.LateTo(tooLate))

	stream.To(latency, "results", kafka.Sink(j.results, codec.JSON[result](), servers, kafka.ExactlyOnce(j.results)))
	stream.To(stream.SideOutput(latency, tooLate), "late", kafka.Sink(j.late, codec.JSON[click](), servers, kafka.ExactlyOnce(j.late)))
}

func (j *job) main() { runner.Main("quickstart", j.build, runner.Flags(j.define)) }
