package stream

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/window"
)

// windowModel is what an aggregate over windows does, said plainly: counts of
// records by key and slice.
type windowModel struct {
	w        window.Assigner
	lateness int64
	wm       int64
	slices   map[int64]map[int64]int64
	late     int
}

func (m *windowModel) of(key int64, w window.Span) (n int64) {
	for at, count := range m.slices[key] {
		if w.Contains(at) {
			n += count
		}
	}
	return n
}

func result(key int64, w window.Span, n int64) string {
	return fmt.Sprintf("%d %d-%d=%d", key, w.Start, w.End, n)
}

// record returns what fires at once.
func (m *windowModel) record(key, ts int64) (out []string) {
	start, ok := m.w.SliceStart(ts)
	if !ok {
		return nil
	}
	if m.w.Late(ts, m.wm, m.lateness) {
		m.late++
		return nil
	}
	if m.slices[key] == nil {
		m.slices[key] = map[int64]int64{}
	}
	m.slices[key][start]++
	for w := range m.w.Windows(ts) {
		if w.MaxTimestamp() <= m.wm && w.Expiry(m.lateness) > m.wm {
			out = append(out, result(key, w, m.of(key, w)))
		}
	}
	return out
}

func (m *windowModel) advance(wm int64) (out []string) {
	for key, sl := range m.slices {
		seen := map[window.Span]bool{}
		for start := range sl {
			for w := range m.w.Windows(start) {
				if end := w.MaxTimestamp(); m.wm < end && end <= wm && !seen[w] {
					seen[w] = true
					out = append(out, result(key, w, m.of(key, w)))
				}
			}
		}
	}
	m.wm = max(m.wm, wm)
	m.expire()
	return out
}

func (m *windowModel) expire() {
	for _, sl := range m.slices {
		maps.DeleteFunc(sl, func(start, _ int64) bool { return m.w.Late(start, m.wm, m.lateness) })
	}
}

// windowRig is an aggregate operator at some parallelism, without a job.
type windowRig[Acc any] struct {
	t    *testing.T
	pool *memory.Pool
	ops  []*aggregateOp[int64, int64, Acc, int64, string]
	late *stage.Metrics
	out  []string
}

func (r *windowRig[Acc]) Receive(b *stage.Rows[string]) error {
	r.out = append(r.out, b.Vals...)
	return nil
}

const windowGroups = 5

// open starts the operator's subtasks, of a snapshot if there is one.
func (r *windowRig[Acc]) open(a agg.Aggregator[int64, Acc, int64], w window.Assigner, lateness time.Duration, parallelism int, from *stage.Restore) {
	r.t.Helper()
	body := &aggregateBody[int64, int64, Acc, int64, string]{sides: sides{}, windows: w, agg: a, emit: result, lateness: lateness}
	r.ops = nil
	for sub := range parallelism {
		op := body.NewOperator().(*aggregateOp[int64, int64, Acc, int64, string])
		if err := op.Connect("", r); err != nil {
			r.t.Fatal(err)
		}
		err := op.Open(&stage.Context{Operator: "op", Subtask: sub, Parallelism: parallelism, MaxParallelism: windowGroups,
			Logger: slog.New(slog.DiscardHandler), Metrics: r.late, Pool: r.pool, Restore: from})
		if err != nil {
			r.t.Fatal(err)
		}
		r.ops = append(r.ops, op)
	}
}

// taken returns what fired, in order of the text.
func (r *windowRig[Acc]) taken() []string {
	for _, op := range r.ops {
		if err := op.Flush(); err != nil {
			r.t.Fatal(err)
		}
	}
	out := r.out
	r.out = nil
	slices.Sort(out)
	return out
}

func (r *windowRig[Acc]) advance(wm int64, budget int) {
	for _, op := range r.ops {
		for more := true; more; {
			var err error
			if more, err = op.Advance(wm, budget); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

type windowSection struct {
	group int
	st    snapshot.State
	count int
	data  []byte
}

type windowSections struct {
	group int
	all   *[]windowSection
}

func (w windowSections) Section(st snapshot.State, count int, data []byte) error {
	*w.all = append(*w.all, windowSection{w.group, st, count, slices.Clone(data)})
	return nil
}

// freeze takes the parts of all subtasks.
func (r *windowRig[Acc]) freeze() (parts []stage.Part) {
	for _, op := range r.ops {
		p, err := op.Snapshot(nil)
		if err != nil {
			r.t.Fatal(err)
		}
		parts = append(parts, p)
	}
	return parts
}

// encode writes parts and releases them.
func (r *windowRig[Acc]) encode(parts []stage.Part) (all []windowSection) {
	for _, p := range parts {
		for g := p.Keyed.Groups().First; g <= p.Keyed.Groups().Last; g++ {
			if err := p.Keyed.EncodeGroup(g, windowSections{g, &all}); err != nil {
				r.t.Fatal(err)
			}
		}
		p.Keyed.Release()
	}
	return all
}

// snapshot returns the state of all subtasks, to be restored.
func (r *windowRig[Acc]) snapshot() *stage.Restore {
	parts := r.freeze()
	all := r.encode(parts)
	p := parts[0]
	return &stage.Restore{States: p.Keyed.States(), KeyFormat: p.Keyed.KeyFormat(), Watermark: p.Watermark,
		Keyed: func(groups keygroup.Range, fn func(int, snapshot.State, int, []byte) error) error {
			for _, s := range all {
				if groups.Contains(s.group) {
					if err := fn(s.group, s.st, s.count, s.data); err != nil {
						return err
					}
				}
			}
			return nil
		}}
}

func (r *windowRig[Acc]) close() {
	for _, op := range r.ops {
		if err := op.Close(); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestWindowsLikeTheirModel(t *testing.T) {
	for seed := range uint64(150) {
		size, slide := int64(1+seed%23), int64(1+seed*7%13)
		w := window.Sliding(time.Duration(size)*time.Millisecond, time.Duration(slide)*time.Millisecond,
			window.Offset(time.Duration(int64(seed)%(2*slide-1)-slide+1)*time.Millisecond))
		runWindows(t, seed, w, agg.Count[int64]())
		runWindows(t, seed, w, agg.Distinct(func(v int64) int64 { return v }))
	}
}

func runWindows[Acc any](t *testing.T, seed uint64, w window.Assigner, a agg.Aggregator[int64, Acc, int64]) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	lateness := rng.Int64N(3) * rng.Int64N(12)
	m := &windowModel{w: w, lateness: lateness, wm: math.MinInt64, slices: map[int64]map[int64]int64{}}
	r := &windowRig[Acc]{t: t, pool: memory.NewPool(0), late: &stage.Metrics{}}
	defer r.pool.Close()
	r.open(a, w, time.Duration(lateness)*time.Millisecond, 1+rng.IntN(3), nil)
	h, err := keygroup.NewHasher[int64]()
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, want []string) {
		t.Helper()
		slices.Sort(want)
		if got := r.taken(); !slices.Equal(got, want) {
			t.Fatalf("seed %d, %v, lateness %d, watermark %d, %s:\n got %v\nwant %v", seed, w, m.lateness, m.wm, what, got, want)
		}
	}
	var pending []stage.Part
	var asOfThen []windowSection
	settle := func() {
		t.Helper()
		if pending == nil {
			return
		}
		if got := r.encode(pending); !reflect.DeepEqual(got, asOfThen) {
			t.Fatalf("seed %d: a snapshot encoded later is another", seed)
		}
		pending = nil
	}
	base, value := rng.Int64N(200)-100, int64(0)
	for range 60 {
		base += rng.Int64N(8)
		if pending == nil && rng.IntN(6) == 0 {
			asOfThen, pending = r.encode(r.freeze()), r.freeze()
		} else if rng.IntN(6) == 0 {
			settle()
		}
		switch rng.IntN(5) {
		case 0:
			wm := base - rng.Int64N(30)
			if rng.IntN(10) == 0 {
				wm = base + 1000
				base = wm
			}
			r.advance(wm, 1+rng.IntN(4))
			var want []string
			if wm > m.wm {
				want = m.advance(wm)
			}
			check(fmt.Sprint("advance to ", wm), want)
		case 1:
			settle()
			from := r.snapshot()
			r.close()
			// It gets longer, or shorter, in one run: what is late for a shorter one
			// goes when its timers fire, and would be there for a longer one until then.
			if l := rng.Int64N(3) * rng.Int64N(12); l > m.lateness == (seed%2 == 0) {
				m.lateness = l
			}
			m.expire()
			r.open(a, w, time.Duration(m.lateness)*time.Millisecond, 1+rng.IntN(3), from)
		default:
			batches := make([]*stage.KeyedRows[int64, int64], len(r.ops))
			for i := range batches {
				batches[i] = &stage.KeyedRows[int64, int64]{}
			}
			var want []string
			for range rng.IntN(20) {
				key, ts := rng.Int64N(4), base+rng.Int64N(40)-20
				value++
				hash := h.Hash(key)
				b := batches[keygroup.Subtask(keygroup.Group(hash, windowGroups), len(r.ops), windowGroups)]
				b.Keys, b.Hashes = append(b.Keys, key), append(b.Hashes, hash)
				b.Vals, b.Times = append(b.Vals, value), append(b.Times, ts)
				want = append(want, m.record(key, ts)...)
			}
			for i, b := range batches {
				if err := r.ops[i].ReceiveKeyed(b); err != nil {
					t.Fatal(err)
				}
			}
			check("records", want)
		}
	}
	settle()
	r.advance(math.MaxInt64, 3)
	check("end", m.advance(math.MaxInt64))
	if got := r.late.Late.Load(); got != int64(m.late) {
		t.Fatalf("seed %d: %d late, want %d", seed, got, m.late)
	}
	for _, op := range r.ops {
		if n := op.store.Len(); n != 0 {
			t.Fatalf("seed %d: %d keys are left at the end", seed, n)
		}
	}
	r.close()
	if n := r.pool.InUse(); n != 0 {
		t.Fatalf("seed %d: %d bytes in use after Close", seed, n)
	}
}
