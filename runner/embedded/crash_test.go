package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

var errDead = errors.New("the process is dead to its storage")

// mortal is the storage as a process sees it that dies at its n-th operation:
// that one happens or not, and no later one does.
type mortal struct {
	storage.Blobs
	// happens tells that the fatal operation has its effect.
	happens bool

	mu   sync.Mutex
	left int
}

func immortal(b storage.Blobs) *mortal { return &mortal{Blobs: b, left: math.MaxInt} }

// use counts an operation and tells whether it has its effect and whether its
// answer arrives.
func (m *mortal) use() (effect, answer bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left--
	return m.left > 0 || m.left == 0 && m.happens, m.left > 0
}

func (m *mortal) died() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left <= 0
}

func (m *mortal) do(op func() error) error {
	effect, answer := m.use()
	if !effect {
		return errDead
	}
	if err := op(); answer {
		return err
	}
	return errDead
}

func (m *mortal) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	return m.do(func() error { return m.Blobs.Put(ctx, name, write) })
}

func (m *mortal) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return m.do(func() error { return m.Blobs.PutIfAbsent(ctx, name, data) })
}

func (m *mortal) Get(ctx context.Context, name string) (data []byte, err error) {
	err = m.do(func() error { data, err = m.Blobs.Get(ctx, name); return err })
	return data, err
}

func (m *mortal) GetRange(ctx context.Context, name string, off, n int64) (data []byte, err error) {
	err = m.do(func() error { data, err = m.Blobs.GetRange(ctx, name, off, n); return err })
	return data, err
}

func (m *mortal) List(ctx context.Context, prefix string, fn func(string, int64) error) error {
	return m.do(func() error { return m.Blobs.List(ctx, prefix, fn) })
}

func (m *mortal) Delete(ctx context.Context, name string) error {
	return m.do(func() error { return m.Blobs.Delete(ctx, name) })
}

// crashJob counts two splits by key, with a gate in each of them per stage.
type crashJob struct {
	out   *collect.Sink[string]
	gates []*jobtest.Gate
	build func(*stream.Job)
	want  []string
}

func newCrashJob(stages int) *crashJob {
	c := &crashJob{out: collect.NewExactlyOnce[string]()}
	keys := numbered("k", 7)
	var splits [2][]jobtest.Item[string]
	for range stages {
		for i := range splits {
			g := jobtest.NewGate()
			c.gates = append(c.gates, g)
			splits[i] = script(splits[i], records(keys...), hold(g))
		}
	}
	for i := range splits {
		splits[i] = script(splits[i], records(keys...))
	}
	c.build = countJob(c.out, splits[0], splits[1])
	c.want = counted(1, 2*(stages+1), keys...)
	return c
}

// start runs the job on the storage until it ends.
func (c *crashJob) start(t *testing.T, blobs *mortal, parallelism int) error {
	return c.startWith(t, blobs, blobs.died, parallelism, func(*embedded.Job, context.CancelFunc) {})
}

// startWith runs the job, with a checkpoint, and every other time a savepoint,
// whenever the gates of a stage are reached. While troubled these may fail.
func (c *crashJob) startWith(t *testing.T, blobs storage.Blobs, troubled func() bool, parallelism int, made func(*embedded.Job, context.CancelFunc)) error {
	dir := t.TempDir()
	o := embedded.Options{
		Parallelism: parallelism, MaxParallelism: 16, Storage: blobs, Restart: checkpoint.None{},
		Checkpoint: checkpoint.Options{Dir: "memory:", Interval: never, Retained: 1},
	}
	job := jobtest.Job(t, o, c.build)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made(job, cancel)
	var driven sync.WaitGroup
	driven.Go(func() {
		for i := 0; i < len(c.gates); i += 2 {
			for _, g := range c.gates[i : i+2] {
				select {
				case <-g.Reached():
				case <-ctx.Done():
					return
				}
			}
			// Refused by a job that is at its end, or dead.
			_, err := job.Checkpoint(ctx)
			if err == nil && i%4 == 2 {
				_, err = job.Savepoint(ctx, filepath.Join(dir, "savepoints"))
			}
			if err != nil && ctx.Err() == nil && !troubled() && !tooLate(err) {
				t.Errorf("a snapshot of a living job: %v", err)
			}
			c.gates[i].Open()
			c.gates[i+1].Open()
		}
	})
	err := job.Run(ctx)
	cancel()
	driven.Wait()
	return err
}

func tooLate(err error) bool {
	return errors.Is(err, coord.ErrStopping) || errors.Is(err, coord.ErrEnded) || errors.Is(err, embedded.ErrNotRunning) ||
		strings.Contains(err.Error(), "a later checkpoint was written first")
}

// TestCrashBetweenStorageOperations ends the process at each of its storage
// operations in turn, and starts the job again.
func TestCrashBetweenStorageOperations(t *testing.T) {
	for _, happens := range []bool{false, true} {
		for n := 1; ; n++ {
			if !crashAt(t, n, happens) {
				t.Logf("%d operations", n-1)
				break
			}
		}
	}
}

func crashAt(t *testing.T, n int, happens bool) (died bool) {
	c, blobs := newCrashJob(3), mem.New()
	first := &mortal{Blobs: blobs, left: n, happens: happens}
	err := c.start(t, first, 2)
	died = first.died()
	if err == nil && died {
		t.Logf("operation %d, happens %v: no error", n, happens)
	}
	if !died && err != nil {
		t.Fatalf("a run without a crash: %v", err)
	}
	for _, g := range c.gates {
		g.Open()
	}
	if err := c.start(t, immortal(blobs), 3); err != nil && !errors.Is(err, coord.ErrFinished) {
		t.Fatalf("start after a crash at operation %d (happens %v): %v", n, happens, err)
	}
	c.check(t, fmt.Sprintf("crash at operation %d, happens %v", n, happens))
	return died
}

func (c *crashJob) check(t *testing.T, when string) {
	t.Helper()
	got := slices.Sorted(slices.Values(c.out.Values()))
	if !slices.Equal(got, slices.Sorted(slices.Values(c.want))) {
		t.Fatalf("%s:\n got %v\nwant %v", when, got, c.want)
	}
	if n := c.out.Prepared(); n != 0 {
		t.Errorf("%s: %d transactions are left open", when, n)
	}
}

// TestCrashesInARow ends several processes in a row, each at a random storage
// operation.
func TestCrashesInARow(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		c, blobs := newCrashJob(3), mem.New()
		for range 1 + r.IntN(6) {
			m := &mortal{Blobs: blobs, left: 1 + r.IntN(40), happens: r.IntN(2) == 0}
			err := c.start(t, m, 1+r.IntN(3))
			if err != nil && !m.died() && !errors.Is(err, coord.ErrFinished) {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for _, g := range c.gates {
			g.Open()
		}
		if err := c.start(t, immortal(blobs), 2); err != nil && !errors.Is(err, coord.ErrFinished) {
			t.Fatalf("seed %d: the last start: %v", seed, err)
		}
		c.check(t, fmt.Sprintf("seed %d", seed))
	}
}
