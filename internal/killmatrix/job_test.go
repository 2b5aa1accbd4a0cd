package killmatrix

import (
	"flag"
	"math"
	"os"
	"sync/atomic"
	"testing"
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
	windowSize = 5 * time.Second
	disorder   = 2 * time.Second
)

// reading is an input record.
type reading struct {
	Index int64 `json:"i"`
	Key   int64 `json:"k"`
	Value int64 `json:"v"`
	At    int64 `json:"at"`
}

func (r reading) time() time.Time { return time.UnixMilli(r.At) }
func (r reading) key() int64      { return r.Key }
func (r reading) value() int64    { return r.Value }

// numbered is a reading with its number among those of its key, from 1: each
// number must come once, whatever order the partitions are read in.
type numbered struct {
	Reading reading `json:"reading"`
	Number  int64   `json:"n"`
}

// total is the sum of a key's values in a window.
type total struct {
	Key   int64 `json:"k"`
	Start int64 `json:"start"`
	Sum   int64 `json:"sum"`
}

type counter struct{ n state.Value[int64] }

func newCounter(r *state.Registry) *counter {
	return &counter{state.ValueIn[int64](r, "n")}
}

func (c *counter) Process(ctx *stream.Ctx[int64, numbered], r reading) error {
	n, err := c.n.Get()
	if err != nil {
		return err
	}
	ctx.Emit(numbered{r, n + 1})
	return c.n.Set(n + 1)
}

// job is the job that is killed.
type job struct {
	servers, in, numbered, totals string
	// rate bounds the records per second, so that there is input left for all
	// kills; 0 is no bound.
	rate float64
	read atomic.Int64
}

func (j *job) define(f *flag.FlagSet) {
	f.StringVar(&j.servers, "servers", "", "Kafka broker")
	f.StringVar(&j.in, "in", "", "topic to read")
	f.StringVar(&j.numbered, "numbered", "", "topic for numbered records")
	f.StringVar(&j.totals, "totals", "", "topic for totals")
	f.Float64Var(&j.rate, "rate", 0, "records per second")
}

// throttle sleeps now and then, for about a millisecond. Map functions are
// shared by all subtasks.
func (j *job) throttle(began time.Time) func(reading) reading {
	return func(r reading) reading {
		n := j.read.Add(1)
		if due := time.Duration(float64(n) / j.rate * float64(time.Second)); due > time.Since(began) {
			time.Sleep(time.Millisecond) //nolint:forbidigo // load, not synchronisation
		}
		return r
	}
}

func (j *job) build(s *stream.Job) {
	s.Checkpoints(checkpoint.Options{Interval: 100 * time.Millisecond})
	servers := kafka.Brokers(j.servers)
	in := stream.From(s, "in",
		kafka.Source(j.in, codec.JSON[reading](), servers, kafka.Until(kafka.Latest())),
		watermark.Bounded(disorder, reading.time))
	if j.rate > 0 {
		in = stream.Map(in, j.throttle(time.Now()), stream.ID("throttle"))
	} else {
		in = stream.Map(in, func(r reading) reading { return r }, stream.ID("throttle"))
	}
	keyed := stream.KeyBy(in, reading.key)
	stream.To(stream.Process(keyed, "count", newCounter), "numbered",
		kafka.Sink(j.numbered, codec.JSON[numbered](), servers, kafka.ExactlyOnce(j.numbered)))
	totals := stream.Aggregate(keyed, "total", window.Tumbling(windowSize), agg.Sum(reading.value),
		func(key int64, w window.Span, sum int64) total { return total{key, w.Start, sum} })
	stream.To(totals, "totals",
		kafka.Sink(j.totals, codec.JSON[total](), servers, kafka.ExactlyOnce(j.totals)))
}

// TestMain lets the test binary be the job, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "job" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		j := new(job)
		runner.Main("killmatrix", j.build, runner.Flags(j.define))
		return
	}
	os.Exit(m.Run())
}

// newReadings makes n readings over partitions, with event times that are out
// of order within bounds, deterministically.
func newReadings(n int, random interface{ Int64N(int64) int64 }) []reading {
	const keys, step = 200, 5
	rs := make([]reading, n)
	for i := range rs {
		// A few keys have most of the records.
		key := int64(keys * math.Pow(float64(random.Int64N(1000))/1000, 2))
		rs[i] = reading{
			Index: int64(i), Key: key, Value: random.Int64N(1000),
			At: int64(i)*step - random.Int64N(disorder.Milliseconds()),
		}
	}
	return rs
}
