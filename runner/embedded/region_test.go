package embedded_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// soon is a restart strategy for tests of regions.
var soon = checkpoint.FixedDelay{Attempts: 100, Delay: ms}

// tally counts, in operator state, the records that its subtask has processed,
// and emits that at the end.
type tally struct{ seen state.OperatorList[int] }

func newTally(r *state.Registry) *tally { return &tally{state.OperatorListIn[int](r, "seen")} }

func (f *tally) Process(c *stream.Ctx[stream.NoKey, string], v string) error {
	n := 1
	for old := range f.seen.All() {
		n += old
	}
	f.seen.Update([]int{n})
	c.Emit(v)
	return nil
}

func (f *tally) EndInput(c *stream.Ctx[stream.NoKey, string]) error {
	for n := range f.seen.All() {
		c.Emit(fmt.Sprint("total ", n))
	}
	return nil
}

// breaking passes records on, and fails when it sees the given one while armed.
type breaking struct {
	at    string
	armed atomic.Bool
}

func (b *breaking) pass(v string) (string, error) {
	if v == b.at && b.armed.CompareAndSwap(true, false) {
		return "", errors.New("broken at " + v)
	}
	return v, nil
}

// One of two readers fails: it starts again from the checkpoint, and what it was
// assigned since comes back, once. The other one goes on as if nothing was.
func TestRegionStartsAgainAlone(t *testing.T) {
	for _, reassign := range []bool{false, true} {
		t.Run(fmt.Sprint("reassign ", reassign), func(t *testing.T) { regionStartsAgainAlone(t, reassign) })
	}
}

func regionStartsAgainAlone(t *testing.T, reassign bool) {
	var phase atomic.Int64 // how far splits are read
	src := &hands{splits: 6, length: 4, reassign: reassign}
	src.hold = func(split, n int) bool {
		switch phase.Load() {
		case 0: // two splits, one for each, to their middle
			return n >= 2
		case 1: // those of subtask 1 stay there, the other one reads three more
			return split == 1 && n >= 2 || split == 4 && n >= 3
		}
		return false
	}
	fail := &breaking{at: "4-2"}
	fail.armed.Store(true)
	out := collect.New[string]()
	r := launch(t, t.TempDir(), embedded.Options{Parallelism: 2, Restart: soon, WatermarkInterval: ms}, func(j *stream.Job) {
		// Splits 0 and 1 are asked for by whoever comes first.
		in := stream.From[string, hand, []int](j, "in", src)
		stream.To(stream.TryMap(stream.ProcessUnkeyed(in, "tally", newTally), fail.pass), "out", out)
	})
	visible(t, out, 4)
	at := map[string]int{}
	for _, rec := range out.Records() {
		at[rec.Value] = rec.Subtask
	}
	if at["0-0"] == at["1-0"] {
		t.Fatalf("one reader has both splits: %v", at)
	}
	id := r.checkpoint()
	phase.Store(1)
	if e := r.wait(embedded.RegionFailed); e.Err == nil || !strings.Contains(e.Err.Error(), "broken at 4-2") {
		t.Errorf("failed with %v", e.Err)
	}
	if e := r.wait(embedded.RegionRestarted); e.Checkpoint != id || e.Attempt != 1 {
		t.Errorf("restarted from %d in attempt %d, want %d in 1", e.Checkpoint, e.Attempt, id)
	}
	r.checkpoint() // of both, while they are held up
	phase.Store(2)
	r.end()
	if s := r.job.Status(); s.Attempt != 0 && s.Attempt != 1 || s.Restarts != 1 {
		t.Errorf("%d restarts, attempt %d", s.Restarts, s.Attempt)
	}
	wantHands(t, src, out, at, reassign)
}

// wantHands looks at what came out of the splits, of which at says who had 0 and 1.
func wantHands(t *testing.T, src *hands, out *collect.Sink[string], at map[string]int, reassign bool) {
	t.Helper()
	held := 0 // split of the reader that failed
	failed, alive := at["0-0"], at["1-0"]
	if src.readers[failed] != 2 || src.readers[alive] != 1 {
		t.Errorf("readers were made %v times, subtask %d failed", src.readers, failed)
	}
	back := []string{fmt.Sprint("2 from ", failed), fmt.Sprint("3 from ", failed), fmt.Sprint("4 from ", failed)}
	if reassign {
		back = append(back, fmt.Sprint("0 from ", failed))
	}
	want(t, "splits that came back", src.back, back...)
	times, total := map[string]int{}, 0
	for _, v := range out.Values() {
		var n int
		if _, err := fmt.Sscanf(v, "total %d", &n); err == nil {
			total += n
			continue
		}
		times[v]++
	}
	// The state is that of each record once.
	if total != src.splits*src.length {
		t.Errorf("the subtasks have counted %d records, want %d", total, src.splits*src.length)
	}
	for _, v := range src.records() {
		most := 1
		switch {
		case v == fmt.Sprint(held, "-2"), v == fmt.Sprint(held, "-3"), v[0] == '2', v[0] == '3', v == "4-0", v == "4-1":
			most = 2 // since the checkpoint; what was not passed on yet comes once
		}
		if times[v] == 0 || times[v] > most {
			t.Errorf("%s came %d times, want at most %d", v, times[v], most)
		}
	}
}

// Without a completed checkpoint a region begins where the attempt did: here,
// from nothing, or from a snapshot of another parallelism.
func TestRegionBeginsWhereTheAttemptDid(t *testing.T) {
	var held atomic.Bool
	held.Store(true)
	src := &hands{splits: 8, length: 5, hold: func(_, n int) bool { return held.Load() && n >= 2 }}
	fail := &breaking{at: "3-3"}
	dir, out := t.TempDir(), collect.New[string]()
	build := func(j *stream.Job) {
		in := stream.From[string, hand, []int](j, "in", src)
		stream.To(stream.TryMap(stream.ProcessUnkeyed(in, "tally", newTally), fail.pass), "out", out)
	}
	r := launch(t, dir, embedded.Options{Parallelism: 4}, build)
	visible(t, out, 8)
	r.suspend()
	held.Store(false)
	fail.armed.Store(true)
	src.readers = nil
	r = launch(t, dir, embedded.Options{Parallelism: 2, Restart: soon}, build)
	if e := r.wait(embedded.RegionRestarted); e.Checkpoint != 0 {
		t.Errorf("restarted from %d", e.Checkpoint)
	}
	r.end()
	if n := src.readers[0] + src.readers[1]; n != 3 {
		t.Errorf("readers were made %v times", src.readers)
	}
	total := 0
	for _, v := range out.Values() {
		var n int
		if _, err := fmt.Sscanf(v, "total %d", &n); err == nil {
			total += n
		}
	}
	if total != 8*5 {
		t.Errorf("the subtasks have counted %d records, want 40", total)
	}
}

// keyCount counts the records of a key and emits "key=count".
func keyCount(s stream.Stream[string], id string) stream.Stream[string] {
	return stream.Process(stream.KeyBy(s, func(v string) string { return id + v[strings.Index(v, "-"):] }), id, newCounter)
}

// Two pipelines of one job, with keyed state, of which one fails again and again
// while checkpoints are taken: its state is that of each record once, and the
// other one does not notice.
func TestRegionsFailUnderLoad(t *testing.T) {
	const rounds, atOnce, splits, length = 8, 200, 40, 50
	var countdown atomic.Int64
	broken, sound := &hands{splits: splits, length: length}, &hands{splits: splits, length: length}
	var brokenMay, soundMay atomic.Int64 // still read so many records
	quota := func(n *atomic.Int64) func(int, int) bool {
		return func(int, int) bool { return n.Add(-1) < 0 && n.Add(1) <= 0 }
	}
	broken.hold, sound.hold = quota(&brokenMay), quota(&soundMay)
	brokenOut, soundOut := collect.New[string](), collect.New[string]()
	r := launch(t, t.TempDir(), embedded.Options{
		Parallelism: 3, Restart: soon, WatermarkInterval: ms,
		Checkpoint: checkpoint.Options{Interval: ms, MaxConcurrent: 2, Incremental: true, TolerableFailures: 1000},
	}, func(j *stream.Job) {
		in := stream.TryMap(stream.From[string, hand, []int](j, "broken", broken), func(v string) (string, error) {
			if countdown.Add(-1) == 0 {
				return "", errors.New("broken at " + v)
			}
			return v, nil
		}, stream.ID("breaking"))
		stream.To(keyCount(in, "a"), "a-out", brokenOut)
		stream.To(keyCount(stream.From[string, hand, []int](j, "sound", sound), "b"), "b-out", soundOut)
	})
	for range rounds {
		countdown.Store(1 + rand.Int64N(atOnce/2))
		brokenMay.Store(atOnce)
		soundMay.Store(atOnce)
		r.wait(embedded.RegionRestarted)
		r.wait(embedded.CheckpointCompleted)
	}
	brokenMay.Store(math.MaxInt64)
	soundMay.Store(math.MaxInt64)
	r.end()
	if n := r.job.Status().Restarts; n != rounds {
		t.Errorf("%d restarts, want %d", n, rounds)
	}
	if slices.Contains(r.kinds(), "failed 0") {
		t.Errorf("the attempt failed: %v", r.kinds())
	}
	var counts []string
	for i := range length {
		for n := range splits {
			counts = append(counts, fmt.Sprintf("b-%d=%d", i, n+1))
		}
	}
	want(t, "the sound pipeline", soundOut.Values(), counts...)
	most := map[string]int{}
	for _, v := range brokenOut.Values() {
		key, count, _ := strings.Cut(v, "=")
		var n int
		fmt.Sscan(count, &n)
		most[key] = max(most[key], n)
	}
	for i := range length {
		if key := fmt.Sprintf("a-%d", i); most[key] != splits {
			t.Errorf("%s was counted to %d, want %d", key, most[key], splits)
		}
	}
}

// What a region that started again has come to is in the next checkpoint, from
// which the whole job goes on.
func TestRegionInTheNextCheckpoint(t *testing.T) {
	var phase atomic.Int64
	src := &hands{splits: 5, length: 6, hold: func(_, n int) bool { return int64(n) >= 2+2*phase.Load() }}
	fail := &breaking{at: "1-3"}
	fail.armed.Store(true)
	dir, out := t.TempDir(), collect.New[string]()
	build := func(j *stream.Job) {
		in := stream.From[string, hand, []int](j, "in", src)
		stream.To(stream.TryMap(stream.ProcessUnkeyed(in, "tally", newTally), fail.pass), "out", out)
	}
	r := launch(t, dir, embedded.Options{Parallelism: 2, Restart: soon, WatermarkInterval: ms}, build)
	visible(t, out, 4)
	first := r.checkpoint()
	phase.Store(1)
	if e := r.wait(embedded.RegionRestarted); e.Checkpoint != first {
		t.Errorf("restarted from %d, want %d", e.Checkpoint, first)
	}
	visible(t, out, 8)
	second := r.checkpoint()
	r.kill()
	phase.Store(2)
	r = launch(t, dir, embedded.Options{Parallelism: 2}, build)
	if e := r.wait(embedded.Started); e.Checkpoint != second {
		t.Errorf("started from %d, want %d", e.Checkpoint, second)
	}
	r.end()
	total := 0
	for _, v := range out.Values() {
		var n int
		if _, err := fmt.Sscanf(v, "total %d", &n); err == nil {
			total += n
		}
	}
	if total != 5*6 {
		t.Errorf("the subtasks have counted %d records, want 30", total)
	}
}

// stuck holds up snapshots of subtask 1, and then fails.
type stuck struct {
	arrived chan struct{}
	release *jobtest.Gate
	once    *sync.Once
	subtask int
}

func (f *stuck) Initialize(r *stream.Runtime) error {
	f.subtask = r.Subtask()
	return nil
}

func (f *stuck) Process(c *stream.Ctx[stream.NoKey, string], v string) error {
	var err error
	if f.subtask == 1 {
		f.once.Do(func() {
			close(f.arrived)
			f.release.Wait()
			err = errors.New("broken while a checkpoint is under way")
		})
	}
	c.Emit(v)
	return err
}

// A checkpoint that the region has no part in is given up, and does not count
// as a failure that is tolerable or not; the next one is whole.
func TestRegionFailsDuringACheckpoint(t *testing.T) {
	var held atomic.Bool
	held.Store(true)
	src := &hands{splits: 2, length: 4, hold: func(_, n int) bool { return held.Load() && n >= 3 }}
	f := stuck{arrived: make(chan struct{}), release: jobtest.NewGate(), once: &sync.Once{}}
	out := collect.New[string]()
	r := launch(t, t.TempDir(), embedded.Options{Parallelism: 2, Restart: soon, WatermarkInterval: ms}, func(j *stream.Job) {
		in := stream.From[string, hand, []int](j, "in", src)
		stream.To(stream.ProcessUnkeyed(in, "stuck", func(*state.Registry) *stuck { f := f; return &f }), "out", out)
	})
	select {
	case <-f.arrived:
	case <-r.ctx.Done():
		t.Fatal("it does not get stuck")
	}
	taken := make(chan error, 1)
	go func() {
		_, err := r.job.TakeCheckpoint(r.ctx)
		taken <- err
	}()
	r.passed(t, "in") // by subtask 0
	f.release.Open()
	wantError(t, <-taken, "a region of the job failed", "broken while a checkpoint is under way")
	r.wait(embedded.RegionRestarted)
	id := r.checkpoint()
	held.Store(false)
	r.end()
	if id < 2 {
		t.Errorf("the second checkpoint is %d", id)
	}
	if s := r.job.Status(); s.FailedCheckpoints != 1 {
		t.Errorf("%d failed checkpoints, want 1", s.FailedCheckpoints)
	}
}

// Where a region may not start again alone the attempt fails: with an
// exactly-once sink, if the strategy is full, or if there is one region only.
func TestWholeJobStartsAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		o    embedded.Options
		sink connector.Sink[string, collect.Committable]
		keys bool
	}{
		"exactly-once":  {sink: collect.NewExactlyOnce[string]()},
		"full failover": {o: embedded.Options{Failover: embedded.FailoverFull}, sink: collect.New[string]()},
		"shuffle":       {sink: collect.New[string](), keys: true},
	} {
		t.Run(name, func(t *testing.T) {
			src := &hands{splits: 4, length: 3}
			fail := &breaking{at: "2-1"}
			fail.armed.Store(true)
			tc.o.Parallelism, tc.o.Restart = 2, soon
			r := launch(t, t.TempDir(), tc.o, func(j *stream.Job) {
				s := stream.TryMap(stream.From[string, hand, []int](j, "in", src), fail.pass, stream.ID("breaking"))
				if tc.keys {
					s = keyCount(s, "a")
				}
				stream.To(s, "out", tc.sink)
			})
			r.wait(embedded.Failed)
			if e := r.wait(embedded.Started); e.Attempt != 2 {
				t.Errorf("attempt %d, want 2", e.Attempt)
			}
			r.end()
		})
	}
}

// When the strategy has no restart left the job fails, with the error of the
// region.
func TestRegionOutOfRestarts(t *testing.T) {
	src := &hands{splits: 4, length: 3}
	r := launch(t, t.TempDir(), embedded.Options{Parallelism: 2, Restart: checkpoint.FixedDelay{Attempts: 3, Delay: ms}}, func(j *stream.Job) {
		s := stream.TryMap(stream.From[string, hand, []int](j, "in", src), func(v string) (string, error) {
			if v == "2-1" {
				return "", errors.New("it is always broken")
			}
			return v, nil
		})
		stream.To(s, "out", collect.New[string]())
	})
	wantError(t, r.result(), "it is always broken")
	if n := r.job.Status().Restarts; n != 3 {
		t.Errorf("%d restarts, want 3", n)
	}
}

// A job can be suspended, and cancelled, while a region waits to start again.
func TestEndWhileARegionIsDown(t *testing.T) {
	for _, how := range []string{"suspend", "cancel", "savepoint"} {
		t.Run(how, func(t *testing.T) {
			src := &hands{splits: 4, length: 3, hold: func(split, n int) bool { return split != 1 && n >= 1 }}
			fail := &breaking{at: "1-1"}
			fail.armed.Store(true)
			r := launch(t, t.TempDir(), embedded.Options{Parallelism: 2, Restart: checkpoint.FixedDelay{Attempts: 3, Delay: never}}, func(j *stream.Job) {
				s := stream.TryMap(stream.From[string, hand, []int](j, "in", src), fail.pass)
				stream.To(s, "out", collect.New[string]())
			})
			r.wait(embedded.RegionFailed)
			switch how {
			case "suspend":
				r.suspend()
			case "cancel":
				r.kill()
			case "savepoint":
				answer := make(chan error, 1)
				go func() {
					_, err := r.job.TakeSavepoint(r.ctx, t.TempDir())
					answer <- err
				}()
				r.kill()
				if err := <-answer; err == nil {
					t.Error("a savepoint without a region")
				}
			}
		})
	}
}
