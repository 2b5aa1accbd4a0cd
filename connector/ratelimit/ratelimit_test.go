package ratelimit

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/datagen"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seat is a reader's context.
type seat struct {
	connector.ReaderContext
	subtask, of int
	interval    time.Duration
	woken       chan struct{}
}

func newSeat(subtask, of int) seat {
	return seat{subtask: subtask, of: of, woken: make(chan struct{}, 1)}
}

func (s seat) Subtask() int             { return s.subtask }
func (s seat) Parallelism() int         { return s.of }
func (s seat) Config() connector.Config { return connector.Config{CheckpointInterval: s.interval} }
func (s seat) Wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// eater emits all that it is allowed.
type eater struct {
	eaten atomic.Int64
	share Share
}

func join(t *testing.T, l Limiter, s seat) Share {
	t.Helper()
	share, err := l.Join(s)
	if err != nil {
		t.Fatal(err)
	}
	return share
}

// eat starts an eater, which ends with ctx.
func eat(ctx context.Context, t *testing.T, l Limiter, s seat) *eater {
	t.Helper()
	e := &eater{share: join(t, l, s)}
	go func() {
		defer e.share.Close()
		for ctx.Err() == nil {
			if n := e.share.Allow(100); n > 0 {
				e.eaten.Add(int64(n))
				e.share.Used(n, true)
				continue
			}
			select {
			case <-s.woken:
			case <-ctx.Done():
			}
		}
	}()
	return e
}

// between checks how many were eaten since the last call.
func (e *eater) between(t *testing.T, low, high int64) {
	t.Helper()
	synctest.Wait()
	if n := e.eaten.Swap(0); n < low || n > high {
		t.Errorf("%d records, want %d to %d", n, low, high)
	}
}

func TestRateIsSharedByWhoHasRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := PerSecond(1000)
		join(t, r, newSeat(2, 3)) // has never anything
		a := eat(ctx, t, r, newSeat(0, 3))
		time.Sleep(10 * time.Second)
		a.between(t, 9990, 10100)

		b := eat(ctx, t, r, newSeat(1, 3))
		time.Sleep(10 * time.Second)
		a.between(t, 4990, 5100)
		b.between(t, 4990, 5100)

		cancel()
		synctest.Wait()
		if r.busy != 0 || len(r.shares) != 1 {
			t.Errorf("%d busy of %d shares after two were given back, want 0 of 1", r.busy, len(r.shares))
		}
	})
}

func TestRateIsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := PerSecond(0)
		e := eat(ctx, t, r, newSeat(0, 1))
		time.Sleep(time.Hour)
		e.between(t, 0, 0)
		for _, rate := range []float64{100, 10_000, 0.1} {
			if err := r.Set(rate); err != nil {
				t.Fatal(err)
			}
			if r.PerSecond() != rate {
				t.Errorf("rate %v, want %v", r.PerSecond(), rate)
			}
			time.Sleep(100 * time.Second)
			want := int64(100 * rate)
			e.between(t, want-want/100, want+want/50+1)
		}
		if err := r.Set(-1); err == nil || r.PerSecond() != 0.1 {
			t.Errorf("a rate of -1: error %v, rate %v", err, r.PerSecond())
		}
	})
}

// What cannot be cut apart goes together, and is paid for afterwards.
func TestMoreThanAllowedIsADebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeat(0, 1)
		share := join(t, PerSecond(10), s)
		defer share.Close()
		time.Sleep(time.Second)
		if n := share.Allow(100); n != 1 {
			t.Fatalf("%d records after a second of silence, want the one of a tenth of it", n)
		}
		share.Used(51, true)
		begin := time.Now()
		for share.Allow(100) == 0 {
			<-s.woken
		}
		if waited := time.Since(begin); waited < 5*time.Second || waited > 5200*time.Millisecond {
			t.Errorf("waited %v for the next record, want 5.1 s", waited)
		}

		share.Used(31, false) // three seconds, in which there is nothing to emit
		time.Sleep(4 * time.Second)
		if n := share.Allow(100); n != 1 {
			t.Errorf("%d records when a debt was paid in silence, want 1", n)
		}
	})
}

func TestRatesThatAreNone(t *testing.T) {
	for _, n := range []float64{-1, math.NaN(), math.Inf(-1)} {
		if _, err := PerSecond(n).Join(newSeat(0, 1)); err == nil || !strings.Contains(err.Error(), "not below 0") {
			t.Errorf("rate of %v: %v", n, err)
		}
	}
	share := join(t, PerSecond(math.Inf(1)), newSeat(0, 1))
	defer share.Close()
	for range 3 {
		if n := share.Allow(1000); n != 1000 {
			t.Fatalf("%d of 1000 records without a limit", n)
		}
		share.Used(1000, true)
	}
}

func TestPerCheckpoint(t *testing.T) {
	with := func(s seat) seat { s.interval = time.Second; return s }
	a, b := join(t, PerCheckpoint(5), with(newSeat(0, 2))), join(t, PerCheckpoint(5), with(newSeat(1, 2)))
	steps := []struct {
		share Share
		want  int
		use   int
	}{{a, 3, 2}, {a, 1, 1}, {a, 0, 0}, {b, 2, 5}, {b, 0, 0}}
	for i, s := range steps {
		if n := s.share.Allow(100); n != s.want {
			t.Fatalf("step %d: %d records, want %d", i, n, s.want)
		}
		s.share.Used(s.use, true)
	}
	a.CheckpointComplete()
	b.CheckpointComplete()
	if n := a.Allow(100); n != 3 {
		t.Errorf("%d records after the checkpoint, want 3", n)
	}
	if n := b.Allow(100); n != 0 {
		t.Errorf("%d records after a checkpoint before which there were 3 too many, want 0", n)
	}
	b.CheckpointComplete()
	b.CheckpointComplete()
	if n := b.Allow(100); n != 2 {
		t.Errorf("%d records after two further checkpoints, want the 2 of one", n)
	}

	if _, err := PerCheckpoint(1).Join(with(newSeat(0, 2))); err == nil || !strings.Contains(err.Error(), "at least 2") {
		t.Errorf("one record for two readers: %v", err)
	}
	if _, err := PerCheckpoint(5).Join(newSeat(0, 1)); err == nil || !strings.Contains(err.Error(), "execution.checkpointing.interval") {
		t.Errorf("without checkpoints: %v", err)
	}
}

func TestAcceptance(t *testing.T) {
	values := slices.Collect(func(yield func(int64) bool) {
		for i := range int64(24) {
			if !yield(i) {
				return
			}
		}
	})
	connectortest.TestSource(t, connectortest.SourceSuite[int64, datagen.Split, datagen.Enumeration]{
		New: func() connector.Source[int64, datagen.Split, datagen.Enumeration] {
			return Limit(datagen.Source(24, func(i int64) int64 { return i }), PerSecond(20_000))
		},
		Want: values,
		Time: func(v int64) int64 { return v },
	})
}
