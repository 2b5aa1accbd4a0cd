package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// control decides what the source makes. It is shared by all its subtasks, and
// goes on after a restore: the source itself forgets nothing that matters, for
// any key may come at any time.
type control struct {
	keys int64
	// made counts records.
	made atomic.Int64
	// set is how many keys are updated, base the first of them.
	set, base atomic.Int64
	// processed is closed when the first record is.
	mu        sync.Mutex
	processed chan struct{}
}

func newControl(keys int64) *control {
	c := &control{keys: keys}
	c.set.Store(keys)
	return c
}

// key is that of the next record: first each once, then those of the set in
// turn. Numbers that follow one another are far apart.
func (c *control) key(int64) int64 {
	n := c.made.Add(1) - 1
	if n >= c.keys {
		n = (c.base.Load() + n%c.set.Load()) % c.keys
	}
	return int64(uint64(n) * 2654435761 % uint64(c.keys))
}

// first tells of a record that is processed.
func (c *control) first() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.processed != nil {
		close(c.processed)
		c.processed = nil
	}
}

// narrow counts in a value of 8 bytes, wide in one of 100.
type narrow struct {
	n    state.Value[int64]
	c    *control
	told bool
}

type wide struct {
	v    state.Value[value]
	c    *control
	told bool
}

type value struct {
	N    int64
	Rest [92]byte
}

func (w *narrow) Process(_ *stream.Ctx[int64, int64], _ int64) error {
	n, err := w.n.Get()
	if err != nil {
		return err
	}
	if !w.told {
		w.told = true
		w.c.first()
	}
	return w.n.Set(n + 1)
}

func (w *wide) Process(_ *stream.Ctx[int64, int64], key int64) error {
	v, err := w.v.Get()
	if err != nil {
		return err
	}
	if !w.told {
		w.told = true
		w.c.first()
	}
	if v.N == 0 { // bytes that cannot be compressed
		for i := 0; i+8 <= len(v.Rest); i += 8 {
			binary.LittleEndian.PutUint64(v.Rest[i:], mix64(uint64(key)^uint64(i)<<40))
		}
	}
	v.N++
	return w.v.Set(v)
}

// mix64 is the finalizer of SplitMix64.
func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// running is a job that runs.
type running struct {
	job    *embedded.Job
	dir    string
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
	first  chan struct{}
	// seen are the files that were there at the last look.
	seen map[fileID]bool
}

var errEnough = errors.New("all is measured")

func start(ctx context.Context, f flags, c *control, parallelism int) (*running, error) {
	j := stream.NewJob("snapshots")
	j.Parallelism(parallelism)
	in := stream.KeyBy(stream.From(j, "source", datagen.Source(-1, c.key)), func(k int64) int64 { return k })
	if f.valueBytes == 8 {
		stream.To(stream.Process(in, "count", func(r *state.Registry) *narrow {
			return &narrow{n: state.ValueIn[int64](r, "count"), c: c}
		}), "discard", connector.Discard[int64]())
	} else {
		stream.To(stream.Process(in, "count", func(r *state.Registry) *wide {
			return &wide{v: state.ValueIn[value](r, "count"), c: c}
		}), "discard", connector.Discard[int64]())
	}
	g, err := j.Build()
	if err != nil {
		return nil, err
	}
	o := embedded.Options{
		Parallelism: parallelism, Restart: checkpoint.None{}, StateBackend: embedded.Backend(f.backend), LSMDir: f.localDir, Logger: f.log,
		// Checkpoints are asked for.
		Checkpoint: checkpoint.Options{Interval: 1000 * time.Hour, Timeout: time.Hour, Dir: f.dir},
	}
	if f.backend == string(embedded.LSM) {
		o.LSMMemory = f.memory
	} else {
		o.HeapMemory = f.memory
	}
	r := &running{dir: f.dir, ended: make(chan struct{}), first: make(chan struct{}), seen: map[fileID]bool{}}
	if r.job, err = embedded.New(g, o); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.processed = r.first
	c.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	r.cancel = func() { cancel(errEnough) }
	go func() {
		defer close(r.ended)
		if err := r.job.Run(ctx); !errors.Is(err, errEnough) {
			r.err = err
		}
	}()
	return r, nil
}

// stop ends the job, as a crash would: its last checkpoint stays.
func (r *running) stop() error {
	r.cancel()
	<-r.ended
	return r.err
}

// await waits until n more records are made, and a few that push them on.
func (r *running) await(c *control, n int64) error {
	return r.awaitMade(c, c.made.Load()+n+10_000)
}

func (r *running) awaitMade(c *control, n int64) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for c.made.Load() < n {
		select {
		case <-tick.C:
		case <-r.ended:
			return errors.Join(errors.New("the job has ended"), r.err)
		}
	}
	return nil
}

func (r *running) awaitFirst() error {
	select {
	case <-r.first:
		return nil
	case <-r.ended:
		return errors.Join(errors.New("the job has ended"), r.err)
	}
}

// checkpoints takes a checkpoint of everything, and then those of the
// percentages.
func (r *running) checkpoints(ctx context.Context, f flags, c *control) error {
	if err := r.checkpoint(ctx, f, c, measurement{What: "checkpoint, the first"}); err != nil {
		return err
	}
	for _, percent := range f.changed {
		c.set.Store(max(f.keys*int64(percent)/100, 1))
		// The first one may have changes of the percentage before.
		for _, m := range []measurement{{What: "checkpoint, getting there"}, {What: "checkpoint", Changed: percent}} {
			if f.moving {
				c.base.Add(c.set.Load())
			}
			begin := time.Now()
			if err := r.await(c, c.set.Load()); err != nil {
				return err
			}
			m.PerSecond = float64(c.set.Load()) / time.Since(begin).Seconds()
			if err := r.checkpoint(ctx, f, c, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkpoint takes a checkpoint and shows what it cost.
func (r *running) checkpoint(ctx context.Context, f flags, c *control, m measurement) error {
	begin, made := time.Now(), c.made.Load()
	if _, err := r.job.Checkpoint(ctx); err != nil {
		return err
	}
	m.Seconds = time.Since(begin).Seconds()
	m.During = float64(c.made.Load()-made) / m.Seconds
	var err error
	if m.Written, err = r.written(); err != nil {
		return err
	}
	f.show(m)
	return nil
}

// fileID tells files apart, also where one has two names or a number is used
// again.
type fileID struct {
	inode    uint64
	size     int64
	modified int64
}

// written is how much is in files that were not there at the last look.
func (r *running) written() (n int64, err error) {
	err = filepath.WalkDir(r.dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		id := fileID{size: info.Size(), modified: info.ModTime().UnixNano()}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			id.inode = s.Ino
		}
		if !r.seen[id] {
			r.seen[id] = true
			n += id.size
		}
		return nil
	})
	return n, err
}
