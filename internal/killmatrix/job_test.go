package killmatrix

import (
	"flag"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/kafka"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
	"github.com/weirstream/weir/window"
)

const (
	partitions = 4
	windowSize = time.Second
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

// errAsked fails an attempt on demand.
type errAsked struct{}

func (errAsked) Error() string { return "failure asked for" }

type counter struct {
	n    state.Value[int64]
	fail *atomic.Bool
}

func (c *counter) Process(ctx *stream.Ctx[int64, numbered], r reading) error {
	if c.fail.CompareAndSwap(true, false) {
		return errAsked{}
	}
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
	// records is the length of the input, 0 for one without end.
	records int64
	// atLeastOnce has the sinks promise less.
	atLeastOnce bool
	// fail, once set, fails the running attempt.
	fail atomic.Bool
}

func (j *job) define(f *flag.FlagSet) {
	f.StringVar(&j.servers, "servers", "", "Kafka brokers")
	f.StringVar(&j.in, "in", "", "topic to read")
	f.StringVar(&j.numbered, "numbered", "", "topic for numbered records")
	f.StringVar(&j.totals, "totals", "", "topic for totals")
	f.Int64Var(&j.records, "records", 0, "length of the input")
	f.BoolVar(&j.atLeastOnce, "at-least-once", false, "deliver at least once")
}

func (j *job) build(s *stream.Job) {
	servers := kafka.Brokers(strings.Split(j.servers, ",")...)
	source := []kafka.SourceOption{servers}
	if j.records > 0 {
		source = append(source, kafka.Until(kafka.Specific(j.ends())))
	}
	in := stream.From(s, "in", kafka.Source(j.in, codec.JSON[reading](), source...), watermark.Bounded(disorder, reading.time))
	keyed := stream.KeyBy(in, reading.key)
	count := func(r *state.Registry) *counter { return &counter{state.ValueIn[int64](r, "n"), &j.fail} }
	stream.To(stream.Process(keyed, "count", count), "numbered",
		kafka.Sink(j.numbered, codec.JSON[numbered](), servers, j.delivery(j.numbered)))
	totals := stream.Aggregate(keyed, "total", window.Tumbling(windowSize), agg.Sum(reading.value),
		func(key int64, w window.Span, sum int64) total { return total{key, w.Start, sum} })
	stream.To(totals, "totals", kafka.Sink(j.totals, codec.JSON[total](), servers, j.delivery(j.totals)))
}

// ends are the offsets that a whole input ends at, while it is still written.
func (j *job) ends() map[string]map[int32]int64 {
	ends := map[int32]int64{}
	for p := range int64(partitions) {
		ends[int32(p)] = (j.records + partitions - 1 - p) / partitions
	}
	return map[string]map[int32]int64{j.in: ends}
}

func (j *job) delivery(prefix string) kafka.SinkOption {
	if j.atLeastOnce {
		return kafka.AtLeastOnce()
	}
	return kafka.ExactlyOnce(prefix)
}

// newReadings makes n readings with event times that are out of order within
// bounds, deterministically.
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
