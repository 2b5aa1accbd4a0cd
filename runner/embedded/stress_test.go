package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// summer sums the values of a key and emits the sum at the end of the input.
type summer struct {
	sum state.Value[int64]
	end state.Timers
}

func newSummer(r *state.Registry) *summer {
	return &summer{state.ValueIn[int64](r, "sum"), state.EventTimers(r)}
}

func (f *summer) Process(c *stream.Ctx[int64, int64], v int64) error {
	n, err := f.sum.Get()
	if err != nil {
		return err
	}
	return errors.Join(f.sum.Set(n+v), f.end.Set(time.UnixMilli(math.MaxInt64)))
}

func (f *summer) OnTimer(c *stream.Ctx[int64, int64], _ time.Time) error {
	n, err := f.sum.Get()
	c.Emit(n*1000 + c.Key())
	return err
}

const (
	stressRecords = 4
	// stressFan is above what a queue takes of one record, overdraft included.
	stressFan  = 76_000
	stressKeys = 17
)

// diamond is a job whose one source ends at once, and whose other one reaches
// the same stage over two ways, through queues that its records overflow.
func diamond(out *collect.Sink[int64], failAt int64) func(*stream.Job) {
	var failed atomic.Bool
	return func(j *stream.Job) {
		many := make([]int64, stressRecords)
		for i := range many {
			many[i] = int64(i)
		}
		a := stream.FromSlice(j, "many", many)
		b := stream.FromSlice(j, "few", []int64{5})
		fan := stream.FlatMap(a, func(v int64, emit func(int64)) {
			for i := range int64(stressFan) {
				emit(v + i)
			}
		}, stream.ID("fan"))
		checked := stream.TryMap(fan, func(v int64) (int64, error) {
			if v == failAt && failed.CompareAndSwap(false, true) {
				return 0, fmt.Errorf("failing at %d", v)
			}
			return v, nil
		}, stream.ID("check"), stream.Parallelism(2))
		key := func(v int64) int64 { return v % stressKeys }
		long := stream.Map(checked, func(v int64) int64 { return v }, stream.ID("long"), stream.Parallelism(3))
		all := stream.Union(long, fan, b)
		stream.To(stream.Process(stream.KeyBy(all, key), "sum", newSummer), "out", out, stream.Parallelism(1))
	}
}

func diamondSums() []string {
	var sums [stressKeys]int64
	for v := range int64(stressRecords) {
		for i := range int64(stressFan) {
			sums[(v+i)%stressKeys] += 2 * (v + i)
		}
	}
	sums[5] += 5
	var want []string
	for k, n := range sums {
		want = append(want, fmt.Sprint(n*1000+int64(k)))
	}
	return want
}

// TestDiamondUnderPressure takes checkpoints and savepoints as fast as they
// come, several at a time, with timeouts too short for most of them, while
// queues overflow: nothing stands still, and the sums are right.
func TestDiamondUnderPressure(t *testing.T) {
	expected := diamondSums()
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 1))
		out := collect.NewExactlyOnce[int64]()
		dir := t.TempDir()
		r := launch(t, checkpoint.Memory, embedded.Options{
			Parallelism: 1 + random.IntN(3), Restart: checkpoint.FixedDelay{Attempts: 5, Delay: ms}, BufferTimeout: ms,
			Checkpoint: checkpoint.Options{
				Interval: ms, MaxConcurrent: 1 + random.IntN(4), TolerableFailures: checkpoint.Unlimited,
				Timeout: time.Duration(10+random.IntN(60)) * ms,
			},
		}, diamond(out, random.Int64N(stressFan)))
		r.savepoints(dir)
		r.end()
		var got []string
		for _, v := range out.Values() {
			got = append(got, fmt.Sprint(v))
		}
		want(t, fmt.Sprint("seed ", seed), got, expected...)
	}
}

// savepoints takes one savepoint after the other until the job ends.
func (r *run) savepoints(dir string) {
	r.wait(embedded.Started)
	ctx, cancel := context.WithCancel(r.ctx)
	var taking sync.WaitGroup
	taking.Go(func() {
		for ctx.Err() == nil {
			if _, err := r.job.Savepoint(ctx, dir); errors.Is(err, embedded.ErrNotRunning) {
				return
			}
		}
	})
	r.t.Cleanup(func() { cancel(); taking.Wait() })
}
