package embedded_test

import (
	"maps"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
)

// informed is a source that notes what its contexts say, and measures.
type informed struct {
	*datagen.Sequence[int64]

	reader, enumerator chan connector.Config
	hosts              chan string
	measured           chan struct{}
}

func (s *informed) NewEnumerator(ctx connector.EnumeratorContext[datagen.Split], restored *datagen.Enumeration) (connector.Enumerator[datagen.Split, datagen.Enumeration], error) {
	s.enumerator <- ctx.Config()
	ctx.Count("discoveries", 2)
	ctx.SetGauge("known", "", 7)
	inner, err := s.Sequence.NewEnumerator(ctx, restored)
	return informedEnumerator{inner, s}, err
}

type informedEnumerator struct {
	connector.Enumerator[datagen.Split, datagen.Enumeration]
	source *informed
}

func (e informedEnumerator) HandleSplitRequest(_ int, host string) error {
	e.source.hosts <- host
	return nil
}

func (s *informed) NewReader(ctx connector.ReaderContext) (connector.Reader[int64, datagen.Split], error) {
	s.reader <- ctx.Config()
	s.hosts <- ctx.Host()
	ctx.RequestSplit()
	inner, err := s.Sequence.NewReader(ctx)
	return &informedReader{inner, ctx, s, false}, err
}

type informedReader struct {
	connector.Reader[int64, datagen.Split]
	ctx      connector.ReaderContext
	source   *informed
	measured bool
}

func (r *informedReader) Poll(out *connector.Output[int64]) (connector.Status, error) {
	status, err := r.Reader.Poll(out)
	r.ctx.SetGauge("pending", "", 5)
	r.ctx.SetGauge("pending", "split", 3)
	if !r.measured {
		r.measured = true
		r.source.measured <- struct{}{}
	}
	return status, err
}

func TestContextsOfASource(t *testing.T) {
	src := &informed{
		reader: make(chan connector.Config, 2), enumerator: make(chan connector.Config, 1),
		hosts: make(chan string, 4), measured: make(chan struct{}, 2),
		Sequence: datagen.Source(-1, func(i int64) int64 { return i }),
	}
	reg := prometheus.NewRegistry()
	out := collect.New[int64]()
	r := launch(t, t.TempDir(), embedded.Options{Parallelism: 2, Registerer: reg}, func(j *stream.Job) {
		stream.To(stream.From(j, "numbers", src), "out", out)
	})
	want := connector.Config{Job: r.job.Status().Job, Operator: "numbers", Attempt: 1, MaxParallelism: 128, CheckpointInterval: never, CheckpointTimeout: 10 * time.Minute}
	for _, got := range []connector.Config{<-src.reader, <-src.reader, <-src.enumerator} {
		if got != want {
			t.Errorf("config %+v, want %+v", got, want)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for range 4 { // of two readers, and of their requests
		if got := <-src.hosts; got != host {
			t.Errorf("host %q, want %q", got, host)
		}
	}
	<-src.measured
	<-src.measured
	op := r.job.Status().Operators[0]
	gauges := []embedded.Gauge{{Name: "known", Value: 7}, {Name: "pending", Value: 10}, {Name: "pending", Split: "split", Value: 6}}
	if op.Counters["discoveries"] != 2 || !slices.Equal(op.Gauges, gauges) {
		t.Errorf("counters %v and values %v, want %v", op.Counters, op.Gauges, gauges)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "weir_source_value" { // labels: job, name, operator, split
				exported[m.GetLabel()[1].GetValue()+"/"+m.GetLabel()[3].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	r.cancel()
	<-r.done
	if want := map[string]float64{"known/": 7, "pending/": 10, "pending/split": 6}; !maps.Equal(exported, want) {
		t.Errorf("exported %v, want %v", exported, want)
	}
}

// divided is a source whose reader reads its split as two of its own, the first
// of which brings nothing for a while.
type divided struct{ *datagen.Sequence[int64] }

func (s divided) NewReader(ctx connector.ReaderContext) (connector.Reader[int64, datagen.Split], error) {
	inner, err := s.Sequence.NewReader(ctx)
	return &dividing{Reader: inner, ctx: ctx}, err
}

type dividing struct {
	connector.Reader[int64, datagen.Split]
	ctx     connector.ReaderContext
	step    int
	divided []string
}

func (r *dividing) AddSplits(splits []datagen.Split) error {
	for _, s := range splits {
		r.divided = append(r.divided, s.SplitID())
	}
	return r.Reader.AddSplits(splits)
}

func (r *dividing) Poll(out *connector.Output[int64]) (connector.Status, error) {
	if len(r.divided) == 0 {
		return connector.Nothing, nil
	}
	emit := func(split string, v int64) (connector.Status, error) {
		r.ctx.SetGauge("last", split, v)
		out.SetSplit(split)
		out.Emit(v)
		return connector.More, nil
	}
	r.step++
	switch r.step {
	case 1:
		out.OpenSplit("slow")
		out.OpenSplit("fast")
		out.FinishSplit(r.divided[0])
	case 2:
		return emit("fast", 1000)
	case 3:
		return emit("slow", 100)
	case 4:
		out.FinishSplit("slow")
	case 5:
		return emit("fast", 2000)
	default:
		return connector.Nothing, nil
	}
	return connector.More, nil
}

type seen struct{ Value, Watermark int64 }

type watcher struct{}

func (watcher) Process(c *stream.Ctx[stream.NoKey, seen], v int64) error {
	c.Emit(seen{v, c.Watermark()})
	return nil
}

// A split that a reader opens holds back event time from then on, not only
// from its first record; finished, it does not, and its values go.
func TestSplitsOfAReader(t *testing.T) {
	at := func(v int64) time.Time { return time.UnixMilli(v) }
	each := watermark.Punctuated(func(_ int64, at time.Time) (time.Time, bool) { return at, true })
	out := collect.New[seen]()
	r := launch(t, t.TempDir(), embedded.Options{Parallelism: 1}, func(j *stream.Job) {
		numbers := stream.From(j, "numbers", divided{datagen.FromSlice([]int64{3000})}, watermark.Custom(each, at))
		stream.To(stream.ProcessUnkeyed(numbers, "watch", func(*state.Registry) watcher { return watcher{} }), "out", out)
	})
	if err := out.Wait(r.ctx, 3); err != nil {
		t.Fatal(err)
	}
	want := []seen{{1000, math.MinInt64}, {100, math.MinInt64}, {2000, 1000}}
	if got := out.Values(); !slices.Equal(got, want) {
		t.Errorf("records with the watermark they met: %v, want %v", got, want)
	}
	gauges := []embedded.Gauge{{Name: "last", Split: "fast", Value: 2000}}
	if got := r.job.Status().Operators[0].Gauges; !slices.Equal(got, gauges) {
		t.Errorf("values %v, want %v", got, gauges)
	}
	r.cancel()
	<-r.done
}
